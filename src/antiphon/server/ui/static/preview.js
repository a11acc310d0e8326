// A request beside the list: its verdict and its result, on screens that have room for both.

import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { fullTime } from "./format.js";
import { drawResult, drawVerdict } from "./result.js";
import { link, problem, status } from "./widgets.js";

const ROOM = matchMedia("(min-width: 1400px)");

export class Preview {
  constructor(context) {
    this.context = context;
    this.id = "";
    this.root = h("aside", { class: "card preview", "aria-label": "Request" });
  }

  /** Whether there is room beside the list. */
  get fits() {
    return ROOM.matches;
  }

  /** Show a request, and make it part of the address; without an id, close the panel. */
  async show(id) {
    if (id === this.id) return;
    this.id = id;
    this.context.replaceQuery({ open: id });
    if (!id) fill(this.root);
    else if (this.fits) await this.load(id);
  }

  async load(id) {
    try {
      const [detail, judged] = await Promise.all([
        get(`requests/${encodeURIComponent(id)}`, null, this.context.signal),
        get(`requests/${encodeURIComponent(id)}/result`, null, this.context.signal),
      ]);
      if (id === this.id) this.draw(detail, judged);
    } catch (error) {
      if (error.name !== "AbortError" && id === this.id) fill(this.root, problem(error, () => this.load(id)));
    }
  }

  draw(detail, { verdict, result }) {
    const request = detail.request ?? {};
    const id = detail.request_id ?? this.id;
    fill(this.root,
      h("div", { class: "preview-head" },
        h("h2", null, request.model || "Request", " ", status(detail.finish?.status ?? "running")),
        h("button", { type: "button", class: "quiet", onclick: () => this.show(""), "aria-label": "Close" }, "×")),
      h("p", { class: "small muted" }, fullTime(detail.received_at_ms), " · ", h("span", { class: "id" }, id)),
      h("p", null, link(`requests/${encodeURIComponent(id)}`, null, "Open the request")),
      verdict && drawVerdict(verdict, null),
      drawResult(detail, result, h("p", { class: "muted" }, detail.finish ? "Its output is not kept: payloads are off." : "It is still running.")));
  }
}
