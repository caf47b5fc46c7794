// @ts-check
// Make and change elements. Names are untrusted: they are inserted as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** The element with this `data-part`, within another. */
export function findPart(root, name) {
  return root.querySelector(`[data-part="${name}"]`);
}

/** A new HTML element. */
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  setAttributes(node, attributes);
  node.append(...children);
  return node;
}

/** A new SVG element. */
export function makeSvg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  setAttributes(node, attributes);
  node.append(...children);
  return node;
}

/** Set attributes. Only those that differ are touched, as the page is updated every second. */
export function setAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = String(value);
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }
  return node;
}

/** Set a text. It is touched only if it differs, so that a selection in it survives. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
  return node;
}

/** Show a message, or hide its element if there is none. */
export function showMessage(node, text) {
  node.hidden = !text;
  setText(node, text ?? "");
}

/** Give an element exactly so many children. Those that exist stay, so that nothing flickers. */
export function resizeChildren(parent, count, create) {
  while (parent.children.length > count) parent.lastElementChild.remove();
  while (parent.children.length < count) parent.append(create(parent.children.length));
  return parent.children;
}

/** Fill the rows of a table with texts; the first cell of a row is its header. */
export function fillRows(body, rows) {
  const lines = resizeChildren(body, rows.length, () => make("tr"));
  rows.forEach((cells, line) => {
    const cell = (at) => (at === 0 ? make("th", { scope: "row" }) : make("td"));
    const nodes = resizeChildren(lines[line], cells.length, cell);
    cells.forEach((text, at) => setText(nodes[at], text));
  });
}
