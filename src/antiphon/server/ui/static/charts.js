// Charts as SVG, drawn to the width of their container.

import { h, s } from "./dom.js";

/** Redraw a chart whenever its width changes. */
export function fitted(draw, label) {
  const box = h("div", { class: "chart", role: "img", "aria-label": label });
  let width = 0;
  const redraw = () => width && box.replaceChildren(draw(width));
  const observer = new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now && now !== width) {
      width = now;
      redraw();
    }
  });
  observer.observe(box);
  return box;
}

/** A round number at or above a maximum, for the end of an axis; with `whole`, so is its half. */
export function niceCeiling(maximum, whole = true) {
  if (!maximum || (whole && maximum <= 4)) return maximum || 1;
  const power = 10 ** Math.floor(Math.log10(maximum));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((each) => each >= maximum && (!whole || each % 2 === 0));
}

/** Stacked bars. `bars`: [{ label, title, parts: [number…] }]; `classes`: one for each part. */
export function stackedBars(bars, classes, { height = 150, format = String, ticks = 4, whole = true } = {}) {
  return (width) => {
    const left = whole ? 40 : 62;
    const bottom = 20;
    const plot = { width: width - left, height: height - bottom - 8 };
    const top = niceCeiling(Math.max(0, ...bars.map((bar) => sum(bar.parts))), whole);
    const y = (value) => 8 + plot.height * (1 - value / top);
    const step = plot.width / bars.length;
    const gap = Math.max(Math.min(6, step * 0.25), step - 64);
    const every = Math.max(1, Math.ceil(bars.length / Math.max(2, Math.floor(plot.width / 80))));
    return s("svg", { width, height, "aria-hidden": "true" },
      gridLines(top, whole && top < ticks ? top : 2, y, left, width, format),
      bars.map((bar, index) => drawBar(bar, classes, left + index * step + gap / 2, step - gap, y)),
      bars.map((bar, index) => (bars.length - 1 - index) % every === 0 && s("text", {
        x: left + (index + 0.5) * step, y: height - 4, class: "axis",
        "text-anchor": bars.length > 8 && index === bars.length - 1 ? "end" : "middle",
      }, bar.label)));
  };
}

function gridLines(top, count, y, left, width, format) {
  return Array.from({ length: count + 1 }, (_, index) => (top * index) / count).map((value) => s("g", null,
    s("line", { x1: left, x2: width, y1: y(value), y2: y(value), class: "grid" }),
    s("text", { x: left - 6, y: y(value) + 4, class: "axis", "text-anchor": "end" }, format(value))));
}

function drawBar(bar, classes, x, width, y) {
  let base = 0;
  const parts = bar.parts.map((part, index) => {
    const from = base;
    base += part;
    return part > 0 && s("rect", {
      x, width: Math.max(1, width), y: y(base), height: Math.max(1, y(from) - y(base)), rx: Math.min(2, width / 4), class: classes[index],
    });
  });
  return s("g", null, s("title", null, bar.title), parts);
}

export const sum = (values) => values.reduce((total, each) => total + each, 0);

/** A share as a thin bar. */
export function share(part, all, tone = "accent") {
  const ratio = all ? Math.min(1, part / all) : 0;
  return s("svg", { class: "share", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { width: 100, height: 6, rx: 3, class: "track" }),
    ratio > 0 && s("rect", { width: Math.max(2, 100 * ratio), height: 6, rx: 3, class: tone }));
}
