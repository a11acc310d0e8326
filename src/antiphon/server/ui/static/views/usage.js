// Usage: tokens, cost, cache hits and failures by day and by client, model or provider.

import { downloadAddress, get } from "../api.js";
import { fitted, share, stackedBars, sum } from "../charts.js";
import { fill, h } from "../dom.js";
import { compact, count, duration, money, percent } from "../format.js";
import { card, empty, head, link, table, tile, to } from "../widgets.js";

export const title = "Usage";

const PERIODS = [["24h", "day"], ["7d", "week"], ["30d", "month"]];
const GROUPS = ["model", "client", "provider"];
const MEASURES = [["tokens", "Tokens"], ["cached", "Cached tokens"], ["cost", "Cost"], ["requests", "Requests"], ["failures", "Failures"]];
const MEASURED = { tokens: (row) => tokensOf(row), cached: (row) => row.cached_tokens, cost: (row) => row.known_cost, requests: (row) => row.requests, failures: (row) => row.failures };
const SERIES = ["series-1", "series-2", "series-3", "series-4", "series-5", "series-rest"];

export async function show(root, context) {
  const chosen = {
    since: context.query.get("since") || "7d",
    by: context.query.get("by") || "model",
    of: context.query.get("of") || "tokens",
  };
  const slot = chosen.since === "24h" ? "hour" : "day";
  const times = makeSlots(chosen.since, slot);
  const since = slot === "hour" ? `${times[0]}:00Z` : times[0];  // of the chart, so that all sums agree
  const [{ rows }, sums] = await Promise.all([
    get("usage", { since, by: `${slot},${chosen.by}` }, context.signal),
    get("usage", { since, by: chosen.by === "model" ? "model,provider" : chosen.by }, context.signal),
  ]);
  const csv = downloadAddress("usage", { since, by: `${slot},client,model,provider`, format: "csv" });
  fill(root,
    head("Usage", "What was used and what it cost. After a fallback, the provider that served the request is counted.",
      h("a", { class: "button", href: csv, download: "antiphon-usage.csv" }, "CSV")),
    h("div", { class: "choosers" },
      chooser("Period", "since", PERIODS, chosen), chooser("By", "by", GROUPS.map((each) => [each, each]), chosen),
      chooser("Chart", "of", MEASURES, chosen)),
    rows.length === 0 ? nothing() : [makeTiles(rows), makeChart(rows, chosen, slot, times), makeTable([...sums.rows].sort((one, other) => measure(other, chosen.of) - measure(one, chosen.of)), chosen)]);
}

function nothing() {
  return empty("Nothing was used in this period", "Choose a longer period, or send a request.", link("playground", null, "Open the playground"));
}

function chooser(label, name, entries, chosen) {
  return h("div", { class: "chooser", role: "group", "aria-label": label }, entries.map(([value, text]) =>
    h("a", { href: to("usage", { ...chosen, [name]: value }), "aria-current": chosen[name] === value ? "true" : null }, text)));
}

const total = (rows, field) => sum(rows.map((row) => row[field] ?? 0));
const tokensOf = (row) => row.input_tokens + row.output_tokens;

function makeTiles(rows) {
  const requests = total(rows, "requests");
  const failures = total(rows, "failures");
  const unpriced = total(rows, "unpriced_requests");
  const input = total(rows, "input_tokens");
  return h("div", { class: "tiles" },
    tile("Requests", count(requests), `${count(failures)} failed (${percent(failures, requests)})`),
    tile("Tokens", compact(input + total(rows, "output_tokens")), `${compact(input)} in, ${compact(total(rows, "output_tokens"))} out`),
    tile("From the cache", percent(total(rows, "cached_tokens"), input), `${compact(total(rows, "cached_tokens"))} input tokens`),
    tile("Cost", money(total(rows, "known_cost")), unpriced ? `the price of ${count(unpriced)} requests is unknown` : "all prices known"));
}

const measure = (row, of) => (MEASURED[of] ?? tokensOf)(row);

