// Four lanes side by side on one time axis: what was asked, sent, said and received, with times.

import { EventReader } from "./api.js";
import { h } from "./dom.js";
import { bytes, duration, pretty } from "./format.js";
import { jsonView } from "./json_view.js";
import { LANES } from "./timeline.js";

const SMALL = 700;
const PAGE = 150;

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
  if (stream.whole) return stream.chunks.map(([at, text]) => ({ lane: "transformed", at: Math.max(0, at - receivedAt), title: "whole response", text }));
  const reader = new EventReader();
  return stream.chunks.flatMap(([at, text]) => reader.feed(text).map(({ type, data }) => ({
    lane: "transformed", at: Math.max(0, at - receivedAt), title: type || data, text: data,
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

function title(entry) {
  if (entry.title) return entry.title;
  if (entry.lane === "raw") {
    const words = readChunk(entry.text).map(findWords).join("");
    return words ? `“${words.slice(0, 60)}”` : entry.text.trim().slice(0, 60);
  }
  if (entry.lane === "request") return "request";
  return entry.repeats ? "the same body again" : "request body";
}

/** The text that a provider's frame adds to the answer, if it is easy to find. */
function findWords(frame) {
  const value = parse(frame)?.value;
  if (!value || typeof value !== "object") return "";
  const delta = value.choices?.[0]?.delta ?? value.delta ?? value.message ?? {};
  const parts = value.candidates?.[0]?.content?.parts ?? [];
  const found = [delta.content, delta.reasoning_content, delta.text, delta.thinking, ...parts.map((part) => part.text)];
  if (typeof value.delta === "string") found.push(value.delta);
  return found.filter((each) => typeof each === "string").join("");
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

function makeEntry(entry, diagnostics) {
  const details = h("details", { class: `entry ${entry.lane}` },
    h("summary", null, h("span", { class: "title" }, title(entry)), h("span", { class: "muted size" }, bytes(entry.text.length))));
  const show = () => details.childElementCount === 1 && details.append(content(entry, diagnostics));
  details.addEventListener("toggle", () => details.open && show());
  const isNew = !entry.repeats;
  if (entry.lane === "request" || (isNew && entry.order < 2 && entry.text.length < SMALL)) {
    show();
    details.open = true;
  }
  entry.element = details;
  return details;
}

/** The lanes as a grid: a row for each moment, a column for each lane. */
export function lanes(entries, diagnostics) {
  const grid = h("div", { class: "lanes", role: "table", "aria-label": "Payloads by time" },
    h("div", { class: "lane-head", role: "row" }, h("span", { role: "columnheader" }, "time"),
      LANES.map((lane) => h("span", { role: "columnheader", class: lane.kind }, lane.name))));
  const moments = [...Map.groupBy(entries, (entry) => Math.round(entry.at))];
  let shown = 0;
  const more = h("button", { type: "button", onclick: () => addRows() });
  const rows = [];
  function addRows(until = shown + PAGE) {
    for (const [at, group] of moments.slice(shown, until)) {
      const row = h("div", { class: "moment", role: "row" }, h("span", { class: "at", role: "rowheader" }, duration(at)),
        LANES.map((lane) => h("div", { role: "cell", class: "cell", "data-label": lane.name },
          group.filter((entry) => entry.lane === lane.kind).map((entry) => makeEntry(entry, diagnostics)))));
      row.at = at;
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
