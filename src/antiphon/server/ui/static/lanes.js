// Four lanes side by side on one time axis: requests, what was sent, and both streams with times.
// Neighbouring deltas are one cell.

import { EventReader } from "./api.js";
import { h } from "./dom.js";
import { bytes, duration, pretty } from "./format.js";
import { jsonView } from "./json_view.js";
import { LANES } from "./timeline.js";

const PAGE = 150;
const MAX_QUOTE = 80;

/** Turn the chunks of all streams into entries in the order of their times. */
export function readEntries(streams, receivedAt) {
  const entries = streams.flatMap((stream) => (stream.kind === "transformed"
    ? readEvents(stream, receivedAt)
    : stream.chunks.map(([at, text]) => ({ lane: stream.kind, at: Math.max(0, at - receivedAt), text }))));
  entries.forEach((entry) => {
    entry.order = LANES.findIndex((lane) => lane.kind === entry.lane);
  });
  entries.sort((one, other) => one.at - other.at || one.order - other.order);
  return markRepeats(entries);
}

/** Mark what a provider was sent before, word for word. */
function markRepeats(entries) {
  const seen = new Set();
  for (const entry of entries.filter((each) => each.lane === "outbound")) {
    entry.repeats = seen.has(entry.text);
    seen.add(entry.text);
  }
  return entries;
}

function readEvents(stream, receivedAt) {
  if (stream.whole) return stream.chunks.map(([at, text]) => ({ lane: "transformed", at: Math.max(0, at - receivedAt), whole: true, text }));
  const reader = new EventReader();
  return stream.chunks.flatMap(([at, text]) => reader.feed(text).map(({ type, data }) => ({
    lane: "transformed", at: Math.max(0, at - receivedAt), type: type || undefined, text: data,
  })));
}

/** Frames of a provider's chunk, each with its JSON where it has one. */
function readChunk(text) {
  const reader = new EventReader();
  const framed = /^(event|data|id|:)/.test(text) || /\n(event|data):/.test(text);
  if (framed) {
    const frames = [...reader.feed(text), ...reader.close()].map((frame) => frame.data);
    if (frames.length > 0) return frames;
  }
  return text.trim().split("\n").filter(Boolean);
}

function parse(text) {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return null;
  }
}

// What a cell says: the name of its event, and what differs from its neighbours

const quote = (text) => (text.length > MAX_QUOTE ? `${text.slice(0, MAX_QUOTE)}…` : text);
const SHORT_NAMES = { output_text: "text", function_call_arguments: "arguments", custom_tool_call_input: "input", reasoning_summary_text: "reasoning", reasoning_text: "reasoning" };

/** Describe an entry as { name, delta, key }; entries with the same key are joined, with their deltas. */
function describe(entry) {
  if (entry.lane === "request") return { name: "request" };
  if (entry.lane === "outbound") return { name: entry.repeats ? "the same body again" : "request body" };
  return entry.lane === "raw" ? describeChunk(entry) : describeEvent(entry);
}

function describeEvent({ text, type, whole }) {
  if (whole) return { name: "whole response" };
  const value = parse(text)?.value;
  if (!value || typeof value !== "object") return { name: type ?? text };
  if (!String(value.type ?? "").startsWith("response.")) return { ...describeFrames([text]), type };
  const name = value.type.replace(/^response\./, "").replace(/^(\w+)(?=\.(delta|done)$)/, (part) => SHORT_NAMES[part] ?? part);
  if (typeof value.delta === "string") return { name, delta: value.delta, key: `${value.type} ${value.output_index} ${value.content_index ?? value.summary_index ?? 0}` };
  const item = value.item ?? value.part;
  const about = item ? [item.type, item.name].filter(Boolean).join(" ") : "";
  return { name: [name, about].filter(Boolean).join(" ") };
}

function describeChunk({ text }) {
  return describeFrames(readChunk(text)) ?? { name: quote(text.trim()) };
}

/** Describe the frames of a provider's stream, or those of a client that speaks the same format. */
function describeFrames(frames) {
  const found = frames.map(describeFrame);
  const deltas = found.filter((each) => each.delta !== undefined);
  if (deltas.length > 0 && deltas.length === found.length && new Set(deltas.map((each) => each.name)).size === 1) {
    return { name: deltas[0].name, delta: deltas.map((each) => each.delta).join(""), key: deltas[0].name };
  }
  const names = [...new Set(found.map((each) => (each.delta === undefined ? each.name : `${each.name} '${quote(each.delta)}'`)))];
  return { name: quote(names.filter(Boolean).join(", ")) || quote(frames.join(" ")) };
}

function describeFrame(frame) {
  const value = parse(frame)?.value;
  if (!value || typeof value !== "object") return { name: quote(frame) };
  if (value.error) return { name: `error ${quote(typeof value.error === "string" ? value.error : value.error.message ?? "")}` };
  if (value.choices) return describeChoice(value);
  if (value.candidates) return describeParts(value.candidates[0]);
  const delta = value.delta;
  if (typeof delta === "string") return { name: String(value.type ?? "").replace(/^response\./, "") || "text.delta", delta };
  if (delta && typeof delta === "object") return describeBlock(delta, value);
  return { name: [value.type ?? value.event_type, value.content_block?.type, value.content_block?.name].filter(Boolean).join(" ") || quote(frame) };
}

/** A chunk of Chat Completions. */
function describeChoice(value) {
  const { delta = {}, message, finish_reason: finish } = value.choices[0] ?? {};
  if (message) return { name: "message" };
  const call = delta.tool_calls?.[0]?.function;
  const [part, text] = [["text", delta.content], ["reasoning", delta.reasoning_content ?? delta.reasoning], ["arguments", call?.arguments]].find(([, each]) => each) ?? [];
  if (call?.name) return { name: `tool call ${call.name}${text ? ` '${quote(text)}'` : ""}` };
  if (typeof text === "string" && !finish) return { name: `${part}.delta`, delta: text };
  if (finish) return { name: `finish: ${finish}` };
  return { name: value.usage ? "usage" : "role" };
}

