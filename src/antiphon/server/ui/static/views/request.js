// One request: its verdict and its result, then tabs: timeline, input, sent upstream, raw.

import { BASE, get } from "../api.js";
import { drawTurns, readConversation } from "../conversation.js";
import { fill, h } from "../dom.js";
import { answeredBy, bytes, count, duration, fullTime, pretty, shortId } from "../format.js";
import { jsonView } from "../json_view.js";
import { lanes, readEntries } from "../lanes.js";
import { neighbours } from "../neighbours.js";
import { payloadSwitch } from "../payload_switch.js";
import { drawResult, drawVerdict, retryForm } from "../result.js";
import { LANES, lastMoment, timeline } from "../timeline.js";
import { card, code, copyable, copyButton, empty, head, link, status, table, tabs, to } from "../widgets.js";

export const title = "Request";

const MAX_RAW = 200_000;

export async function show(root, context) {
  const detail = await get(`requests/${context.id}`, null, context.signal);
  const load = (id, query) => get(`requests/${id}/result`, query, context.signal);
  const kept = (detail.streams ?? []).some((stream) => stream.size > 0) && detail.payloads !== undefined;
  const [{ streams }, judged, models] = await Promise.all([
    kept ? get(`requests/${context.id}/streams`, null, context.signal) : { streams: [] },
    load(context.id),
    get("models", null, context.signal).catch(() => ({ models: [] })),
  ]);
  const request = { detail, streams, body: readBody(streams, "request"), entries: readEntries(streams, detail.received_at_ms) };
  const names = models.models.filter((model) => !model.test).map((model) => model.name);
  const near = neighbours(context.id, detail);
  fill(root, makeCrumbs(context.id, near), makeHead(request),
    judged.verdict && drawVerdict(judged.verdict, retryForm(detail, request.body, names, load)),
    makeFailure(detail, judged.verdict),
    drawResult(detail, judged.result, notKept(detail)),
    card(null, makeTabs(request, context)));
  context.onKey = (key) => {
    if (key === "j" && near.next) context.navigate(to(`requests/${near.next}`));
    if (key === "k" && near.previous) context.navigate(to(`requests/${near.previous}`));
    if (key === "Escape") context.navigate(near.list);
  };
  if (!detail.finish) return followUntilEnd(context, detail);
  return undefined;
}

function followUntilEnd(context, detail) {
  const timer = setTimeout(() => context.reload(), Date.now() - detail.received_at_ms < 3_600_000 ? 2000 : 3_600_000);
  return () => clearTimeout(timer);
}

function readBody(streams, kind) {
  const stream = streams.find((each) => each.kind === kind);
  try {
    return stream ? JSON.parse(stream.chunks.map(([, text]) => text).join("")) : null;
  } catch {
    return null;
  }
}

function makeCrumbs(id, near) {
  const step = (other, key, name) => other && h("a", { href: to(`requests/${other}`), title: `${name} (${key})` }, name);
  return h("div", { class: "crumbs" }, h("span", null, h("a", { href: near.list }, "Requests"), " / ", h("span", { class: "muted" }, id)),
    h("span", { class: "steps" }, step(near.previous, "k", "‹ Previous"), step(near.next, "j", "Next ›")));
}

function makeHead({ detail, body }) {
  const request = detail.request ?? {};
  const shown = h("span", null, request.model || "Request", " ", status(detail.finish?.status ?? "running"));
  const actions = [
    body && copyButton("Copy as curl", () => curl(body, detail)),
    body && h("a", { class: "button", href: to("playground", { from: detail.request_id, model: request.model }) }, "Send again…"),
    body && copyButton("Copy replay command", () => `antiphon trace replay ${detail.request_id}`),
  ];
  return head(shown, subtitle(detail), ...actions.filter(Boolean));
}

