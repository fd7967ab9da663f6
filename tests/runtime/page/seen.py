"""What a page is checked for in a browser: scripts that look at all of it."""

from __future__ import annotations

LOW_CONTRAST = """
const numbers = (text) => text.match(/[\\d.]+(e-?\\d+)?/g).map(Number);
const rgba = (text) => {
  const found = numbers(text.replace('srgb', ''));
  const [r, g, b] = text.startsWith('color(') ? found.slice(0, 3).map((part) => 255 * part) : found;
  return [r, g, b, found[3] ?? 1];
};
const over = (above, below) => [0, 1, 2].map((i) => above[3] * above[i] + (1 - above[3]) * below[i]).concat(1);
const ground = (node) => {
  const own = node ? rgba(getComputedStyle(node).backgroundColor) : [255, 255, 255, 1];
  return own[3] === 1 ? own : over(own, ground(node.parentElement));
};
const light = (color) => {
  const [r, g, b] = color.slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratio = (one, other) => {
  const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
};
const low = [];
let looked = 0;
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const node = texts.currentNode.parentElement;
  if (!texts.currentNode.data.trim() || !node.checkVisibility() || node.closest('.unseen, noscript')) continue;
  looked += 1;
  const behind = ground(node);
  const found = ratio(over(rgba(getComputedStyle(node).color), behind), behind);
  if (found < 4.5) low.push(`${found.toFixed(2)}: ${node.className || node.tagName}: ${texts.currentNode.data}`);
}
const input = document.querySelector('input');
const edge = ratio(rgba(getComputedStyle(input).borderTopColor), ground(input.parentElement));
if (edge < 3) low.push(`${edge.toFixed(2)}: the edge of the field`);
return [looked, low];
"""
"""How many texts are seen, and those whose contrast with what is behind them is less than WCAG 2.2 asks for."""

TOO_WIDE = """
const width = document.documentElement.clientWidth;
return [...document.querySelectorAll('body *')]
  .filter((node) => node.checkVisibility() && !node.closest('.unseen, svg, thead'))
  .filter((node) => node.getBoundingClientRect().right > width + 0.5 || node.scrollWidth > node.clientWidth + 1)
  .filter((node) => getComputedStyle(node).display !== 'inline')
  .map((node) => `${node.tagName}.${node.className} ${node.textContent.slice(0, 60)}`)
  .concat(document.documentElement.scrollWidth > width ? ['the page scrolls sideways'] : []);
"""
"""What does not fit into the width of the window."""

UNNAMED_TABLES = """
return [...document.querySelectorAll('table')].filter((table) =>
  !table.caption?.textContent.trim() || [...table.querySelectorAll('th')].some((header) => !header.scope)
).length;
"""
"""How many tables lack a caption, or have a header without a scope."""

HEADINGS = (
    "return [...document.querySelectorAll('h1, h2, h3')].filter((h) => h.checkVisibility()).map((h) => h.tagName)"
)

TIMERS = """
window.timers = new Map();
window.asks = 0;
const ask = window.fetch;
window.fetch = (...all) => { window.asks += 1; return ask(...all); };
let number = 0;
window.setTimeout = (call, delay) => { window.timers.set(++number, [delay, call]); return number; };
window.clearTimeout = (which) => window.timers.delete(which);
window.pending = () => [...window.timers.values()].filter(([delay]) => delay === 1000).length;
window.see = (state) => {
  Object.defineProperty(document, 'visibilityState', { value: state, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
};
"""
"""Runs before the page's own scripts: its timers are held back and counted, and so is what it asks."""
