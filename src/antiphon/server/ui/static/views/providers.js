// Providers: how each is, resting keys, the circuit breaker, the last fault, and a test.

import { createResponse, get } from "../api.js";
import { fill, h } from "../dom.js";
import { ago, duration, plural } from "../format.js";
import { defaultModel, providerKey } from "../keys.js";
import { empty, head, light, link, to } from "../widgets.js";

export const title = "Providers";

export async function show(root, context) {
  const [{ providers }, known, { models }] = await Promise.all([get("providers", null, context.signal), get("keys", null, context.signal), get("models", null, context.signal)]);
  const own = providers.filter((each) => !each.test);
  const names = models.filter((each) => !each.test || own.length === 0).map((each) => each.name);
  fill(root, head("Providers", "Health as this gateway has seen it since it started."),
    own.length === 0 && h("p", { class: "banner" }, "No provider yet: paste an API key here, and then choose the default model. Or set a variable such as DEEPSEEK_API_KEY and restart the gateway, or start Ollama."),
    own.length === 0 && providerKey(known, (name) => testLater(name, context)),
    h("div", { class: "cards" }, providers.map((provider) => makeCard(provider, context))),
    providers.length === 0 && empty("No providers"),
    defaultModel(known, names),
    own.length > 0 && providerKey(known, (name) => testLater(name, context)));
  testAdded(root);
  const timer = setInterval(() => refresh(root, context), 5000);
  return () => clearInterval(timer);
}

let added = "";  // not in the address: no link of others may send a request

function testLater(name, context) {
  added = name;
  context.reload();
}

/** Test the provider whose key was added just now. */
function testAdded(root) {
  if (!added) return;
  const box = root.querySelector(`[data-provider="${CSS.escape(added)}"]`);
  added = "";
  setTimeout(() => box?.scrollIntoView({ block: "center" }));
  box?.querySelector("footer button:not(:disabled)")?.click();
}

/** Update the cards in place; results of tests stay. */
async function refresh(root, context) {
  const { providers } = await get("providers", null, context.signal).catch(() => ({ providers: [] }));
  for (const provider of providers) {
    const box = root.querySelector(`[data-provider="${CSS.escape(provider.name)}"]`);
    box?.querySelector(".state")?.replaceWith(makeState(provider));
  }
}

function makeCard(provider, context) {
  const result = h("p", { class: "small result", role: "status" });
  const test = h("button", { type: "button", disabled: !provider.test_model, title: provider.test_model ? `Sends a short request to ${provider.test_model}` : "No model of this provider is known: name one in [models], or wait until its list has been read.", onclick: () => runTest(provider, test, result, context) }, "Test");
  return h("section", { class: "card provider", "data-provider": provider.name },
    h("header", null, h("h2", null, provider.title), h("code", null, provider.name)),
    makeState(provider),
    h("dl", { class: "facts" }, [
      ["Address", provider.address], ["Dialect", provider.dialect],
      ["API keys", provider.keys ? String(provider.keys) : "none"],
      ["Models", h("a", { href: to("models", { find: `${provider.name}/` }) }, provider.models ? plural(provider.models, "model") : "any name")],
    ].map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
    h("footer", null, test, link("requests", { provider: provider.name }, "Requests"),
      link("requests", { provider: provider.name, status: "failed" }, "Failures")), result);
}

function makeState(provider) {
  const lines = [
    provider.breaker && provider.breaker !== "closed" && `Circuit breaker ${provider.breaker}${provider.trial_in_s ? `, next attempt in ${duration(provider.trial_in_s * 1000)}` : ""}`,
    ...(provider.resting ?? []).map((key) => `Key ${key.key}${key.model ? `, for ${key.model}` : ""}: ${key.for_s === null ? "rejected by the provider, disabled until reload" : `cooling down for ${duration(key.for_s * 1000)}`}`),
    provider.missing?.length > 0 && `Reported as unknown: ${provider.missing.join(", ")}`,
    provider.last_fault_s !== null && provider.last_fault_s !== undefined && `Last fault ${ago(provider.last_fault_s)}: ${provider.last_fault.join(" · ")}`,
    provider.last_success_s !== null && provider.last_success_s !== undefined && `Last success ${ago(provider.last_success_s)}`,
    provider.active > 0 && plural(provider.active, "request") + " running",
  ];
  return h("div", { class: "state" }, h("p", { class: "strong" }, light(provider.light), " ", provider.reason),
    h("ul", { class: "small muted" }, lines.filter(Boolean).map((line) => h("li", null, line))));
}

const shorten = (text) => (text.length > 80 ? `${text.slice(0, 80).trimEnd()}…` : text);

async function runTest(provider, button, result, context) {
  button.disabled = true;
  fill(result, "Sending a short request…");
  const began = performance.now();
  let answer = "";
  let failure = null;
  let id = null;
  try {
    id = await createResponse({ model: provider.test_model, input: "Reply with the word OK." }, (event) => {
      if (event.type === "response.output_text.delta") answer += event.delta;
      if (event.type === "response.failed") failure = event.response.error?.message;
    }, context.signal);
  } catch (error) {
    failure = error.message;
    id = error.requestId ?? null;
  }
  button.disabled = false;
  const took = duration(performance.now() - began);
  fill(result, light(failure ? "down" : "ok"), " ", failure ?? `Responded after ${took}: ${shorten(answer) || "without text"}`, " ", id && link(`requests/${id}`, null, "See the request"));
}
