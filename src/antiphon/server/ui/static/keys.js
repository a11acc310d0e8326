// Keys: client keys are made, limited and revoked; API keys of providers are pasted; the default model is chosen.

import { get, post, remove } from "./api.js";
import { fill, h, latestOf } from "./dom.js";
import { locked, mayChange } from "./permission.js";
import { announce, card, code, table } from "./widgets.js";

const LIMITS = [["requests_per_minute", "Requests a minute"], ["tokens_per_minute", "Tokens a minute"], ["cost_per_day", "Dollars a day"], ["cost_per_month", "Dollars a month"]];

function describeLimits(limits) {
  const given = Object.entries(limits ?? {}).filter(([, value]) => value !== null);
  return given.map(([name, value]) => `${name} = ${value}`).join(", ") || "no limit";
}

/** The card of client keys. */
export async function clientKeys(context) {
  const shown = h("div", null);
  const list = h("div", null);
  const begin = latestOf();
  const draw = async (revoked) => {
    const isLatest = begin();
    if (revoked && shown.name === revoked) fill(shown);
    const { file, clients } = await get("keys", null, context.signal);
    if (isLatest()) fill(list, listClients(clients, draw));
    return file;
  };
  const show = (made) => {
    fill(shown, showKey(made));
    shown.name = made.name;
  };
  const file = await draw();
  return card("Client keys", h("div", { class: "stack" }, shown, list,
    makeFormOrReason(file, "make and revoke keys", () => makeForm(show, draw)),
    file && h("p", { class: "small muted" }, "Keys that are made here are in ", h("code", null, file), ", which only its owner can read.")));
}

/** A form that changes the key file, or why there is none. */
function makeFormOrReason(file, purpose, make) {
  if (!file) return h("p", { class: "muted" }, "This gateway keeps no files, so keys cannot be saved here: set api_keys in [server] of the configuration.");
  return mayChange() ? make() : locked(purpose);
}

function showKey({ name, key }) {
  return h("div", { class: "banner good new-key", role: "status" }, h("p", null, h("strong", null, name), ": copy the key now. It is not shown again."), code(key));
}

function listClients(clients, draw) {
  if (clients.length === 0) return h("p", { class: "muted" }, "There are none: clients on this machine need no key, and no others are served. With the first key, every client needs one.");
  return table("Client keys", [
    { name: "Name", cell: (each) => h("strong", null, each.name) },
    { name: "Limits", class: "grow", cell: (each) => describeLimits(each.limits) },
    { name: "", class: "right", cell: (each) => (each.made_here ? mayChange() && revokeButton(each.name, draw) : h("span", { class: "muted" }, "in the configuration file")) },
  ], clients);
}

function revokeButton(name, draw) {
  const button = h("button", { type: "button", onclick: async () => {
    if (!button.dataset.sure) {
      button.dataset.sure = "1";
      button.textContent = `Revoke ${name} now?`;
      return;
    }
    try {
      await remove(`keys/${encodeURIComponent(name)}`);
      announce(`${name} is revoked`);
      await draw(name);
    } catch (error) {
      announce(error.message);
    }
  } }, "Revoke");
  return button;
}

function makeForm(show, draw) {
  const problem = h("p", { class: "bad-text", role: "alert" });
  const field = (name, label, options) => h("label", { class: "field" }, h("span", null, label), h("input", { name, autocomplete: "off", ...options }));
  const form = h("form", { class: "key-form", "aria-label": "New client key", onsubmit: async (event) => {
    event.preventDefault();
    problem.textContent = "";
    const limits = Object.fromEntries(LIMITS.filter(([name]) => form.elements[name].value).map(([name]) => [name, Number(form.elements[name].value)]));
    try {
      const name = form.elements.name.value;
      show(await (await post("keys", { name, limits })).json());
      if (form.elements.name.value === name) form.reset();
      await draw();
    } catch (error) {
      problem.textContent = error.message;
    }
  } }, field("name", "Name", { required: true, maxlength: 64, placeholder: "alice" }),
  LIMITS.map(([name, label]) => field(name, label, { type: "number", min: "0", step: "any", placeholder: "no limit" })),
  h("button", { type: "submit", class: "primary" }, "Make a key"), problem);
  return form;
}

/** The card that takes an API key of a provider; `done` is called with its name. */
export function providerKey({ providers, file }, done) {
  return card("Add an API key", makeFormOrReason(file, "add a key", () => makeProviderForm(providers, done)),
    file && h("p", { class: "small muted note" }, "It is written to ", h("code", null, file), ", which only its owner can read, and never shown again. Then a short request tests it."));
}

function makeProviderForm(providers, done) {
  const problem = h("p", { class: "bad-text", role: "alert" });
  const choice = h("select", { name: "provider" }, providers.map((each) => h("option", { value: each.name }, each.title)));
  const key = h("input", { name: "key", type: "password", required: true, autocomplete: "off", spellcheck: "false" });
  return h("form", { class: "key-form", "aria-label": "API key of a provider", onsubmit: async (event) => {
    event.preventDefault();
    problem.textContent = "";
    try {
      const { provider } = await (await post("provider-keys", { provider: choice.value, key: key.value })).json();
      key.value = "";
      announce(`The key of ${provider} is in use`);
      done(provider);
    } catch (error) {
      problem.textContent = error.message;
    }
  } }, h("label", { class: "field" }, h("span", null, "Provider"), choice), h("label", { class: "field" }, h("span", null, "API key"), key),
  h("button", { type: "submit", class: "primary" }, "Add and test"), problem);
}

/** The card that chooses the model for clients that let the gateway choose. */
export function defaultModel({ default_model: standard, file }, names) {
  const advice = h("p", { class: "small muted note" }, "It is the model of antiphon codex, antiphon claude and the snippets of this page, unless they name another one.");
  if (standard.in_file) return card("Default model", h("p", null, h("strong", null, standard.name), h("span", { class: "muted" }, " is set in the configuration file: \"*\" in [models].")), advice);
  return card("Default model", makeFormOrReason(file, "choose the default model", () => makeModelForm(standard.name, names)),
    (!file || !mayChange()) && h("p", null, "It is ", h("strong", null, standard.name), "."), advice);
}

function makeModelForm(chosen, names) {
  const problem = h("p", { class: "bad-text", role: "alert" });
  const options = names.includes(chosen) ? names : [chosen, ...names];
  const choice = h("select", { name: "model" }, options.map((each) => h("option", { value: each, selected: each === chosen }, each)));
  return h("form", { class: "key-form", "aria-label": "Default model", onsubmit: async (event) => {
    event.preventDefault();
    problem.textContent = "";
    try {
      const { model } = await (await post("default-model", { model: choice.value })).json();
      announce(`${model} is the default model`);
    } catch (error) {
      problem.textContent = error.message;
    }
  } }, h("label", { class: "field" }, h("span", null, "Model"), choice), h("button", { type: "submit" }, "Use it"), problem);
}
