// A switch that keeps the payloads of all requests for 15 minutes.

import { post } from "./api.js";
import { h } from "./dom.js";
import { clock } from "./format.js";
import { mayChange } from "./permission.js";
import { announce } from "./widgets.js";

const MINUTES = 15;

/** The switch; nothing if the configuration keeps payloads anyway, or if nothing is traced. */
export function payloadSwitch({ payloads, payloads_until_ms: until, traced = true }) {
  if (!traced || (payloads && !until)) return null;
  const text = h("span", null);
  const box = h("input", { type: "checkbox", role: "switch", checked: Boolean(until), disabled: !mayChange(), onchange: async () => {
    box.disabled = true;
    try {
      const state = await (await post("payloads", { minutes: box.checked ? MINUTES : 0 })).json();
      write(state.payloads_until_ms);
    } catch (error) {
      box.checked = !box.checked;
      announce(error.message);
    }
    box.disabled = false;
  } });
  const write = (end) => {
    text.textContent = end ? ` Payloads are kept until ${clock(end)}` : ` Keep payloads for ${MINUTES} minutes`;
  };
  write(until);
  const title = mayChange()
    ? "Requests, responses and both streams of all clients, without secrets. They are kept as long as the trace."
    : "Open the link that antiphon serve shows in its terminal to use this switch.";
  return h("label", { class: "switch payload-switch", title }, box, text);
}
