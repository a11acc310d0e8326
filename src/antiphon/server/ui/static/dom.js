// Elements without a parser: every value becomes a text node or an attribute, so nothing that a
// client or a provider sent can become markup.

const SVG = "http://www.w3.org/2000/svg";
const LINKS = new Set(["href", "src", "action", "formaction"]);

function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : String(child));
  }
  return parent;
}

function setProperty(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
  else if (LINKS.has(name) && !isSafeLink(String(value))) throw new Error(`unsafe ${name}`);
  else element.setAttribute(name, value === true ? "" : String(value));
}

function isSafeLink(link) {
  const { protocol } = new URL(link, location.href);
  return protocol === "http:" || protocol === "https:" || protocol === "blob:";
}

function make(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) setProperty(element, name, value);
  return append(element, children);
}

/** Make an HTML element: h("p", { class: "x", onclick: f }, "text", element, [more]). */
export function h(tag, properties, ...children) {
  return make(document.createElement(tag), properties, children);
}

/** Make an SVG element. */
export function s(tag, properties, ...children) {
  return make(document.createElementNS(SVG, tag), properties, children);
}

/** Replace the content of an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

/** Replace the content of an element around a child that stays: a form keeps the focus, and what is being typed. */
export function fillAround(element, kept, before, after) {
  if (kept.parentElement !== element) fill(element, kept);
  [...element.childNodes].filter((each) => each !== kept).forEach((each) => each.remove());
  kept.before(...before);
  kept.after(...after);
}

/** Make a function that begins one of several requests, and returns whether that is still the latest: the reply to an earlier one is out of date. */
export function latestOf() {
  let latest;
  return () => {
    const own = {};
    latest = own;
    return () => own === latest;
  };
}

/** Call a function at most once per drawn frame, with its latest argument. */
export function perFrame(draw) {
  let latest;
  let scheduled = false;
  return (value) => {
    latest = value;
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      draw(latest);
    });
  };
}
