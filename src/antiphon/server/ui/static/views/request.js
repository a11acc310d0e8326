// One request: what became of it, its attempts as a waterfall, and its payloads in four lanes.

import { BASE, get } from "../api.js";
import { fill, h } from "../dom.js";
import { answeredBy, bytes, count, duration, fullTime, money, percent, shortId } from "../format.js";
import { lanes, readEntries } from "../lanes.js";
import { lastMoment, timeline } from "../timeline.js";
import { card, copyable, copyButton, empty, head, link, status, table, to } from "../widgets.js";

export const title = "Request";

export async function show(root, context) {
  const detail = await get(`requests/${context.id}`, null, context.signal);
  const kept = (detail.streams ?? []).some((stream) => stream.size > 0) && detail.payloads !== undefined;
  const { streams } = kept ? await get(`requests/${context.id}/streams`, null, context.signal) : { streams: [] };
  const entries = readEntries(streams, detail.received_at_ms);
  const body = readBody(streams);
  const grid = entries.length > 0 ? lanes(entries, detail.diagnostics ?? []) : null;
  const xray = timeline(detail, entries, (entry) => grid.reveal(entry));
  fill(root,
    h("p", { class: "crumbs" }, link("requests", null, "Requests"), " / ", h("span", { class: "muted" }, context.id)),
    makeHead(detail, body, xray, grid, entries), makeFailure(detail), makeFacts(detail),
    card("X-ray", xray, makeLegend(entries.length > 0)), makeAttempts(detail),
    !grid && makeDiagnostics(detail),
    grid ? card("Payloads by time", makeTruncated(streams), grid) : notKept(detail));
  if (!detail.finish) return followUntilEnd(context, detail);
  return undefined;
}

function followUntilEnd(context, detail) {
  const timer = setTimeout(() => context.reload(), Date.now() - detail.received_at_ms < 3_600_000 ? 2000 : 3_600_000);
  return () => clearTimeout(timer);
}

function readBody(streams) {
  const request = streams.find((stream) => stream.kind === "request");
  try {
    return request ? JSON.parse(request.chunks.map(([, text]) => text).join("")) : null;
  } catch {
    return null;
  }
}

function makeHead(detail, body, xray, grid, entries) {
  const request = detail.request ?? {};
  const shown = h("span", null, request.model || "Request", " ", status(detail.finish?.status ?? "running"));
  const actions = [
    grid && h("button", { type: "button", onclick: (event) => replay(event.currentTarget, xray, grid, lastMoment(detail, entries)) }, "Replay"),
    body && copyButton("Copy as curl", () => curl(body, detail.needs_client_key)),
    body && h("a", { class: "button", href: to("playground", { from: detail.request_id, model: request.model }) }, "Send again…"),
    grid && copyButton("Copy replay command", () => `antiphon trace replay ${detail.request_id}`),
  ];
  return head(shown, subtitle(detail), ...actions.filter(Boolean));
}

function subtitle(detail) {
  const { request = {}, finish = {} } = detail;
  const by = answeredBy({ provider: finish.provider, provider_model: finish.provider_model });
  return h("span", null, fullTime(detail.received_at_ms), by && finish.status !== "failed" && ` · answered by ${by}`, ` · client ${request.client ?? "unknown"}`);
}

function curl(body, needsKey) {
  const text = JSON.stringify(body).replaceAll("'", String.raw`'\''`);
  const key = needsKey ? " -H 'authorization: Bearer YOUR-KEY'" : "";
  return `curl ${new URL("../v1/responses", BASE).href} -H 'content-type: application/json'${key} -d '${text}'`;
}

/** Show what happened again, at its own pace but in ten seconds at most. */
function replay(button, xray, grid, end) {
  const total = Math.min(Math.max(end, 1500), 10_000);
  const began = performance.now();
  button.disabled = true;
  function step(now) {
    const at = ((now - began) / total) * end;
    const done = at >= end || !xray.isConnected;
    xray.moveCursor(done ? null : at);
    grid.showUntil(done ? null : at);
    button.disabled = !done;
    if (!done) requestAnimationFrame(step);
  }
  requestAnimationFrame(step);
}

function makeFailure(detail) {
  return (detail.errors ?? []).map((error) => h("div", { class: "failure", role: "note" },
    h("p", null, h("code", null, error.code), error.param && h("code", null, error.param), " ", h("strong", null, error.message)),
    error.reason && h("p", null, h("span", { class: "muted" }, "Reason: "), attribute(error))));
}

/** The provider's own words, or what the gateway found, which names the provider itself. */
function attribute({ provider, reason }) {
  return !provider || reason.startsWith(`${provider}: `) ? reason : `${provider}: ${reason}`;
}

