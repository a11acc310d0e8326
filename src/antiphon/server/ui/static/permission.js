// Whether changes are allowed: keys, the default model, payloads, the file. Without an admin key they need the token that `antiphon serve` shows.

import { post } from "./api.js";
import { h } from "./dom.js";

let allowed = false;

export const mayChange = () => allowed;

export function setPermission(mayBeChanged) {
  allowed = mayBeChanged;
}

/** Sign in with the token of the address, and take it out of the address. */
export async function useToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(history.state, "", location.pathname + location.search);
  await post("session", { key: token }).catch(() => {});  // a wrong one changes nothing
}

/** What stands in place of a form that may not be used. */
export function locked(purpose) {
  const problem = h("p", { class: "bad-text", role: "alert" });
  const token = h("input", { name: "token", type: "password", required: true, autocomplete: "off", spellcheck: "false" });
  const form = h("form", { class: "key-form", "aria-label": "Token of the page", onsubmit: async (event) => {
    event.preventDefault();
    try {
      await post("session", { key: token.value.trim() });
      location.reload();
    } catch (error) {
      problem.textContent = error.message;
    }
  } }, h("label", { class: "field" }, h("span", null, "Token"), token), h("button", { type: "submit" }, "Unlock"), problem);
  return h("div", { class: "locked stack" },
    h("p", { class: "muted" }, `To ${purpose}, open the link that antiphon serve shows in its terminal: it has a token. Every user of this machine can open the page, and only you can read the token. It is also in the file `, h("code", null, "page.token"), " of the data directory (by default ~/.local/share/antiphon)."),
    form);
}
