// Numbers, times and names as people read them.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value) => (value === null || value === undefined ? "–" : whole.format(value));
export const compact = (value) => (value === null || value === undefined ? "–" : short.format(value));

export function money(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "$0";
  return value < 0.01 ? `$${value.toPrecision(2)}` : `$${value.toFixed(value < 10 ? 3 : 2)}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

export function bytes(size) {
  if (size < 1000) return `${size} B`;
  return size < 1_000_000 ? `${(size / 1000).toFixed(1)} kB` : `${(size / 1_000_000).toFixed(1)} MB`;
}

export function percent(part, all) {
  return all ? `${((100 * part) / all).toFixed(part && part / all < 0.1 ? 1 : 0)} %` : "–";
}

const pad = (number) => String(number).padStart(2, "0");

/** The local time; with the day if it is not today. */
export function clock(ms) {
  const then = new Date(ms);
  const time = `${pad(then.getHours())}:${pad(then.getMinutes())}:${pad(then.getSeconds())}`;
  if (then.toDateString() === new Date().toDateString()) return time;
  return `${then.toLocaleDateString("en", { month: "short", day: "numeric" })} ${time}`;
}

export const fullTime = (ms) => new Date(ms).toISOString().replace("T", " ").replace("Z", " UTC");

export function ago(seconds) {
  if (seconds === null || seconds === undefined) return "never";
  if (seconds < 60) return `${Math.round(seconds)} s ago`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  return `${Math.round(seconds / 3600)} h ago`;
}

/** An id by its end: ids begin with a time, so those of one minute begin alike. */
export const shortId = (id) => (id.length > 20 ? `${id.slice(0, id.indexOf("_") + 1)}…${id.slice(-8)}` : id);

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

export function answeredBy(row) {
  return row.provider ? `${row.provider}/${row.provider_model ?? ""}` : "";
}

/** A JSON text with line breaks; other texts as they are. */
export function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
