// Small parts that several views use.

import { BASE } from "./api.js";
import { h } from "./dom.js";

/** The address of a view; `query` is left out where it is empty. */
export function to(path, query) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value) url.searchParams.set(name, value);
  }
  return url.href;
}

export const link = (path, query, ...children) => h("a", { href: to(path, query) }, children);

export function head(title, subtitle, ...actions) {
  return h("header", { class: "head" },
    h("div", null, h("h1", { tabindex: "-1" }, title), subtitle && h("p", { class: "muted" }, subtitle)),
    actions.length > 0 && h("div", { class: "actions" }, actions));
}

export function empty(title, ...advice) {
  return h("div", { class: "empty" }, h("div", { class: "empty-mark", "aria-hidden": "true" }), h("h2", null, title), advice.filter(Boolean).map((each) =>
    each instanceof Node ? each : h("p", null, each)));
}

export function problem(error, retry) {
  return h("div", { class: "empty problem", role: "alert" },
    h("h2", null, "Could not load this view"), h("p", null, error.message),
    retry && h("button", { type: "button", onclick: retry }, "Try again"));
}

export function loading() {
  return h("div", { class: "loading", role: "status" }, h("span", { class: "sr" }, "Loading"));
}

const WORDS = { completed: "ok", incomplete: "warn", running: "run", cancelled: "idle" };

export function status(value) {
  return h("span", { class: `pill ${WORDS[value] ?? "bad"}` }, value);
}

export function light(colour, label) {
  return h("span", { class: `light ${colour}`, role: "img", "aria-label": label ?? colour });
}

export function tile(label, value, note, tone) {
  return h("div", { class: `tile ${tone ?? ""}` }, h("div", { class: "label" }, label),
    h("div", { class: "value" }, value), h("div", { class: "note" }, note ?? " "));
}

export function card(title, ...children) {
  return h("section", { class: "card" }, title && h("h2", null, title), children);
}

export async function copyText(text) {
  if (navigator.clipboard && window.isSecureContext) {
    await navigator.clipboard.writeText(text);
  } else {  // without TLS on another machine, browsers offer only this
    const area = h("textarea", { class: "sr", value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce("Copied");
}

/** A button with an id on it that copies the id. */
export function copyable(text, label) {
  return h("button", {
    type: "button", class: "copy", title: `Copy ${text}`,
    onclick: (event) => {
      event.stopPropagation();
      event.preventDefault();
      copyText(text);
    },
  }, h("span", null, label ?? text));
}

export function copyButton(label, makeText) {
  return h("button", { type: "button", onclick: () => copyText(makeText()) }, label);
}

/** Say something for a moment, on the screen and to screen readers. */
export function announce(message) {
  const area = document.querySelector("#toast");
  if (!area) return;
  area.textContent = message;
  area.classList.add("shown");
  clearTimeout(area.timer);
  area.timer = setTimeout(() => area.classList.remove("shown"), 1800);
}

export function code(text) {
  return h("div", { class: "code" }, h("pre", { tabindex: "0" }, text),
    h("button", { type: "button", class: "quiet", onclick: () => copyText(text) }, "Copy"));
}

/** Tabs: a list of [name, make content]. */
export function tabs(label, entries, { chosen = 0, onChoose = () => {} } = {}) {
  const panel = h("div", { class: "panel", role: "tabpanel", "aria-label": label });
  const buttons = entries.map(([name], index) => h("button", {
    type: "button", role: "tab", "aria-selected": "false", tabindex: "-1",
    onclick: () => {
      choose(index);
      onChoose(name);
    },
    onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = (index + step + entries.length) % entries.length;
      choose(next, true);
      onChoose(entries[next][0]);
    },
  }, name));
  function choose(index, focus) {
    buttons.forEach((button, at) => {
      button.setAttribute("aria-selected", String(at === index));
      button.tabIndex = at === index ? 0 : -1;
    });
    if (focus) buttons[index].focus();
    panel.replaceChildren(entries[index][1]());
  }
  choose(chosen);
  return h("div", { class: "tabs" }, h("div", { role: "tablist", "aria-label": label }, buttons), panel);
}

/** A table whose rows become cards on a narrow screen. Columns: { name, cell, class }. */
export function table(label, columns, rows, makeProperties) {
  return h("table", { class: "list", "aria-label": label },
    h("thead", null, h("tr", null, columns.map((each) => h("th", { scope: "col", class: each.class }, each.name)))),
    h("tbody", null, rows.map((row) => tableRow(columns, row, makeProperties?.(row)))));
}

export function tableRow(columns, row, properties) {
  return h("tr", properties, columns.map((each) =>
    h("td", { class: each.class, "data-label": each.name }, each.cell(row))));
}
