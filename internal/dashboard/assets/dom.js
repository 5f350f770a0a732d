// Elements are made here, and only here. What reports say is hostile text: it becomes text nodes and nothing else. There is
// no innerHTML in these files, and the Content-Security-Policy of the page would not let one work.

const svgNamespace = "http://www.w3.org/2000/svg";

// Attributes that el and svg may set. None of them runs anything, whatever its value is.
const allowed = new Set([
  "class", "id", "type", "scope", "role", "tabindex", "title", "colspan", "value", "for", "datetime", "hidden",
  "aria-label", "aria-sort", "aria-pressed", "aria-hidden", "aria-current", "aria-labelledby",
  "viewBox", "preserveAspectRatio", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "rx", "cx", "cy", "r", "d", "points", "text-anchor",
]);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") node.addEventListener("click", value);
    else if (!allowed.has(name)) throw new Error(`no attribute ${name}`);
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

// $ finds an element of the document by its id.
export const $ = (id) => document.getElementById(id);

// el makes an HTML element; children that are no nodes become text.
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

// svg makes an SVG element.
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(svgNamespace, name), attributes, children);
}

// show replaces what is in a node.
export function show(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
}

// keepFocus replaces what is in a node by what make gives, and puts the focus back on the element that has the same
// data-key, so that an update does not throw out who uses the keyboard.
export function keepFocus(node, make) {
  const key = node.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  show(node, make());
  if (key === undefined) return;
  for (const candidate of node.querySelectorAll("[data-key]")) {
    if (candidate.dataset.key === key) {
      candidate.focus({ preventScroll: true });
      return;
    }
  }
}

// keyed gives a node the key by which keepFocus finds it.
export function keyed(node, key) {
  node.dataset.key = key;
  return node;
}
