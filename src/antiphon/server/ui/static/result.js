// What became of a request: the verdict on a failure or an odd end, and what its client received.

import { post } from "./api.js";
import { drawTurns, readItems } from "./conversation.js";
import { fill, h } from "./dom.js";
import { count, duration, money, percent } from "./format.js";
import { link } from "./widgets.js";

const CAUSES = { model: "the model", provider: "the provider", client: "the client", network: "the network", gateway: "the gateway" };

/** The verdict: who, the evidence, the remedy, and a way to try the request on another model. */
export function drawVerdict(verdict, retry) {
  return h("section", { class: `card verdict ${verdict.cause}`, "aria-label": "Verdict" },
    h("p", { class: "cause" }, "Caused by ", h("strong", null, CAUSES[verdict.cause])),
    h("h2", null, inline(verdict.title)),
    verdict.evidence.length > 0 && h("ul", { class: "evidence" }, verdict.evidence.map((each) => h("li", null, inline(each)))),
    h("p", { class: "remedy" }, h("strong", null, "What to do: "), inline(verdict.remedy)),
    verdict.other_model && retry);
}

/** A text with its `code` in the font of code. */
function inline(text) {
  return text.split("`").map((part, index) => (index % 2 ? h("code", null, part) : part));
}

/** What the client received; `missing` is shown if that is not kept. */
export function drawResult(detail, result, missing) {
  const turns = readItems(result?.items ?? [], result?.calls ?? []);
  const isCut = result && result.status === null && detail.finish;
  return h("section", { class: "card result-card", "aria-label": "Result" }, h("h2", null, "Result"),
    result ? drawOutput(turns, detail) : missing,
    isCut && turns.length > 0 && h("p", { class: "small muted" }, "The stream ended here, without an end of the response."),
    drawTotals(detail));
}

function drawOutput(turns, detail) {
  if (turns.length > 0) return h("div", { class: "output" }, drawTurns(turns));
  return h("p", { class: "muted" }, detail.finish ? "The response has no output." : "There is no output yet.");
}

/** Tokens, cost and times on one line. */
function drawTotals({ usage, finish }) {
  if (!finish) return null;
  const facts = [
    usage && `${count(usage.input_tokens ?? 0)} tokens in${usage.cached_tokens ? ` (${percent(usage.cached_tokens, usage.input_tokens)} cached)` : ""}`,
    usage && `${count(usage.output_tokens ?? 0)} out${usage.reasoning_tokens ? ` (${count(usage.reasoning_tokens)} reasoning)` : ""}${usage.estimated ? ", estimated" : ""}`,
    usage && (usage.cost === undefined ? "price unknown" : money(usage.cost)),
    finish.first_event_ms !== undefined && `first token after ${duration(finish.first_event_ms)}`,
    finish.duration_ms > 0 && `${duration(finish.duration_ms)} in all`,
  ].filter(Boolean);
  return facts.length > 0 && h("p", { class: "totals small muted" }, facts.join(" · "));
}

const ENDPOINTS = { chat: "chat/completions", messages: "messages" };

/** Sends the request again with another model, and shows the result below. */
export function retryForm(detail, body, models, loadResult) {
  if (!body) {
    return h("p", { class: "small muted" }, "To try it on another model from here, keep payloads and send the request again.");
  }
  const others = models.filter((name) => name !== detail.request?.model);
  const choice = h("input", { name: "retry", "aria-label": "Another model", list: "retry-models", value: others[0] ?? "", autocomplete: "off", spellcheck: "false" });
  const shown = h("div", { class: "retry-result", "aria-live": "polite" });
  const button = h("button", { type: "submit", class: "primary" }, "Try on this model");
  return h("form", { class: "retry", onsubmit: async (event) => {
    event.preventDefault();
    button.disabled = true;
    fill(shown, h("p", { class: "muted" }, `Waiting for ${choice.value}…`));
    try {
      await tryModel(detail, body, choice.value, shown, loadResult);
    } catch (error) {
      if (error.name !== "AbortError") fill(shown, h("p", { class: "failure", role: "alert" }, error.code && h("code", null, error.code), error.message, error.requestId && [" ", link(`requests/${error.requestId}`, null, "Open it")]));
    }
    button.disabled = false;
  } }, h("datalist", { id: "retry-models" }, others.map((name) => h("option", { value: name }))),
  h("div", { class: "actions" }, choice, button, link("playground", { from: detail.request_id, model: detail.request?.model }, "Change it first…")), shown);
}

async function tryModel(detail, body, model, shown, loadResult) {
  const { previous_response_id: _, conversation: __, background: ___, stream_options: ____, ...kept } = body;
  const endpoint = ENDPOINTS[detail.request?.format] ?? "responses";
  const sent = { ...kept, model, stream: true };
  if (endpoint === "responses") sent.store = false;
  const response = await post(endpoint, sent);
  const id = response.headers.get("x-request-id");
  await response.text();
  const { result, verdict } = await loadResult(id, { wait: "end" });
  fill(shown, h("div", { class: "retry-head" }, h("strong", null, model), " ", link(`requests/${id}`, null, "Open this request")),
    verdict && drawVerdict(verdict, null),
    result ? drawTurns(readItems(result.items, result.calls)) : h("p", { class: "muted" }, "It has ended. Payloads are not kept, so its output is not shown."));
}
