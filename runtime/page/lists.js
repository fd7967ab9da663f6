// Lists that are brought up to date in place, so that focus, selection and scrolling stay where they are.

export function element(name, kind = "") {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  return made;
}

export function tag() {
  return element("span", "tag");
}

// A text that stays as it is keeps its selection.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function hide(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

// A list of plain texts; it is hidden while there are none.
export function setTexts(list, texts) {
  hide(list, !texts.length);
  texts.forEach((text, place) => setText(list.children[place] ?? list.appendChild(element("li")), text));
  while (list.children.length > texts.length) list.lastChild.remove();
}

// One node for each item: nodes of items that stay are kept, and moved only if their order changed.
export function keyed(list, items, key, make, fill) {
  const known = (list.known ??= new Map());
  const seen = new Set();
  let before = null;
  for (const item of items) {
    let name = key(item);
    while (seen.has(name)) name += " ";
    seen.add(name);
    let node = known.get(name);
    if (!node) {
      node = make();
      known.set(name, node);
    }
    fill(node, item);
    let place = before ? before.nextSibling : list.firstChild;
    if (place && place.nextSibling === node) {
      // The one before it went elsewhere: only that one is moved, and not all that follow.
      list.append(place);
      place = node;
    }
    if (place !== node) list.insertBefore(node, place);
    before = node;
  }
  for (const [name, node] of known) {
    if (!seen.has(name)) {
      node.remove();
      known.delete(name);
    }
  }
}
