// Now: running streams, the last hour, the lights of the providers, and how to connect a client.

import { get, listen } from "../api.js";
import { fitted, stackedBars, sum } from "../charts.js";
import { connectClient } from "../connect.js";
import { fill, h, perFrame } from "../dom.js";
import { clock, count, duration, percent, plural, shortId } from "../format.js";
import { card, copyable, empty, head, light, link, status, tile } from "../widgets.js";

export const title = "Now";

export async function show(root, context) {
  const first = await get("now", null, context.signal);
  const tiles = h("div", { class: "tiles" });
  const hour = h("div", null);
  const running = h("div", { class: "running" });
  const lights = h("ul", { class: "lights" });
  const warnings = h("div", null);
  const draw = perFrame((now) => {
    fill(tiles, makeTiles(now));
    fill(warnings, makeWarnings(now));
    drawHour(hour, now);
    fill(running, makeRunning(now));
    drawLights(lights, now.providers);
  });
  fill(root,
    head("Now", `antiphon ${first.version}, running since ${clock(first.started_at_ms)}`), warnings, tiles,
    h("div", { class: "columns wide-left" },
      h("div", null, card("Requests in the last hour", hour), card("Running", running)),
      card("Providers", lights)),
    card("Connect a client", connectClient(first.default_model, first.needs_client_key)));
  draw(first);
  return listen({ view: "now" }, { now: (event) => draw(event.now), state: context.setLive });
}

function makeTiles(now) {
  const recent = now.minutes.slice(-6, -1);
  const requests = sum(now.minutes.map(([all]) => all));
  const failures = sum(now.minutes.map(([, failed]) => failed));
  const rejected = sum(now.minutes.map(([, , refused]) => refused));
  const rate = sum(recent.map(([all]) => all)) / 5;
  const first = now.first_output_ms;
  const running = Math.max(now.running, now.streams.length);  // the trace has those of other workers
  return [
    tile("Running now", count(running), "requests in progress", running ? "active" : ""),
    tile("Requests a minute", rate >= 10 ? count(Math.round(rate)) : rate.toFixed(1), `${plural(requests, "request")} in the last hour${rejected ? `, and ${count(rejected)} rejected` : ""}`),
    tile("Failed", count(failures), requests ? `${percent(failures, requests)} of the last hour` : "in the last hour", failures ? "bad" : ""),
    tile("Time to first token", first ? duration(first.p50) : "–", first ? `95 % within ${duration(first.p95)}` : "nothing measured yet"),
  ];
}

function makeWarnings(now) {
  return [
    !now.traced && h("p", { class: "banner" }, "Requests are not traced, so there is nothing to list. Set ", h("code", null, "enabled = true"), " in [trace]."),
    now.providers.every((each) => each.test) && h("p", { class: "banner" }, "No provider yet, only the built-in test model. ", link("providers", null, "Add an API key"), "."),
    now.lost_rows > 0 && h("p", { class: "banner" }, `${plural(now.lost_rows, "trace row")} could not be written since the start. The log has the reason.`),
  ];
}

function drawHour(box, now) {
  const requests = sum(now.minutes.map(([all]) => all));
  const key = JSON.stringify(now.minutes);
  if (box.drawn === key) return;
  box.drawn = key;
  if (!requests) {
    fill(box, empty("No requests in the last hour", "Send one from the playground, or connect a client below."));
    return;
  }
  const bars = now.minutes.map(([all, failed], index) => ({
    label: index === 59 ? "now" : `−${59 - index} min`,
    title: `${59 - index} minutes ago: ${plural(all, "request")}, ${failed} failed`,
    parts: [all - failed, failed],
  }));
  fill(box, fitted(stackedBars(bars, ["accent", "bad"], { height: 170 }), `${requests} requests in the last hour`));
}

function makeRunning(now) {
  if (now.streams.length === 0) return h("p", { class: "muted" }, now.running ? `${plural(now.running, "request")} running.` : "Nothing is running at the moment.");
  return h("ul", { class: "rows" }, now.streams.map((row) => h("li", null,
    status("running"), link(`requests/${row.request_id}`, null, row.model || "no model"),
    h("span", { class: "muted" }, `${row.client ?? ""} → ${row.provider ?? ""}`),
    h("span", { class: "muted right" }, duration(now.time_ms - row.received_at_ms)), copyable(row.request_id, shortId(row.request_id)))));
}

/** Draw the lights if one has changed: a link that is drawn again loses the focus. */
function drawLights(root, providers) {
  const key = JSON.stringify(providers.map(({ name, light: colour, reason }) => [name, colour, reason]));
  if (root.drawn === key) return;
  root.drawn = key;
  fill(root, providers.map(makeLight));
}

function makeLight(provider) {
  return h("li", null, light(provider.light), h("div", null,
    link("providers", null, provider.name), h("div", { class: "muted small" }, provider.reason)));
}