function makeFacts(detail) {
  const { request = {}, finish = {}, usage } = detail;
  const facts = [
    ["Request", copyable(detail.request_id, shortId(detail.request_id))],
    ["Response", request.response_id ? copyable(request.response_id, shortId(request.response_id)) : "–"],
    ["Previous response", request.previous_response_id && copyable(request.previous_response_id, shortId(request.previous_response_id))],
    ["Client software", request.software],
    [finish.status === "failed" ? "Last tried" : "Answered by", answeredBy(finish) || "nobody"],
    ["Dialect", finish.dialect], ["API key", finish.key_name],
    ["Answer", request.stream ? "streamed" : "whole"],
    ["HTTP status", finish.http_status],
    ["Duration", finish.duration_ms !== undefined && duration(finish.duration_ms)],
    ["First event", finish.first_event_ms !== undefined && `after ${duration(finish.first_event_ms)}`],
    ["Events", finish.events ? count(finish.events) : null],
    ...(usage ? makeUsage(usage) : []),
  ];
  return h("dl", { class: "facts" }, facts.filter(([, value]) => value).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

function makeUsage(usage) {
  const { input_tokens: input = 0, output_tokens: output = 0, cached_tokens: cached, cache_write_tokens: written, reasoning_tokens: reasoning } = usage;
  const estimated = usage.estimated ? h("span", { class: "muted", title: "The provider sent no counts: these are estimated by length." }, " estimated") : null;
  return [
    ["Input tokens", [count(input), cached ? ` (${percent(cached, input)} cached)` : "", estimated]],
    ["Written to the cache", written ? `${count(written)} tokens` : null],
    ["Output tokens", [count(output), reasoning ? ` (${count(reasoning)} reasoning)` : "", estimated?.cloneNode(true)]],
    ["Cost", usage.cost === undefined ? h("span", { class: "muted", title: "Set the price of the model in [prices]." }, "unknown") : money(usage.cost)],
  ];
}

function makeLegend(hasChunks) {
  const marks = [["wait", "waiting for the first output"], ["flow", "output"], ["failed", "failed attempt"]];
  if (hasChunks) marks.push(["tick", "a chunk: click to see it"]);
  return h("p", { class: "legend small muted" }, marks.map(([kind, name]) => h("span", null, h("i", { class: kind }), name)));
}

function makeAttempts(detail) {
  const attempts = detail.attempts ?? [];
  const skipped = detail.skips ?? [];
  if (attempts.length + skipped.length === 0) {
    return card("Attempts", h("p", { class: "muted" }, detail.finish ? "No provider was asked." : "No attempt has ended yet."));
  }
  const columns = [
    { name: "#", cell: (each) => each.number ?? "–" },
    { name: "Provider and model", class: "grow", cell: (each) => `${each.provider}/${each.model}` },
    { name: "Key", class: "nowrap", cell: (each) => each.key_name ?? "–" },
    { name: "Outcome", class: "grow", cell: outcome },
    { name: "HTTP", class: "number", cell: (each) => each.status ?? "–" },
    { name: "Began", class: "number", cell: (each) => duration(each.began_ms) },
    { name: "Latency", class: "number", cell: (each) => duration(each.latency_ms) },
  ];
  return card("Attempts", table("Attempts", columns, [...attempts, ...skipped]));
}

function outcome(each) {
  if (each.number === undefined) return [h("span", { class: "pill idle" }, "skipped"), " ", each.reason];
  if (!each.fault_type) return h("span", { class: "pill ok" }, "output began");
  return [h("span", { class: "pill bad" }, each.fault_type), " ", h("code", null, each.fault_code), each.reason && h("div", { class: "small muted" }, each.reason)];
}

function makeDiagnostics(detail) {
  const found = detail.diagnostics ?? [];
  if (found.length === 0) return null;
  return card("Diagnostics", table("Diagnostics", [
    { name: "Field", cell: (each) => h("code", null, each.param || "–") },
    { name: "Decision", cell: (each) => each.decision },
    { name: "Message", class: "grow", cell: (each) => each.message },
    { name: "Code", cell: (each) => h("code", null, each.code) },
  ], found));
}

function makeTruncated(streams) {
  const cut = streams.filter((stream) => stream.truncated);
  return cut.length > 0 && h("p", { class: "banner" }, `Only the beginning is kept of: ${cut.map((each) => `${each.kind} (${bytes(each.size)})`).join(", ")}. Raise payload_max_bytes in [trace] to keep more.`);
}

function notKept(detail) {
  const advice = detail.payloads
    ? "Payloads are kept now, but this request has none: it was rejected before a provider was asked, is still running, or was made before."
    : "To see what was asked, sent, said and received, set payloads = true in [trace], restart the gateway and send the request again.";
  return card("Payloads by time", empty("Payloads are not kept for this request", advice, detail.payloads ? null : h("pre", null, "[trace]\npayloads = true")));
}
