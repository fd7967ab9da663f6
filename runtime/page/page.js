// Asks for /page.json about once a second while the page is seen, and shows what it says. All text of others becomes
// text nodes: it is never read as markup.

import { Charts } from "./charts.js";
import { element, hide, keyed, setText, setTexts, tag } from "./lists.js";

const EVERY_MS = 1000;
const PATIENCE_MS = 5000;

const at = (id) => document.getElementById(id);
const filter = at("filter");
const charts = new Charts(at("figures"));

let version = null;
let answered = null;
let timer = null;
let asking = null;

async function ask() {
  clearTimeout(timer);
  asking?.abort();
  const mine = (asking = new AbortController());
  const late = setTimeout(() => mine.abort(), PATIENCE_MS);
  try {
    const query = new URLSearchParams({ wanted: filter.value, after: charts.last });
    const answer = await fetch(`page.json?${query}`, { signal: mine.signal, cache: "no-store" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    show(await answer.json());
  } catch {
    // Another request took the place of this one: that is no silence.
    if (mine === asking) showSilence();
  } finally {
    clearTimeout(late);
  }
  if (mine === asking && document.visibilityState === "visible") timer = setTimeout(ask, EVERY_MS);
}

function show(said) {
  if (version !== null && version !== said.version) {
    location.reload();
    return;
  }
  version = said.version;
  answered = new Date();
  delete document.body.dataset.old;
  hide(at("no-answer"), true);
  setText(at("as-of"), `as of ${clock(answered)}`);
  setText(at("capture"), said.capture);
  setText(at("state"), said.state.text);
  at("state").dataset.tone = said.state.tone;
  setText(at("version"), `Version ${said.version}.`);
  setText(at("log"), said.log);
  setText(at("needed"), said.needs.words);
  at("needed").dataset.tone = said.needs.count ? "bad" : "good";
  hide(at("needed"), false);
  const waiting = said.needs.count ? `(${said.needs.count}) ` : "";
  document.title = `${waiting}${said.capture}: ${said.state.name} · tidemark`;
  announce(said);
  showNeeds(said.needs);
  charts.show(said);
  setTexts(at("notes"), said.notes);
  showTables(said);
  showRereads(said.rereads);
  showSpark(said.spark);
  showConsumers(said.consumers);
  showErrors(said.errors);
}

function showSilence() {
  document.body.dataset.old = "";
  const since = answered ? `No answer since ${clock(answered)}: the figures below are old.` : "No answer yet.";
  setText(at("no-answer"), since);
  hide(at("no-answer"), false);
  setText(at("announced"), since);
  document.title = "no answer · tidemark";
}

// Only what changes is said aloud, and not every second.
function announce(said) {
  const needs = said.needs.shown.map((need) => need.text).join("; ");
  setText(at("announced"), `${said.capture}: ${said.state.name}. ${needs ? `Needs you: ${needs}` : said.needs.words}`);
}

function clock(date) {
  return date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

function showNeeds(needs) {
  hide(at("needs"), !needs.count);
  keyed(at("needs-list"), needs.shown, (need) => need.text, () => {
    const item = element("li");
    item.append(element("strong"), element("p", "why"), element("p", "remedy"));
    return item;
  }, (item, need) => {
    const [text, why, remedy] = item.children;
    setText(text, need.text);
    optional(why, need.why);
    optional(remedy, need.remedy && `What to do: ${need.remedy}`);
  });
  optional(at("needs-more"), needs.more);
}

function optional(node, text) {
  setText(node, text || "");
  hide(node, !text);
}

function showTables(said) {
  const tables = said.tables;
  hide(at("tables"), !tables);
  hide(at("skip-to-tables"), !tables);
  if (!tables) return;
  const backfills = said.backfills;
  setText(at("backfills"), [`${backfills.value} read`, backfills.note].filter(Boolean).join(", "));
  setTexts(at("counts"), tables.counts.map((one) => `${one.count} ${one.state}`));
  rows(at("tables-rows"), tables.shown, (table) => table.name, 8, (cells, table) => {
    const [name, state, backfill, ...figures] = cells;
    named(name, table.name);
    stated(state, table);
    progress(backfill, table);
    const [read, speed, left, events, size] = figures;
    figure(read, "Rows", table.rows);
    figure(speed, "Speed", table.rate);
    figure(left, "Left", table.left);
    figure(events, "Events", table.events);
    figure(size, "In the log", table.size);
  });
  optional(at("tables-more"), tables.more || (tables.found ? "" : "No table has such a name."));
}

function showRereads(rereads) {
  hide(at("rereads"), !rereads.length);
  keyed(at("rereads-list"), rereads, (one) => one.name, () => {
    const item = element("li");
    const title = element("p");
    title.append(element("strong"), " ", tag());
    item.append(title, element("ul"), element("ul", "quiet"));
    return item;
  }, (item, one) => {
    const [title, causes, lines] = item.children;
    setText(title.children[0], one.name);
    setText(title.children[1], one.state);
    title.children[1].dataset.tone = one.tone;
    setTexts(causes, one.causes);
    setTexts(lines, one.lines);
  });
}

function showSpark(tables) {
  hide(at("spark"), !tables.length);
  rows(at("spark-rows"), tables, (table) => `${table.name} ${table.kind}`, 4, (cells, table) => {
    const [name, kind, state, behind] = cells;
    named(name, table.name);
    figure(kind, "Kind", table.kind);
    stated(state, table);
    figure(behind, "Events behind", table.events);
  });
}

function showConsumers(consumers) {
  hide(at("consumers"), !consumers.length);
  rows(at("consumers-rows"), consumers, (one) => one.name, 5, (cells, one) => {
    const [name, behind, waits, seen, position] = cells;
    named(name, one.name);
    figure(behind, "Events behind", one.lost ? `${one.behind}; ${one.lost}` : one.behind);
    figure(waits, "They wait for", one.waits);
    figure(seen, "Seen", one.seen);
    figure(position, "Position", one.position);
  });
}

function showErrors(errors) {
  hide(at("errors"), !errors.length);
  rows(at("errors-rows"), errors, (one) => `${one.code} ${one.message}`, 5, (cells, one) => {
    const [code, level, what, last, count] = cells;
    named(code, one.code);
    figure(level, "Level", one.level);
    if (!what.children.length) what.append(element("p", "why"), element("p", "remedy"));
    what.classList.add("words");
    setText(what.children[0], one.message);
    optional(what.children[1], one.remedy && `What to do: ${one.remedy}`);
    figure(last, "Last", one.last);
    last.title = new Date(one.time).toLocaleString();
    figure(count, "Came", one.count);
  });
}

// Rows of a table with so many cells each, the first of which is the row's header.
function rows(body, items, key, count, fill) {
  keyed(body, items, key, () => {
    const row = element("tr");
    row.setAttribute("role", "row");
    for (let place = 0; place < count; place += 1) {
      const cell = element(place ? "td" : "th");
      cell.setAttribute("role", place ? "cell" : "rowheader");
      if (!place) cell.scope = "row";
      row.append(cell);
    }
    return row;
  }, (row, item) => fill([...row.children], item));
}

function named(cell, text) {
  if (!cell.children.length) cell.append(element("bdi"));
  setText(cell.children[0], text);
}

function stated(cell, table) {
  if (!cell.children.length) cell.append(tag(), element("p", "why"));
  cell.classList.add("state");
  setText(cell.children[0], table.state || "unknown");
  cell.children[0].dataset.tone = table.tone;
  const remedy = table.remedy ? `\nWhat to do: ${table.remedy}` : "";
  optional(cell.children[1], table.why && `${table.why}${remedy}`);
}

function progress(cell, table) {
  if (!cell.children.length) cell.append(element("progress"), element("span", "percent"));
  cell.classList.add("backfill");
  const [bar, percent] = cell.children;
  const known = table.percent !== null;
  hide(bar, !known);
  bar.max = 100;
  if (known) bar.value = table.percent;
  bar.setAttribute("aria-label", `Backfill of ${table.name}`);
  setText(percent, known ? `${Math.floor(table.percent)} %` : "");
}

function figure(cell, label, text) {
  cell.classList.toggle("number", label !== "Kind" && label !== "Level");
  cell.classList.toggle("empty", !text);
  cell.dataset.label = label;
  setText(cell, text);
}

filter.addEventListener("input", ask);
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") ask();
  else clearTimeout(timer);
});
ask();
