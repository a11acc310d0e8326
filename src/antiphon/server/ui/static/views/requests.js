// Requests: a live table whose search, sorting and filters are the address of the page.

import { get, listen } from "../api.js";
import { fill, fillAround, h, perFrame } from "../dom.js";
import { answeredBy, clock, compact, count, duration, fullTime, money, percent, plural, shortId } from "../format.js";
import { rememberList } from "../neighbours.js";
import { payloadSwitch } from "../payload_switch.js";
import { Preview } from "../preview.js";
import { SearchForm, readAddress } from "../search_form.js";
import { copyable, empty, head, link, status, tableRow, to } from "../widgets.js";

export const title = "Requests";
export const staysInPlace = true;  // the next list is drawn around the search of this one

const PAGE = 100;
const MAX_ROWS = 1000;

const COLUMNS = [
  { name: "Received", class: "time", cell: (row) => h("a", { href: to(`requests/${row.request_id}`), title: fullTime(row.received_at_ms) }, clock(row.received_at_ms)) },
  { name: "Status", class: "state", cell: (row) => status(row.status ?? "running") },
  { name: "Model", class: "grow", cell: (row) => [h("span", { class: "strong" }, row.model || "–"), " ", about(row)] },
  { name: "Client", class: "client", cell: (row) => row.client ?? h("span", { class: "muted" }, "unknown") },
  { name: "Session", class: "session", cell: (row) => row.session && h("a", { href: to(`sessions/${encodeURIComponent(row.session)}`), title: `The session ${row.session}` }, shortSession(row.session)) },
  { name: "Tokens", class: "number", sort: "tokens", cell: tokens },
  { name: "Cost", class: "number cost", sort: "cost", cell: cost },
  { name: "Duration", class: "number", sort: "duration", cell: timing },
  { name: "Request", class: "id", cell: (row) => copyable(row.request_id, shortId(row.request_id).replace(/^.*…/, "…")) },
];

export const shortSession = (session) => (session.length > 10 ? `…${session.slice(-8)}` : session);

function about(row) {
  if (row.code) return h("span", { class: "small bad-text", title: row.message }, h("code", null, row.code), " ", row.message);
  const by = answeredBy(row);
  return h("span", { class: "small muted" }, by && by !== row.model ? `→\u00a0${by}` : "", row.attempts > 1 && ` · ${row.attempts} attempts`);
}

function cost(row) {
  if (row.cost !== undefined) return money(row.cost);
  return row.input_tokens === undefined ? null : h("span", { class: "muted", title: "The price of the model is unknown: set it in [prices]." }, "unknown");
}

function timing(row) {
  if (row.duration_ms === undefined) return null;
  const first = row.first_output_at_ms && `first token after ${duration(row.first_output_at_ms - row.received_at_ms)}`;
  return h("span", { title: first || null }, duration(row.duration_ms));
}

function tokens(row) {
  if (row.input_tokens === undefined) return null;
  const cached = row.cached_tokens ? `, ${percent(row.cached_tokens, row.input_tokens)} cached` : "";
  return h("span", { title: `${count(row.input_tokens)} in, ${count(row.output_tokens)} out${cached}` }, `${compact(row.input_tokens)} → ${compact(row.output_tokens)}`);
}

export async function show(root, context) {
  const filter = readAddress(context.query);
  const search = root.search ??= new SearchForm(context.navigate);
  search.show(filter);
  const body = h("div", { class: "fade" });
  const totals = h("p", { class: "totals-line muted small", role: "status" });
  const preview = new Preview(context);
  get("choices", null, context.signal).then((choices) => search.addChoices(choices), () => {});
  get("totals", filter, context.signal).then(({ totals: sums }) => sums && drawTotals(totals, sums), () => {});
  const list = new RequestList(body, filter, context, preview);
  const stop = await follow(list, context);
  const page = await list.load();
  fillAround(root, search.root, [head("Requests", null, payloadSwitch(page))], [totals, h("div", { class: "beside" }, body, preview.root)]);
  list.choose(context.query.get("open") ?? "");
  context.onKey = (key) => list.onKey(key);
  return () => {
    stop();
    list.close();
  };
}