/** Dollars beside an axis, without digits that say nothing: $150, $1.5, $0.002. */
const dollars = (value) => `$${Number(value.toPrecision(3))}`;

/** The largest groups, each with a colour; the others share the last one. */
function colours(rows, { by, of }) {
  const sums = Map.groupBy(rows, (row) => row[by] || "unknown");
  const names = [...sums].sort((one, other) => sum(other[1].map((row) => measure(row, of))) - sum(one[1].map((row) => measure(row, of)))).map(([name]) => name);
  return new Map(names.map((name, index) => [name, Math.min(index, SERIES.length - 1)]));
}

function makeChart(rows, chosen, slot, times) {
  const series = colours(rows, chosen);
  const format = chosen.of === "cost" ? money : compact;
  const bars = times.map((at) => {
    const parts = SERIES.map(() => 0);
    for (const row of rows.filter((each) => each[slot] === at)) parts[series.get(row[chosen.by] || "unknown")] += measure(row, chosen.of);
    return { label: slot === "day" ? at.slice(5) : `${at.slice(11)}:00`, title: `${at}: ${format(sum(parts))} ${chosen.of}`, parts };
  });
  const legend = [...series].slice(0, SERIES.length).map(([name, index]) =>
    h("span", null, h("i", { class: SERIES[index] }), index === SERIES.length - 1 ? "others" : name));
  return card([`${MEASURES.find(([name]) => name === chosen.of)?.[1] ?? "Tokens"} by ${slot} `, h("span", { class: "small muted" }, "UTC")],
    fitted(stackedBars(bars, SERIES, { height: 220, format: chosen.of === "cost" ? dollars : compact, whole: chosen.of !== "cost" }), `${chosen.of} by ${slot}`), h("p", { class: "legend small" }, legend));
}

/** Every hour or day of the period, in UTC, also those without a request. */
function makeSlots(since, slot) {
  const length = slot === "hour" ? 13 : 10;
  const step = slot === "hour" ? 3_600_000 : 86_400_000;
  const number = Math.min(400, Math.max(1, Number.parseInt(since, 10) || 7));
  return Array.from({ length: number }, (_, index) => new Date(Date.now() - (number - 1 - index) * step).toISOString().slice(0, length));
}

function makeTable(rows, { by }) {
  const all = sum(rows.map(tokensOf));
  const name = (row) => [row[by] || "unknown", by === "model" && row.provider ? h("span", { class: "small muted" }, ` ${row.provider}`) : ""];
  return card(`By ${by}`, table(`Usage by ${by}`, [
    { name: `${by[0].toUpperCase()}${by.slice(1)}`, class: "grow", cell: (row) => h("a", { class: "strong", href: to("requests", { [by]: row[by] }) }, name(row)) },
    { name: "Requests", class: "number", cell: (row) => count(row.requests) },
    { name: "Failed", class: "number", cell: (row) => percent(row.failures, row.requests) },
    { name: "Input", class: "number", cell: (row) => compact(row.input_tokens) },
    { name: "Cached", class: "number", cell: (row) => percent(row.cached_tokens, row.input_tokens) },
    { name: "Output", class: "number", cell: (row) => compact(row.output_tokens) },
    { name: "First token", class: "number", cell: (row) => h("span", { title: `95 % within ${duration(row.first_event_p95_ms)}` }, duration(row.first_event_p50_ms)) },
    { name: "Cost", class: "number", cell: cost },
    { name: "Share of tokens", class: "grow", cell: (row) => [h("span", { class: "small muted" }, percent(tokensOf(row), all)), share(tokensOf(row), all)] },
  ], rows));
}

function cost(row) {
  if (row.cost !== null) return money(row.cost);
  const advice = `The price of ${count(row.unpriced_requests)} requests is unknown: set it in [prices].`;
  return h("span", { class: "muted", title: advice }, row.known_cost ? `${money(row.known_cost)} + ?` : "unknown");
}
