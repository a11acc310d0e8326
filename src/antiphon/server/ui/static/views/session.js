// One session: its sums, and its turns as one conversation.

import { get } from "../api.js";
import { drawTurns, readConversation, readItems } from "../conversation.js";
import { fill, h } from "../dom.js";
import { clock, compact, count, duration, fullTime, money, percent } from "../format.js";
import { card, head, link, status, tile } from "../widgets.js";
import { sessionCost } from "./sessions.js";

export const title = "Session";

export async function show(root, context) {
  const path = `sessions/${encodeURIComponent(context.id)}`;
  const first = await get(path, null, context.signal);
  const row = first.session;
  const turns = h("div", { class: "session-turns" });
  const more = h("p", { class: "more" });
  const names = new Map();  // of the tools that were called, by the id of the call
  const add = (page) => {
    turns.append(...page.turns.map((turn) => drawTurn(turn, names)));
    fill(more, page.next && h("button", { type: "button", onclick: async (event) => {
      event.currentTarget.disabled = true;
      add(await get(path, { after: page.next }, context.signal));
    } }, "Later turns"));
  };
  fill(root,
    h("div", { class: "crumbs" }, h("span", null, link("sessions", null, "Sessions"), " / ", h("span", { class: "muted" }, context.id))),
    head(h("span", null, row.model || "Session"), `${fullTime(row.began_at_ms)} · client ${row.client ?? "unknown"}`, link("requests", { q: `session:${quoted(context.id)}` }, "Its requests as a list")),
    h("div", { class: "tiles" },
      tile("Turns", count(row.requests), row.failed || row.rejected ? `${count(row.failed)} failed, ${count(row.rejected)} rejected` : "none failed", row.failed ? "bad" : ""),
      tile("Tokens", compact(row.input_tokens + row.output_tokens), `${compact(row.input_tokens)} in, ${compact(row.output_tokens)} out`),
      tile("Cached", percent(row.cached_tokens, row.input_tokens), "of the input tokens"),
      tile("Cost", sessionCost(row), `in ${duration(row.last_at_ms - row.began_at_ms)}`)),
    card("Conversation", turns, more));
  add(first);
}

const quoted = (text) => (/\s/.test(text) ? `"${text}"` : text);

function drawTurn({ request_id: id, request, finish, usage, input, result, verdict }, names) {
  const facts = [finish && duration(finish.duration_ms), usage && `${compact(usage.input_tokens ?? 0)} → ${compact(usage.output_tokens ?? 0)} tokens`, usage?.cost !== undefined && usage ? money(usage.cost) : null].filter(Boolean);
  return h("section", { class: "session-turn" },
    h("header", null, link(`requests/${id}`, null, clock(request?.received_at_ms ?? 0)), " ", finish?.status !== "completed" && status(finish?.status ?? "running"), " ", h("span", { class: "muted small" }, facts.join(" · "))),
    input && drawTurns(readConversation(input), names),
    result && drawTurns(readItems(result.items, result.calls), names),
    !input && !result && h("p", { class: "muted small" }, "Its payloads are not kept."),
    verdict && h("p", { class: "failure" }, h("strong", null, verdict.title)));
}
