// Sessions: the requests of one thread as one row, with its turns, tokens, cache share and cost.

import { get } from "../api.js";
import { share } from "../charts.js";
import { fill, h } from "../dom.js";
import { clock, compact, count, duration, fullTime, money, percent, plural } from "../format.js";
import { empty, head, link, table, to } from "../widgets.js";

export const title = "Sessions";

const COLUMNS = [
  { name: "Last request", class: "time", cell: (row) => h("a", { href: sessionAddress(row.session), title: fullTime(row.last_at_ms) }, clock(row.last_at_ms)) },
  { name: "Session", class: "grow", cell: (row) => [h("div", { class: "strong" }, row.session), h("div", { class: "small muted" }, row.model)] },
  { name: "Client", class: "client", cell: (row) => row.client ?? "unknown" },
  { name: "Turns", class: "number", cell: (row) => [count(row.requests), row.failed ? h("div", { class: "small bad-text" }, `${row.failed} failed`) : ""] },
  { name: "Tokens", class: "number", cell: (row) => `${compact(row.input_tokens)} → ${compact(row.output_tokens)}` },
  { name: "Cached", class: "number", cell: (row) => [percent(row.cached_tokens, row.input_tokens), share(row.cached_tokens, row.input_tokens)] },
  { name: "Cost", class: "number", cell: (row) => sessionCost(row) },
  { name: "Lasted", class: "number", cell: (row) => duration(row.last_at_ms - row.began_at_ms) },
];

export const sessionAddress = (session) => to(`sessions/${encodeURIComponent(session)}`);

export function sessionCost(row) {
  if (!row.unpriced) return money(row.cost);
  return row.cost ? `${money(row.cost)} + unknown` : "unknown";
}

export async function show(root, context) {
  const page = await get("sessions", { before: context.query.get("before") ?? "" }, context.signal);
  const rows = page.rows.length > 0
    ? table("Sessions", COLUMNS, page.rows, (row) => ({ onclick: (event) => !event.target.closest("a") && context.navigate(sessionAddress(row.session)) }))
    : empty(page.traced ? "No sessions yet" : "Requests are not traced", "A session is the requests of one thread: of one Codex or Claude Code session, of a conversation, or of responses that continue one another.");
  fill(root, head("Sessions", page.rows.length > 0 ? `${plural(page.rows.length, "session")}, the latest first.` : null), rows,
    page.next && h("p", { class: "more" }, link("sessions", { before: page.next }, "Older sessions")));
}