function subtitle(detail) {
  const { request = {}, finish = {} } = detail;
  const by = answeredBy({ provider: finish.provider, provider_model: finish.provider_model });
  return h("span", null, fullTime(detail.received_at_ms), by && finish.status !== "failed" && ` · served by ${by}`, ` · client ${request.client ?? "unknown"}`,
    request.session && [" · session ", link(`sessions/${encodeURIComponent(request.session)}`, null, shortId(request.session))]);
}

const PATHS = { chat: "chat/completions", messages: "messages" };

function curl(body, detail) {
  const text = JSON.stringify(body).replaceAll("'", String.raw`'\''`);
  const key = detail.needs_client_key ? " -H 'authorization: Bearer YOUR-KEY'" : "";
  const path = PATHS[detail.request?.format] ?? "responses";
  return `curl ${new URL(`../v1/${path}`, BASE).href} -H 'content-type: application/json'${key} -d '${text}'`;
}

/** What the client was told; the verdict has the reason. */
function makeFailure(detail, verdict) {
  return (detail.errors ?? []).map((error) => h("div", { class: "failure", role: "note" },
    h("p", null, h("span", { class: "muted" }, "The client was told: "), h("code", null, error.code), error.param && h("code", null, error.param), " ", error.message),
    !verdict && error.reason && h("p", null, h("span", { class: "muted" }, "Reason: "), error.reason)));
}

// Tabs

function makeTabs(request, context) {
  const { detail, body, streams } = request;
  const entries = [
    ["Timeline", () => makeTimeline(request)],
    ["Input", () => makeInput(detail, body)],
    ["Sent upstream", () => makeSent(detail, streams)],
    ["Raw", () => makeRaw(streams, detail)],
    ["Facts", () => makeFacts(detail)],
  ];
  const wanted = context.query.get("tab");
  return tabs("Parts of the request", entries, {
    chosen: Math.max(0, entries.findIndex(([name]) => name === wanted)),
    onChoose: (name) => context.replaceQuery({ tab: name === "Timeline" ? null : name }),
  });
}

function makeTimeline({ detail, entries, streams }) {
  const grid = entries.length > 0 ? lanes(entries, detail.diagnostics ?? []) : null;
  const xray = timeline(detail, entries, (entry) => grid.reveal(entry));
  const replayButton = grid && h("button", { type: "button", onclick: (event) => replay(event.currentTarget, xray, grid, lastMoment(detail, entries)) }, "Replay");
  return h("div", { class: "stack" }, xray,
    h("div", { class: "actions" }, makeLegend(detail, entries.length > 0), replayButton && h("span", { class: "right" }, replayButton)),
    makeAttempts(detail), makeServerCalls(detail), makeTruncated(streams), grid);
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

function makeInput(detail, body) {
  const diagnostics = detail.diagnostics ?? [];
  if (!body) return h("div", { class: "stack" }, makeDiagnostics(diagnostics), h("p", { class: "muted" }, "The request of the client is not kept."));
  const { input: _, messages: __, instructions: ___, system: ____, tools, ...settings } = body;
  const offered = Array.isArray(tools) ? tools : [];
  return h("div", { class: "stack" },
    drawTurns(readConversation(body)),
    diagnostics.length > 0 && makeDiagnostics(diagnostics),
    offered.length > 0 && h("details", { class: "fold" }, h("summary", null, `Tools (${offered.length})`, h("span", { class: "muted" }, ` ${offered.map(toolName).join(", ")}`)), jsonView(offered)),
    h("details", { class: "fold" }, h("summary", null, "Settings ", h("span", { class: "muted" }, Object.keys(settings).join(", "))), jsonView(settings)),
    h("details", { class: "fold", open: diagnostics.length > 0 }, h("summary", null, "The whole request as JSON"), jsonView(body, diagnostics)));
}

const toolName = (tool) => tool?.name ?? tool?.function?.name ?? tool?.type ?? "tool";

function makeSent(detail, streams) {
  const stream = streams.find((each) => each.kind === "outbound");
  if (!stream) return h("p", { class: "muted" }, detail.attempts?.length ? "The requests to providers are not kept." : "Nothing was sent to a provider.");
  const seen = new Map();
  return h("div", { class: "stack" }, stream.chunks.map(([, text], index) => {
    const attempt = detail.attempts?.[index];
    const name = h("h3", null, `Attempt ${index + 1}`, attempt && ` · ${attempt.provider}/${attempt.model}`);
    if (seen.has(text)) return h("div", null, name, h("p", { class: "muted" }, `The same body as in attempt ${seen.get(text)}.`));
    seen.set(text, index + 1);
    return h("div", { class: "stack" }, name, drawBody(text));
  }));
}

function drawBody(text) {
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    return code(text.slice(0, MAX_RAW));
  }
  const turns = readConversation(body);
  return h("div", { class: "stack" }, turns.length > 0 && drawTurns(turns),
    h("details", { class: "fold", open: turns.length === 0 }, h("summary", null, "As JSON"), jsonView(body)));
}

