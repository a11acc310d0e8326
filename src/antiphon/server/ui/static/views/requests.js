// Requests: a live table whose filters are the address of the page.

import { get, listen } from "../api.js";
import { fill, h, perFrame } from "../dom.js";
import { answeredBy, clock, compact, count, duration, fullTime, money, percent, shortId } from "../format.js";
import { copyable, empty, head, link, status, table, tableRow, to } from "../widgets.js";

export const title = "Requests";

const FILTERS = ["client", "model", "provider", "code"];
const STATUSES = [
  ["", "any status"], ["running", "running"], ["completed", "completed"], ["failed", "failed"], ["rejected", "rejected"],
  ["incomplete", "incomplete"], ["cancelled", "cancelled"],
];
const TIMES = [["", "any time"], ["15m", "last 15 minutes"], ["1h", "last hour"], ["24h", "last day"], ["7d", "last week"]];
const MAX_ROWS = 1000;

const COLUMNS = [
  { name: "Received", class: "time", cell: (row) => h("a", { href: to(`requests/${row.request_id}`), title: fullTime(row.received_at_ms) }, clock(row.received_at_ms)) },
  { name: "Status", class: "state", cell: (row) => status(row.status ?? "running") },
  { name: "Model", class: "grow", cell: (row) => [h("div", { class: "strong" }, row.model || "–"), answered(row)] },
  { name: "Client", class: "client", cell: (row) => row.client ?? h("span", { class: "muted" }, "unknown") },
  { name: "Tokens", class: "number", cell: tokens },
  { name: "Cost", class: "number cost", cell: cost },
  { name: "Duration", class: "number", cell: timing },
  { name: "Request", class: "id", cell: (row) => copyable(row.request_id, shortId(row.request_id).replace(/^.*…/, "…")) },
];

function answered(row) {
  if (row.code) return h("div", { class: "small bad-text", title: row.message }, h("code", null, row.code), " ", row.message);
  const by = answeredBy(row);
  return h("div", { class: "small muted" }, by && by !== row.model ? `→\u00a0${by}` : "", row.attempts > 1 && h("span", { class: "nowrap" }, ` · ${row.attempts} attempts`));
}

function cost(row) {
  if (row.cost !== undefined || row.input_tokens === undefined) return money(row.cost);
  return h("span", { class: "muted", title: "The price of the model is unknown: set it in [prices]." }, "unknown");
}

function timing(row) {
  const first = row.first_output_at_ms && h("div", { class: "small muted", title: "to the first output" }, `first ${duration(row.first_output_at_ms - row.received_at_ms)}`);
  return [h("div", null, duration(row.duration_ms)), first];
}

function tokens(row) {
  if (row.input_tokens === undefined) return "–";
  const cached = row.cached_tokens ? h("div", { class: "small muted" }, `${percent(row.cached_tokens, row.input_tokens)} cached`) : null;
  return [h("div", { title: `${count(row.input_tokens)} in, ${count(row.output_tokens)} out` }, `${compact(row.input_tokens)} → ${compact(row.output_tokens)}`), cached];
}

export async function show(root, context) {
  const filter = Object.fromEntries(context.query);
  const body = h("div", { class: "fade" });
  const form = makeFilters(filter, context);
  fill(root, head("Requests", "Every request, rejected ones included. New ones appear at the top."), form, body);
  get("choices", null, context.signal).then((choices) => addChoices(form, choices), () => {});
  const list = new RequestList(body, filter, context);
  const stop = await follow(list, context);
  await list.load();
  context.onKey = (key) => list.onKey(key);
  return stop;
}

/** Listen to changes, and wait for the connection: what changes before it is open is not sent. */
function follow(list, context) {
  return new Promise((resolve) => {
    let known = false;
    const stop = listen({ ...list.filter, view: "requests" }, { rows: (event) => list.update(event), state: (state) => {
      context.setLive(state);
      if (known && state === "live") context.reload();
      known = true;
      resolve(stop);
    } });
    context.signal.addEventListener("abort", () => resolve(stop()));
  });
}

class RequestList {
  constructor(root, filter, context) {
    this.root = root;
    this.filter = filter;
    this.context = context;
    this.rows = new Map();
    this.fresh = new Set();
    this.limit = MAX_ROWS;
    this.early = [];  // updates that came before the first page
    this.draw = perFrame(() => this.drawNow());
  }

  async load() {
    const page = await get("requests", { ...this.filter, before: "" }, this.context.signal);
    for (const row of page.rows) this.rows.set(row.seq, row);
    this.next = page.next;
    this.traced = page.traced;
    const early = this.early;
    this.early = null;
    early.forEach((event) => this.update(event));
    this.drawNow();
  }

  update(event) {
    if (this.early) return this.early.push(event);
    if (event.missed) return this.context.reload();
    this.fresh = new Set(event.rows.map((row) => row.seq));
    for (const row of event.rows) this.rows.set(row.seq, row);
    for (const seq of event.gone) this.rows.delete(seq);
    this.forgetOldest();
    return this.draw();
  }

