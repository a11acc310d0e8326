// The search and the filters of the list of requests. The form stays while lists come and go, and so does what is typed in it.

import { fill, h } from "./dom.js";
import { link, to } from "./widgets.js";

const FIELDS = ["client", "model", "provider", "code", "session"];
const STATUSES = [
  ["", "any status"], ["running", "running"], ["completed", "completed"], ["failed", "failed"], ["rejected", "rejected"],
  ["incomplete", "incomplete"], ["cancelled", "cancelled"],
];
const TIMES = [["", "any time"], ["15m", "last 15 minutes"], ["1h", "last hour"], ["24h", "last day"], ["7d", "last week"]];

/** The filter of the address; fields such as `client` are part of the search. */
export function readAddress(query) {
  const { q = "", open: _, ...rest } = Object.fromEntries(query);
  const given = FIELDS.filter((name) => rest[name]).map((name) => `${name}:${quoted(rest[name])}`);
  FIELDS.forEach((name) => delete rest[name]);
  const search = [...given, q].filter(Boolean).join(" ");
  return search ? { q: search, ...rest } : rest;
}

const quoted = (value) => (/\s/.test(value) ? `"${value}"` : value);
const label = (name, control, properties) => h("label", properties, h("span", null, name), control);

export class SearchForm {
  constructor(navigate) {
    const onchange = () => this.change();
    this.navigate = navigate;
    this.text = h("input", {
      name: "q", type: "search", list: "choices-search", autocomplete: "off", spellcheck: "false", onchange,
      placeholder: "id or word, model:… client:… status:failed text:… >2s", onkeydown: (event) => event.key === "Escape" && this.giveUp(event),
    });
    this.choices = h("datalist", { id: "choices-search" });
    this.status = h("select", { name: "status", onchange });
    this.since = h("select", { name: "since", onchange });
    this.others = [];
    this.root = h("form", { class: "filters", role: "search", onsubmit: (event) => { event.preventDefault(); this.change(); } },
      label("search", [this.text, this.choices], { class: "search" }), label("status", this.status), label("time", this.since));
  }

  /** Show a filter, unless it is shown: what is typed stays when the list is loaded again. */
  show(filter) {
    if (JSON.stringify(filter) === JSON.stringify(this.filter)) return;
    this.filter = filter;
    this.text.value = filter.q ?? "";
    fill(this.status, options(STATUSES, filter.status ?? ""));
    fill(this.since, options(TIMES, filter.since ?? ""));
    this.others.forEach((each) => each.remove());
    this.others = [
      filter.until && label("until", h("input", { name: "until", value: filter.until, onchange: () => this.change() })),
      Object.keys(filter).length > 0 && link("requests", null, "Clear"),
    ].filter(Boolean);
    this.root.append(...this.others);
  }

  change() {
    const { pathname } = new URL(to("requests"));
    if (location.pathname.replace(/\/$/, "") !== pathname) return;  // the list is being left: browsers report what was typed then
    const chosen = Object.fromEntries([...new FormData(this.root)].filter(([, value]) => value));
    const address = to("requests", { ...chosen, sort: this.filter.sort });
    if (address !== location.href) this.navigate(address);  // Enter is a change and a submission
  }

  /** Leave the search as it was, so that keys move in the list again. */
  giveUp(event) {
    event.preventDefault();
    this.text.value = this.filter.q ?? "";
    this.text.blur();
  }

  addChoices(choices) {
    const values = FIELDS.flatMap((name) => (choices[name] ?? []).slice(0, 60).map((value) => `${name}:${quoted(value)}`));
    fill(this.choices, values.map((value) => h("option", { value })));
  }
}

function options(entries, chosen) {
  return entries.concat(entries.some(([value]) => value === chosen) ? [] : [[chosen, chosen]])
    .map(([value, name]) => h("option", { value, selected: value === chosen }, name));
}