/** A delta of Messages, Cohere or Bedrock. */
function describeBlock(delta, value) {
  const text = delta.text ?? delta.thinking ?? delta.partial_json ?? delta.message?.content?.text;
  const part = delta.thinking !== undefined ? "reasoning" : delta.partial_json !== undefined ? "arguments" : "text";
  if (typeof text === "string") return { name: `${part}.delta`, delta: text };
  return { name: [value.type, delta.type, delta.stop_reason].filter(Boolean).join(" ") };
}

function describeParts(candidate) {
  const parts = candidate?.content?.parts ?? [];
  const call = parts.find((part) => part.functionCall)?.functionCall;
  if (call) return { name: `tool call ${call.name}` };
  const text = parts.map((part) => part.text ?? "").join("");
  if (text) return { name: parts[0].thought ? "reasoning.delta" : "text.delta", delta: text };
  return { name: candidate?.finishReason ? `finish: ${candidate.finishReason}` : "part" };
}

/** Group entries into rows: one for each moment; moments that only continue a delta share a row. */
export function groupMoments(entries) {
  const rows = [];
  for (const [at, group] of Map.groupBy(entries, (entry) => Math.round(entry.at))) {
    const told = group.map((entry) => ({ entry, ...describe(entry) }));
    const last = rows.at(-1);
    const continues = last && told.every((each) => each.key && (last.keys.get(each.entry.lane) ?? each.key) === each.key) && last.joins;
    const row = continues ? last : { at, keys: new Map(), cells: [], joins: true };
    if (!continues) rows.push(row);
    row.until = at;
    for (const each of told) addCell(row, each);
  }
  return rows;
}

function addCell(row, { entry, name, delta, key }) {
  if (!key) row.joins = false;
  const cell = key && row.cells.find((each) => each.key === key && each.lane === entry.lane);
  if (cell) {
    cell.delta += delta;
    cell.entries.push(entry);
  } else {
    row.cells.push({ lane: entry.lane, name, delta, key, entries: [entry] });
  }
  if (key) row.keys.set(entry.lane, key);
}

function content(entry, diagnostics) {
  const whole = parse(entry.text);
  if (whole) return jsonView(whole.value, entry.lane === "request" ? diagnostics : []);
  const frames = entry.lane === "raw" ? readChunk(entry.text) : [entry.text];
  return h("div", null, frames.map((frame) => {
    const parsed = parse(frame);
    return parsed ? jsonView(parsed.value) : h("pre", { tabindex: "0" }, pretty(frame));
  }));
}

function makeCell(cell, diagnostics) {
  const size = cell.entries.reduce((total, each) => total + each.text.length, 0);
  const many = cell.entries.length > 1 && h("span", { class: "muted size" }, `×${cell.entries.length}`);
  const details = h("details", { class: `entry ${cell.lane}` },
    h("summary", null, h("span", { class: "title" }, cell.name, cell.delta !== undefined && [" ", h("q", null, quote(cell.delta))]), many, h("span", { class: "muted size" }, bytes(size))));
  const show = () => {
    if (details.childElementCount > 1) return;
    if (cell.entries.length > 1) details.append(h("pre", { class: "joined", tabindex: "0" }, cell.delta));
    for (const entry of cell.entries) {
      details.append(cell.entries.length > 1 ? h("div", { class: "one-of" }, h("span", { class: "muted small" }, duration(entry.at)), content(entry, diagnostics)) : content(entry, diagnostics));
    }
  };
  details.addEventListener("toggle", () => details.open && show());
  cell.entries.forEach((entry) => {
    entry.element = details;
  });
  return details;
}

/** The lanes as a grid: a row for each moment, a column for each lane. */
export function lanes(entries, diagnostics) {
  const grid = h("div", { class: "lanes", role: "table", "aria-label": "Payloads by time" },
    h("div", { class: "lane-head", role: "row" }, h("span", { role: "columnheader" }, "time"),
      LANES.map((lane) => h("span", { role: "columnheader", class: lane.kind }, lane.name))));
  const moments = groupMoments(entries);
  let shown = 0;
  const more = h("button", { type: "button", onclick: () => addRows() });
  const rows = [];
  function addRows(until = shown + PAGE) {
    for (const moment of moments.slice(shown, until)) {
      const time = moment.until > moment.at ? [duration(moment.at), h("br"), `– ${duration(moment.until)}`] : duration(moment.at);
      const row = h("div", { class: "moment", role: "row" }, h("span", { class: "at", role: "rowheader" }, time),
        LANES.map((lane) => h("div", { role: "cell", class: "cell", "data-label": lane.name },
          moment.cells.filter((cell) => cell.lane === lane.kind).map((cell) => makeCell(cell, diagnostics)))));
      row.at = moment.at;
      rows.push(row);
      grid.append(row);
    }
    shown = Math.min(until, moments.length);
    more.textContent = `Show ${Math.min(PAGE, moments.length - shown)} more of ${moments.length - shown}`;
    more.hidden = shown >= moments.length;
  }
  addRows();
  const box = h("div", null, grid, more);
  box.reveal = (entry) => {
    if (!entry.element) addRows(moments.length);
    entry.element.open = true;
    entry.element.scrollIntoView({ block: "center", behavior: "smooth" });
    entry.element.querySelector("summary").focus({ preventScroll: true });
  };
  box.showUntil = (ms) => rows.forEach((row) => row.classList.toggle("future", ms !== null && row.at > ms));
  return box;
}
