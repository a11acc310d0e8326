// A JSON value as foldable lines; notes are pinned to the fields that they are about.

import { h } from "./dom.js";

const MANY = 12;
const LONG = 400;

/** Show a value. `notes`: [{ param, message, code }], pinned by paths such as `tools[0].name`. */
export function jsonView(value, notes = []) {
  const pinned = new Set();
  const tree = node(value, null, "", notes, pinned, 0);
  const rest = notes.filter((note) => !pinned.has(note));
  return h("div", { class: "json", tabindex: "0" }, tree, rest.map(noteLine));
}

function noteLine(note) {
  return h("div", { class: "pin" }, h("strong", null, note.param || "request"), " ", note.message,
    h("code", null, note.code));
}

function takeNotes(path, notes, pinned) {
  const found = notes.filter((note) => note.param === path && path);
  found.forEach((note) => pinned.add(note));
  return found.map(noteLine);
}

function node(value, key, path, notes, pinned, depth) {
  const label = key === null ? [] : [h("span", { class: "key" }, String(key)), ": "];
  if (value === null || typeof value !== "object") {
    return h("div", { class: "line" }, label, scalar(value), takeNotes(path, notes, pinned));
  }
  const isList = Array.isArray(value);
  const entries = isList ? value.map((each, index) => [index, each]) : Object.entries(value);
  if (entries.length === 0) {
    return h("div", { class: "line" }, label, isList ? "[]" : "{}", takeNotes(path, notes, pinned));
  }
  const here = takeNotes(path, notes, pinned);
  const children = entries.map(([name, each]) =>
    node(each, name, childPath(path, name, isList), notes, pinned, depth + 1));
  const hasPin = here.length > 0 || children.some((child) => child.querySelector?.(".pin"));
  const open = depth === 0 || hasPin || (depth < 4 && entries.length <= MANY);
  return h("details", { open }, h("summary", null, label, h("span", { class: "muted" },
    isList ? `[${entries.length}]` : `{${entries.length}}`)), here, h("div", { class: "inner" }, children));
}

function childPath(path, name, isList) {
  if (isList) return `${path}[${name}]`;
  return path ? `${path}.${name}` : String(name);
}

function scalar(value) {
  const kind = value === null ? "null" : typeof value;
  if (kind !== "string") return h("span", { class: kind }, String(value));
  if (value.length <= LONG) return h("span", { class: "string" }, value);
  const text = h("span", { class: "string" }, `${value.slice(0, LONG)}…`);
  const more = h("button", {
    type: "button", class: "quiet",
    onclick: () => {
      text.textContent = value;
      more.remove();
    },
  }, `show all ${value.length.toLocaleString("en")} characters`);
  return h("span", null, text, " ", more);
}