  /** Keep as many rows as were loaded; "Older requests" loads the others again. */
  forgetOldest() {
    if (this.rows.size <= this.limit) return;
    const kept = [...this.rows.values()].sort((one, other) => other.seq - one.seq).slice(0, this.limit);
    this.rows = new Map(kept.map((row) => [row.seq, row]));
    this.next = kept.at(-1).seq;
  }

  drawNow() {
    const rows = [...this.rows.values()].sort((one, other) => other.seq - one.seq);
    if (rows.length === 0) return fill(this.root, this.nothing());
    if (!this.root.querySelector("tbody")) fill(this.root, table("Requests", COLUMNS, []), this.moreButton());
    const body = this.root.querySelector("tbody");
    const focused = document.activeElement?.closest?.("tr")?.dataset.seq;
    const drawn = new Map([...body.rows].map((element) => [element.dataset.seq, element]));
    placeRows(body, rows.map((row) => this.makeRow(row, drawn.get(String(row.seq)))));
    if (focused && !body.contains(document.activeElement)) this.focus(body.querySelector(`tr[data-seq="${focused}"]`));
    return this.root.querySelector(".more")?.replaceWith(this.moreButton());
  }

  /** Make the element of a row, unless it is drawn already as it is. */
  makeRow(row, drawn) {
    if (drawn?.changed === (row.changed ?? 0)) return drawn;
    const made = tableRow(COLUMNS, row, {
      "data-seq": row.seq, class: `${row.failed ? "failed" : ""} ${this.fresh.has(row.seq) ? "fresh" : ""}`, onclick: (event) => this.open(event, row),
    });
    made.changed = row.changed ?? 0;
    return made;
  }

  nothing() {
    if (!this.traced) return empty("Requests are not traced", "Set enabled = true in [trace] of the configuration, and restart the gateway.");
    if (Object.keys(this.filter).length > 0) return empty("No request matches", "New requests that match appear here by themselves.", link("requests", null, "Remove all filters"));
    return empty("No requests yet", "Send one from the playground, or connect a client: the Now view has ready snippets.", link("playground", null, "Open the playground"));
  }

  moreButton() {
    return h("p", { class: "more" }, this.next && h("button", { type: "button", onclick: () => this.loadMore() }, "Older requests"));
  }

  async loadMore() {
    const page = await get("requests", { ...this.filter, before: this.next }, this.context.signal);
    page.rows.forEach((row) => this.rows.set(row.seq, row));
    this.limit = Math.max(MAX_ROWS, this.rows.size);
    this.fresh = new Set();
    this.next = page.next;
    this.draw();
  }

  open(event, row) {
    if (event.target.closest("a, button") || getSelection()?.toString()) return;
    this.context.navigate(to(`requests/${row.request_id}`));
  }

  focus(element) {
    element?.querySelector("a")?.focus();
  }

  onKey(key) {
    if (key === "/") return document.querySelector(".filters input")?.focus();
    const rows = [...this.root.querySelectorAll("tbody tr")];
    const at = rows.indexOf(document.activeElement?.closest?.("tr"));
    if (key === "j") this.focus(rows[Math.min(at + 1, rows.length - 1)]);
    if (key === "k") this.focus(rows[Math.max(at - 1, 0)]);
    return undefined;
  }
}

/** Bring rows into a table; those that are in their place are not touched, and keep the focus. */
function placeRows(body, rows) {
  const wanted = new Set(rows);
  [...body.rows].filter((row) => !wanted.has(row)).forEach((row) => row.remove());
  let next = body.firstElementChild;
  for (const row of rows) {
    if (row === next) next = next.nextElementSibling;
    else body.insertBefore(row, next);
  }
}

function makeFilters(filter, context) {
  const change = () => {
    const chosen = Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
    context.navigate(to("requests", chosen));
  };
  const options = (entries, chosen) => entries.concat(entries.some(([value]) => value === chosen) ? [] : [[chosen, chosen]])
    .map(([value, name]) => h("option", { value, selected: value === chosen }, name));
  const form = h("form", { class: "filters", role: "search", onsubmit: (event) => { event.preventDefault(); change(); } },
    FILTERS.map((name) => h("label", null, h("span", null, name), h("input", {
      name, value: filter[name] ?? "", list: `choices-${name}`, autocomplete: "off", spellcheck: "false", placeholder: `any ${name}`, onchange: change,
    }), h("datalist", { id: `choices-${name}` }))),
    h("label", null, h("span", null, "status"), h("select", { name: "status", onchange: change }, options(STATUSES, filter.status ?? ""))),
    h("label", null, h("span", null, "time"), h("select", { name: "since", onchange: change }, options(TIMES, filter.since ?? ""))),
    filter.until && h("label", null, h("span", null, "until"), h("input", { name: "until", value: filter.until, onchange: change })),
    Object.keys(filter).length > 0 && link("requests", null, "Clear"));
  return form;
}

function addChoices(form, choices) {
  for (const name of FILTERS) {
    fill(form.querySelector(`#choices-${name}`), (choices[name] ?? []).map((value) => h("option", { value })));
  }
}