function makeRaw(streams, detail) {
  const found = LANES.map((lane) => [lane.name, streams.find((stream) => stream.kind === lane.kind)]).filter(([, stream]) => stream);
  if (found.length === 0) return h("p", { class: "muted" }, detail.payloads ? "This request has no payloads." : "Payloads are not kept.");
  return h("div", { class: "stack" }, makeTruncated(streams), found.map(([name, stream]) => {
    const text = stream.chunks.map(([, each]) => each).join("");
    const shown = text.length > MAX_RAW ? `${text.slice(0, MAX_RAW)}\n… ${bytes(text.length - MAX_RAW)} more` : text;
    return h("details", { class: "fold raw-stream", open: stream.kind !== "request" && stream.kind !== "outbound" },
      h("summary", null, name, h("span", { class: "muted" }, ` ${bytes(stream.size)} in ${count(stream.chunks.length)} chunks`)), code(stream.kind === "request" || stream.kind === "outbound" ? pretty(shown) : shown));
  }));
}

// Facts

function makeFacts(detail) {
  const { request = {}, finish = {} } = detail;
  const facts = [
    ["Request", copyable(detail.request_id, shortId(detail.request_id))],
    ["Response", request.response_id ? copyable(request.response_id, shortId(request.response_id)) : "–"],
    ["Previous response", request.previous_response_id && copyable(request.previous_response_id, shortId(request.previous_response_id))],
    ["Session", request.session && copyable(request.session, shortId(request.session))],
    ["Client software", request.software], ["Client format", request.format],
    [finish.status === "failed" ? "Last tried" : "Served by", answeredBy(finish) || "no provider"],
    ["Dialect", finish.dialect], ["API key", finish.key_name],
    ["Response", request.stream ? "streamed" : "whole"],
    ["HTTP status", finish.http_status],
    ["Finish reason", finish.finish_reason],
    ["Duration", finish.duration_ms !== undefined && duration(finish.duration_ms)],
    ["First token", finish.first_event_ms !== undefined && `after ${duration(finish.first_event_ms)}`],
    ["Events", finish.events ? count(finish.events) : null],
    ["Written to the cache", detail.usage?.cache_write_tokens ? `${count(detail.usage.cache_write_tokens)} tokens` : null],
  ];
  return h("dl", { class: "facts" }, facts.filter(([, value]) => value).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

function makeLegend(detail, hasChunks) {
  const marks = [["wait", "waiting for the first token"], ["flow", "output"], ["failed", detail.finish?.status === "failed" ? "failed, or cut" : "failed attempt"]];
  if (hasChunks) marks.push(["tick", "a chunk: click to see it"]);
  return h("p", { class: "legend small muted" }, marks.map(([kind, name]) => h("span", null, h("i", { class: kind }), name)));
}

function makeAttempts(detail) {
  const attempts = detail.attempts ?? [];
  const skipped = detail.skips ?? [];
  if (attempts.length + skipped.length === 0) return h("p", { class: "muted" }, detail.finish ? "No provider was called." : "No attempt has ended yet.");
  const cut = detail.finish?.status === "failed" ? attempts.at(-1) : null;
  const columns = [
    { name: "#", cell: (each) => each.number ?? "–" },
    { name: "Provider and model", class: "grow", cell: (each) => `${each.provider}/${each.model}` },
    { name: "Key", class: "nowrap", cell: (each) => each.key_name ?? "–" },
    { name: "Outcome", class: "grow", cell: (each) => outcome(each, each === cut, detail) },
    { name: "HTTP", class: "number", cell: (each) => each.status ?? "–" },
    { name: "Began", class: "number", cell: (each) => duration(each.began_ms) },
    { name: "Latency", class: "number", cell: (each) => duration(each.latency_ms) },
  ];
  return table("Attempts", columns, [...attempts, ...skipped]);
}

function makeServerCalls(detail) {
  const calls = detail.server_calls ?? [];
  if (calls.length === 0) return null;
  const columns = [
    { name: "Server", class: "grow", cell: (each) => each.server },
    { name: "Tool", class: "grow", cell: (each) => each.tool ?? h("span", { class: "muted" }, "list of tools") },
    { name: "Outcome", class: "grow", cell: serverOutcome },
    { name: "Result", class: "number", cell: (each) => `${count(each.result_bytes ?? 0)} ${each.tool ? "bytes" : "tools"}` },
    { name: "Duration", class: "number", cell: (each) => duration(each.duration_ms ?? 0) },
  ];
  return [h("h3", null, "MCP servers"), table("MCP servers", columns, calls)];
}

function serverOutcome(each) {
  if (!each.error) return h("span", { class: "pill ok" }, "completed");
  return [h("span", { class: "pill bad" }, each.error), each.reason && h("div", { class: "small muted" }, each.reason)];
}

function outcome(each, isCut, detail) {
  if (each.number === undefined) return [h("span", { class: "pill idle" }, "not tried"), " ", each.reason];
  if (!each.fault_type && isCut) return [h("span", { class: "pill bad" }, "cut"), ` after ${duration(detail.finish.duration_ms)}`];
  if (!each.fault_type) return h("span", { class: "pill ok" }, "output began");
  return [h("span", { class: "pill bad" }, each.fault_type), " ", h("code", null, each.fault_code), each.reason && h("div", { class: "small muted" }, each.reason), words(each)];
}

function words(each) {
  const named = [["type", each.upstream_type], ["code", each.upstream_code], ["param", each.upstream_param], ["request id", each.upstream_request_id]];
  const text = named.filter(([, value]) => value).map(([name, value]) => `${name} ${value}`).join(", ");
  return [text && h("div", { class: "small muted" }, text), each.upstream_body && h("pre", { class: "muted" }, each.upstream_body)];
}

function makeDiagnostics(found) {
  if (found.length === 0) return null;
  return table("Diagnostics", [
    { name: "Field", cell: (each) => h("code", null, each.param || "–") },
    { name: "Decision", cell: (each) => each.decision },
    { name: "Message", class: "grow", cell: (each) => each.message },
    { name: "Code", cell: (each) => h("code", null, each.code) },
  ], found);
}

function makeTruncated(streams) {
  const cut = streams.filter((stream) => stream.truncated);
  return cut.length > 0 && h("p", { class: "banner" }, `Only the beginning is kept of: ${cut.map((each) => `${each.kind} (${bytes(each.size)})`).join(", ")}. Raise payload_max_bytes in [trace] to keep more.`);
}

function notKept(detail) {
  if (!detail.finish) return h("p", { class: "muted" }, "It is still running. Its output appears here when it has ended.");
  const advice = detail.payloads
    ? "Payloads are kept now, but this request has none: it was rejected before a provider was called, or was made before."
    : "To see the conversation, what was sent upstream and both streams, keep payloads and send the request again. Or set payloads = true in [trace].";
  return empty("The output of this request is not kept", advice, payloadSwitch(detail));
}
