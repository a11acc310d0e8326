// The answer of one model in the playground: rendered as it streams, with its raw events.

import { createResponse } from "./api.js";
import { fill, h, perFrame } from "./dom.js";
import { count, duration, shortId } from "./format.js";
import { jsonView } from "./json_view.js";
import { copyable, link, status } from "./widgets.js";

const DELTAS = {
  "response.output_text.delta": "text",
  "response.refusal.delta": "refusal",
  "response.reasoning_summary_text.delta": "reasoning",
  "response.reasoning_text.delta": "reasoning",
  "response.function_call_arguments.delta": "call",
  "response.custom_tool_call_input.delta": "call",
};

export class AnswerPane {
  constructor(request, signal) {
    this.request = request;
    this.signal = signal;
    this.parts = new Map();
    this.events = [];
    this.began = performance.now();
    this.firstAt = null;
    this.state = h("span", null, status("running"));
    this.facts = h("p", { class: "small muted facts-line" });
    this.output = h("div", { class: "output", "aria-live": "polite" });
    this.raw = h("div", { class: "raw-events" });
    this.summary = h("summary", null, "Raw events");
    this.draw = perFrame(() => this.drawParts());
    this.element = h("section", { class: "card answer" },
      h("header", null, h("h2", null, request.model), this.state), this.output, this.facts,
      h("details", { ontoggle: () => this.drawEvents() }, this.summary, this.raw));
  }

  async run() {
    try {
      await createResponse(this.request, (event) => this.onEvent(event), this.signal);
    } catch (error) {
      if (error.name === "AbortError") return fill(this.state, status("cancelled"));
      this.id = error.requestId ?? this.id;
      this.fail(error.message, error.code);
      this.showFacts();
    }
    return undefined;
  }

  onEvent(event) {
    if (event.type === "antiphon.accepted") {
      this.id = event.request_id;
      return;
    }
    this.events.push({ at: performance.now() - this.began, event });
    if (event.type === "response.output_item.added") this.addItem(event);
    const kind = DELTAS[event.type];
    if (kind) this.addDelta(kind, event);
    if (/^response\.(completed|incomplete|failed)$/.test(event.type)) this.finish(event.response);
    if (event.type === "error") this.fail(event.message, event.code);
    this.draw();
  }

  addItem({ item, output_index: index }) {
    if (item.type === "function_call" || item.type === "custom_tool_call") {
      this.parts.set(`call ${index}`, { kind: "call", name: item.name, text: item.arguments ?? item.input ?? "" });
    }
  }

  addDelta(kind, event) {
    this.firstAt ??= performance.now() - this.began;
    const key = `${kind} ${event.output_index}${kind === "call" ? "" : ` ${event.content_index ?? event.summary_index ?? 0}`}`;
    const part = this.parts.get(key) ?? { kind, text: "" };
    part.text += event.delta;
    this.parts.set(key, part);
  }

  finish(response) {
    fill(this.state, status(response.status));
    if (response.error) this.fail(response.error.message, response.error.code);
    this.showFacts(response);
  }

  showFacts({ usage, incomplete_details: incomplete } = {}) {
    fill(this.facts,
      this.firstAt !== null && `first output ${duration(this.firstAt)} · `, `${duration(performance.now() - this.began)} in all`,
      usage && ` · ${count(usage.input_tokens)} tokens in, ${count(usage.output_tokens)} out`,
      incomplete && ` · ${incomplete.reason}`,
      this.id && [" · ", link(`requests/${this.id}`, null, "X-ray"), " ", copyable(this.id, shortId(this.id))]);
  }

  fail(message, code) {
    fill(this.state, status("failed"));
    this.failure = h("div", { class: "failure", role: "alert" }, h("p", null, code && h("code", null, code), " ", message));
    this.draw();
  }

  drawParts() {
    this.summary.textContent = `Raw events (${this.events.length})`;
    fill(this.output, [...this.parts.values()].map(drawPart), this.failure);
    this.drawEvents();
  }

  drawEvents() {
    if (!this.summary.parentElement.open) return;
    for (const { at, event } of this.events.slice(this.raw.childElementCount)) {
      this.raw.append(h("details", null, h("summary", null, h("span", { class: "muted" }, duration(at)), " ", event.type), jsonView(event)));
    }
  }
}

function drawPart({ kind, name, text }) {
  if (kind === "reasoning") return h("details", { class: "reasoning", open: true }, h("summary", null, "Reasoning"), h("p", null, text));
  if (kind === "call") return h("div", { class: "call" }, h("strong", null, name ?? "tool call"), h("pre", { tabindex: "0" }, text));
  return h("p", { class: kind }, text);
}
