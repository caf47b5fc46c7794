// Making and changing what is on the page. Names are untrusted: text goes in as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** The element that index.html calls so, within another. */
export function part(root, name) {
  return root.querySelector(`[data-part="${name}"]`);
}

/** A new HTML element. */
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  set(node, attributes);
  node.append(...children);
  return node;
}

/** A new SVG element. */
export function draw(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  set(node, attributes);
  node.append(...children);
  return node;
}

/** Attributes, touched only where they change: the page is brought up to date every second. */
export function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = String(value);
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }
  return node;
}

/** Text, touched only where it changes, so that a selection in it survives. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
  return node;
}

/** Show a message, or hide its place where there is none. */
export function tell(node, text) {
  node.hidden = !text;
  say(node, text ?? "");
}

/** Exactly so many children: those that are there stay, so that nothing flickers. */
export function keep(parent, count, create) {
  while (parent.children.length > count) parent.lastElementChild.remove();
  while (parent.children.length < count) parent.append(create(parent.children.length));
  return parent.children;
}

/** A table's rows as texts; the first cell of each is its header. Only cells that differ are touched. */
export function fill(body, rows) {
  const lines = keep(body, rows.length, () => make("tr"));
  rows.forEach((cells, line) => {
    const nodes = keep(lines[line], cells.length, (at) => (at === 0 ? make("th", { scope: "row" }) : make("td")));
    cells.forEach((text, at) => say(nodes[at], text));
  });
}
