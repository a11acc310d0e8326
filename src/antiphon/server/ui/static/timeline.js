// The X-ray of a request: attempts and rounds as a waterfall, and four lanes of payloads below, all
// on one time axis.

import { s } from "./dom.js";
import { fitted } from "./charts.js";
import { duration } from "./format.js";

export const LANES = [
  { kind: "request", name: "Client request" },
  { kind: "outbound", name: "Sent upstream" },
  { kind: "raw", name: "Upstream stream" },
  { kind: "transformed", name: "Events to client" },
];
const ROW = 26;
const AXIS = 24;

/** Where each attempt began, had its first output, and ended; and the round it belongs to. */
export function readAttempts(detail, end) {
  let round = 1;
  const attempts = (detail.attempts ?? []).map((each, index, all) => {
    const failed = Boolean(each.fault_type);
    const next = all[index + 1];
    const attempt = { ...each, failed, round, end: failed ? each.at_ms : next?.began_ms ?? end };
    attempt.cut = !failed && !next && detail.finish?.status === "failed";
    if (!failed) round += 1;
    return attempt;
  });
  return attempts;
}

/** The last moment that anything is known of. */
export function lastMoment(detail, entries) {
  const attempts = (detail.attempts ?? []).map((each) => each.at_ms);
  return Math.max(1, detail.finish?.duration_ms ?? 0, ...attempts, ...entries.map((each) => each.at));
}

export function timeline(detail, entries, onChoose) {
  const end = lastMoment(detail, entries);
  const attempts = readAttempts(detail, end);
  const lanes = entries.length > 0 ? LANES : [];
  const hasRounds = new Set(attempts.map((each) => each.round)).size > 1;
  const cursor = s("line", { class: "cursor", "stroke-width": 0 });
  let scale = null;
  const box = fitted((width) => {
    const label = width < 560 ? 0 : 190;
    const row = label ? ROW : ROW + 16;
    const plot = width - label - 8;
    scale = (ms) => label + (plot * ms) / end;
    const height = AXIS + (attempts.length + lanes.length) * row + 14;
    cursor.setAttribute("y1", AXIS - 4);
    cursor.setAttribute("y2", height);
    return s("svg", { width, height },
      axis(end, scale, height, width, label),
      attempts.map((each, index) => drawAttempt(each, hasRounds, { label, row, scale, y: AXIS + index * row, width })),
      lanes.map((lane, index) => drawLane(lane, entries, onChoose, {
        label, row, scale, end, y: AXIS + 14 + (attempts.length + index) * row, width,
      })), cursor);
  }, `${attempts.length} attempts in ${duration(end)}`);
  box.moveCursor = (ms) => {
    if (!scale) return;
    const x = ms === null ? 0 : scale(Math.min(ms, end));
    cursor.setAttribute("stroke-width", ms === null ? 0 : 1.5);
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
  };
  return box;
}

function axis(end, scale, height, width, label) {
  const step = niceStep(end, Math.max(2, Math.floor((width - label) / 110)));
  const marks = [];
  for (let at = 0; at <= end; at += step) marks.push(at);
  return s("g", null, marks.map((at) => s("g", null,
    s("line", { x1: scale(at), x2: scale(at), y1: AXIS - 6, y2: height, class: "grid" }),
    s("text", { x: scale(at) + (at ? 0 : 1), y: 12, class: "axis", "text-anchor": at ? (scale(at) > width - 40 ? "end" : "middle") : "start" },
      at ? duration(at) : "0"))));
}

function niceStep(end, count) {
  const rough = Math.max(1, end / count);  // times are whole milliseconds
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
}

function rowLabel(text, { label, row, y, width }) {
  const limit = label ? 27 : Math.floor(width / 7);
  const shown = text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
  return s("text", { x: 0, y: label ? y + row / 2 + 4 : y + 12, class: "lane-name" }, shown, s("title", null, text));
}

function drawAttempt(attempt, hasRounds, place) {
  const { scale, row, y, label } = place;
  const top = label ? y + 5 : y + 18;
  const tall = ROW - 10;
  const from = scale(attempt.began_ms);
  const output = scale(attempt.at_ms);
  const to = scale(attempt.end);
  const outcome = attempt.failed
    ? `failed after ${duration(attempt.latency_ms)}: ${attempt.fault_code ?? attempt.fault_type}`
    : `first output after ${duration(attempt.latency_ms)}${attempt.cut ? `, cut after ${duration(attempt.end)}` : ""}`;
  const name = `${hasRounds ? `round ${attempt.round} · ` : ""}${attempt.provider}/${attempt.model}`;
  return s("g", { class: attempt.failed ? "attempt failed" : "attempt" },
    s("title", null, `attempt ${attempt.number}, ${name}, ${attempt.key_name ?? ""}: ${outcome}`),
    rowLabel(name, place),
    s("rect", { x: from, y: top, height: tall, width: Math.max(3, output - from), rx: 3, class: "wait" }),
    !attempt.failed && s("rect", { x: output, y: top, height: tall, width: Math.max(2, to - output), rx: 3, class: "flow" }),
    attempt.cut && s("rect", { x: Math.max(output, to - 6), y: top - 3, height: tall + 6, width: 6, rx: 2, class: "cut" }));
}

function drawLane(lane, entries, onChoose, place) {
  const { scale, y, row, label, end } = place;
  const mine = entries.filter((entry) => entry.lane === lane.kind);
  const top = label ? y + 4 : y + 17;
  const last = mine.at(-1)?.at ?? 0;
  const choose = (event) => {
    const box = event.currentTarget.ownerSVGElement.getBoundingClientRect();
    const at = ((event.clientX - box.left - scale(0)) * end) / (scale(end) - scale(0));
    const nearest = mine.reduce((best, each) => (Math.abs(each.at - at) < Math.abs(best.at - at) ? each : best));
    onChoose(nearest);
  };
  return s("g", { class: `lane ${lane.kind}` }, rowLabel(lane.name, place),
    s("line", { x1: scale(0), x2: scale(end), y1: top + 9, y2: top + 9, class: "grid" }),
    mine.length > 1 && s("line", { x1: scale(mine[0].at), x2: scale(last), y1: top + 9, y2: top + 9, class: "thread" }),
    thin(mine, scale).map((entry) => s("rect", { x: scale(entry.at) - 1.5, y: top, width: 3, height: 18, rx: 1.5, class: "tick" })),
    mine.length > 0 && s("rect", { x: scale(0), y: top, width: scale(end) - scale(0), height: 18, class: "hit", onclick: choose }));
}

/** Leave out ticks that would be drawn over another. */
function thin(entries, scale) {
  let last = -Infinity;
  return entries.filter((entry) => {
    const x = scale(entry.at);
    if (x - last < 2) return false;
    last = x;
    return true;
  });
}
