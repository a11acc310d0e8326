// Models: every name that a request may use, and what the model behind it can do.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { compact, plural } from "../format.js";
import { copyable, empty, head, table, to } from "../widgets.js";

export const title = "Models";

const COLUMNS = (standard) => [
  { name: "Name", class: "grow", cell: (model) => name(model, standard) },
  { name: "Window", class: "number", cell: (model) => compact(model.context_window) },
  { name: "Output", class: "number", cell: (model) => compact(model.max_output_tokens) },
  { name: "Price in / out", class: "number", cell: price },
  { name: "Inputs", cell: (model) => model.inputs.map(tag) },
  { name: "Reasoning", cell: (model) => efforts(model) },
  { name: "Tools", cell: (model) => [model.tools ? tag(model.strict ? "strict tools" : "tools") : "–", SEARCH[model.web_search] && tag(SEARCH[model.web_search])] },
  { name: "", class: "right", cell: (model) => h("a", { class: "button", href: to("playground", { model: model.name }) }, "Try") },
];
const SEARCH = { native: "web search", managed: "web search by the gateway" };

const LISTS_MS = 1500;

const describe = (models) => `${plural(models.length, "name")} that a request may use as its model.`;
const tag = (text) => h("span", { class: "tag" }, text);

function name(model, standard) {
  return [
    h("div", null, copyable(model.name), model.name === standard && tag("default"), model.discovered && tag("listed by the provider")),
    h("div", { class: "small muted" }, model.alias_of ? `alias of ${model.alias_of}` : model.title,
      model.fallbacks.length > 0 && ` · falls back to ${model.fallbacks.join(", ")}`),
  ];
}

function price(model) {
  if (!model.price) return h("span", { class: "muted", title: "Set it in [prices] to count costs" }, "unknown");
  return h("span", { title: "US dollars a million tokens" }, `$${model.price.input} / $${model.price.output}`);
}

function efforts(model) {
  const known = model.efforts.filter((effort) => effort !== "none");
  return known.length === 0 ? "–" : h("span", { title: known.join(", ") }, known.length === 1 ? tag(known[0]) : tag(`${known[0]} – ${known.at(-1)}`));
}

export async function show(root, context) {
  let { models, default: standard } = await get("models", null, context.signal);
  const wanted = context.query.get("find") ?? "";
  const list = h("div", null);
  const draw = (text) => {
    const words = text.toLowerCase().split(/\s+/);
    const found = models.filter((model) => words.every((word) => `${model.name} ${model.title} ${model.alias_of ?? ""}`.toLowerCase().includes(word)));
    fill(list, found.length > 0 ? table("Models", COLUMNS(standard), found) : empty("No model has such a name", "Providers may serve more models than they list: provider/model works as well."));
  };
  const search = h("input", {
    type: "search", value: wanted, placeholder: "Find a model", "aria-label": "Find a model", spellcheck: "false",
    oninput: () => {
      draw(search.value);
      context.replaceQuery({ find: search.value });
    },
  });
  const subtitle = h("span", null, describe(models));
  fill(root, head("Models", subtitle), h("div", { class: "filters" }, h("label", { class: "grow" }, search)), list);
  draw(wanted);
  context.onKey = (key) => key === "/" && search.focus();
  const timer = setTimeout(async () => {  // the providers' own lists are asked for in the background
    const later = await get("models", null, context.signal).catch(() => ({ models }));
    if (later.models.length === models.length) return;
    models = later.models;
    subtitle.textContent = describe(models);
    draw(search.value);
  }, LISTS_MS);
  return () => clearTimeout(timer);
}