function drawTotals(root, sums) {
  const known = sums.cost > 0 || sums.unpriced === 0;
  fill(root, [
    plural(sums.requests, "request"), sums.failed ? `${count(sums.failed)} failed` : "", sums.rejected ? `${count(sums.rejected)} rejected` : "",
    `${compact(sums.input_tokens)} tokens in${sums.cached_tokens ? ` (${percent(sums.cached_tokens, sums.input_tokens)} cached)` : ""}, ${compact(sums.output_tokens)} out`,
    known ? `${money(sums.cost)}${sums.unpriced ? ` (${count(sums.unpriced)} without a price)` : ""}` : "",
  ].filter(Boolean).join(" · "));
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
  constructor(root, filter, context, preview) {
    this.root = root;
    this.filter = filter;
    this.context = context;
    this.preview = preview;
    this.rows = new Map();
    this.fresh = new Set();
    this.limit = MAX_ROWS;
    this.waiting = [];  // updates that came while a page of the list is loaded: the page may be older
    this.draw = perFrame(() => this.drawNow());
    this.observer = new IntersectionObserver((seen) => seen.some((each) => each.isIntersecting) && this.loadMore(), { rootMargin: "600px" });
  }

  close() {
    this.observer.disconnect();
  }

  async load() {
    const page = await get("requests", { ...this.filter, limit: PAGE }, this.context.signal);
    for (const row of page.rows) this.rows.set(row.seq, row);
    this.next = page.next;
    this.traced = page.traced;
    this.catchUp();
    this.drawNow();
    return page;
  }

  /** Take the updates that waited for a page. */
  catchUp() {
    const { waiting } = this;
    this.waiting = null;
    waiting.forEach((event) => this.update(event));
  }

  update(event) {
    if (this.waiting) return this.waiting.push(event);
    if (event.missed) return this.context.reload();
    const isSorted = Boolean(this.filter.sort);
    const rows = isSorted ? event.rows.filter((row) => this.rows.has(row.seq)) : event.rows;  // others have no place yet
    this.fresh = new Set(rows.map((row) => row.seq));
    for (const row of rows) this.rows.set(row.seq, row);
    for (const seq of event.gone) this.rows.delete(seq);
    if (!isSorted) this.forgetOldest();
    return this.draw();
  }

  /** Keep as many rows as were loaded; scrolling loads the others again. */
  forgetOldest() {
    if (this.rows.size <= this.limit) return;
    const kept = this.ordered().slice(0, this.limit);
    this.rows = new Map(kept.map((row) => [row.seq, row]));
    this.next = kept.at(-1).seq;
  }

  /** The rows in their order: as they came if they are sorted by the gateway, or the newest first. */
  ordered() {
    const rows = [...this.rows.values()];
    return this.filter.sort ? rows : rows.sort((one, other) => other.seq - one.seq);
  }

  drawNow() {
    const rows = this.ordered();
    if (rows.length === 0 && !this.next) return fill(this.root, this.nothing());
    if (!this.root.querySelector("tbody")) fill(this.root, this.makeTable(), this.more = h("p", { class: "more" }));
    const body = this.root.querySelector("tbody");
    const focused = document.activeElement?.closest?.("tr")?.dataset.seq;
    const drawn = new Map([...body.rows].map((element) => [element.dataset.seq, element]));
    placeRows(body, rows.map((row) => this.makeRow(row, drawn.get(String(row.seq)))));
    if (focused && !body.contains(document.activeElement)) this.focus(body.querySelector(`tr[data-seq="${focused}"]`));
    rememberList(rows.map((row) => row.request_id), location.href);
    return this.offerMore();
  }

  /** Watch the end of the list again: what is still in sight is not reported twice. */
  offerMore() {
    this.observer.disconnect();
    fill(this.more, this.next ? h("button", { type: "button", onclick: () => this.loadMore() }, "Older requests") : null);
    if (this.next) this.observer.observe(this.more);
  }

  makeTable() {
    const heading = (column) => {
      if (!column.sort) return column.name;
      const chosen = this.filter.sort === column.sort;
      return h("a", { href: to("requests", { ...this.filter, sort: chosen ? "" : column.sort }), title: chosen ? "Sort by time" : `The largest ${column.name.toLowerCase()} first` }, column.name, chosen ? " ↓" : "");
    };
    return h("table", { class: "list requests-list", "aria-label": "Requests" },
      h("thead", null, h("tr", null, COLUMNS.map((each) => h("th", { scope: "col", class: each.class, "aria-sort": each.sort && each.sort === this.filter.sort ? "descending" : null }, heading(each))))),
      h("tbody"));
  }

  /** Make the element of a row, unless it is drawn already as it is. */
  makeRow(row, drawn) {
    if (drawn?.changed === (row.changed ?? 0)) return drawn;
    const made = tableRow(COLUMNS, row, {
      "data-seq": row.seq, class: `${row.failed ? "failed" : ""} ${this.fresh.has(row.seq) ? "fresh" : ""}`, onclick: (event) => this.open(event, row),
    });
    made.changed = row.changed ?? 0;
    made.classList.toggle("chosen", row.request_id === this.preview.id);
    return made;
  }

  nothing() {
    if (!this.traced) return empty("Requests are not traced", "Set enabled = true in [trace] of the configuration, and restart the gateway.");
    if (Object.keys(this.filter).length > 0) return empty("No request matches", "New requests that match appear here by themselves.", link("requests", null, "Remove all filters"));
    return empty("No requests yet", "Send one from the playground, or connect a client: the Now view has ready snippets.", link("playground", null, "Open the playground"));
  }

  async loadMore() {
    if (this.waiting || !this.next) return;
    this.waiting = [];
    const place = this.filter.sort ? { offset: this.next } : { before: this.next };
    try {
      const page = await get("requests", { ...this.filter, limit: PAGE, ...place }, this.context.signal);
      const added = page.rows.filter((row) => !this.rows.has(row.seq));
      page.rows.forEach((row) => this.rows.set(row.seq, row));
      this.limit = Math.max(MAX_ROWS, this.rows.size);
      this.fresh = new Set();
      this.next = page.next;
      this.root.querySelector("tbody").append(...added.map((row) => this.makeRow(row)));
      rememberList(this.ordered().map((row) => row.request_id), location.href);
      if (this.rows.size > 0) this.offerMore();
      else this.drawNow();
    } catch (error) {
      if (error.name !== "AbortError") throw error;
    } finally {
      this.catchUp();
    }
  }

  open(event, row) {
    if (event.target.closest("a, button") || getSelection()?.toString()) return;
    if (this.preview.fits) this.choose(row.request_id);
    else this.context.navigate(to(`requests/${row.request_id}`));
  }

  /** Show a request beside the list, and mark its row; without an id, close the panel. */
  choose(id) {
    this.preview.show(id);
    const rows = new Map([...this.rows.values()].map((row) => [String(row.seq), row.request_id]));
    for (const row of this.root.querySelectorAll("tbody tr")) row.classList.toggle("chosen", Boolean(id) && rows.get(row.dataset.seq) === id);
    rememberList(this.ordered().map((row) => row.request_id), location.href);
  }

  focus(element) {
    element?.querySelector("a")?.focus();
  }

  onKey(key) {
    if (key === "/") return document.querySelector(".filters input")?.focus();
    if (key === "Escape") return this.choose("");
    const rows = [...this.root.querySelectorAll("tbody tr")];
    const focused = rows.indexOf(document.activeElement?.closest?.("tr"));
    const at = focused < 0 ? rows.findIndex((row) => row.classList.contains("chosen")) : focused;
    const next = rows[key === "j" ? Math.min(at + 1, rows.length - 1) : Math.max(at - 1, 0)];
    this.focus(next);
    if (next && this.preview.id && this.preview.fits) this.choose(this.rows.get(Number(next.dataset.seq)).request_id);
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
