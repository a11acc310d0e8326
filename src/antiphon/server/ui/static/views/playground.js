// Playground: a Responses request, its answer as it streams, and two models side by side.

import { get } from "../api.js";
import { AnswerPane } from "../answer_pane.js";
import { fill, h } from "../dom.js";
import { announce, head } from "../widgets.js";

export const title = "Playground";

const EXAMPLES = {
  tools: '[{"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false}, "strict": true}]',
  schema: '{"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"], "additionalProperties": false}',
};
const JSON_FIELDS = new Set(["items", "tools", "schema"]);
const THREAD = ["previous_response_id", "conversation"];
const LEFT_OUT = [...THREAD, "model", "stream", "stream_options", "background", "store"];
const EFFORTS = ["", "none", "minimal", "low", "medium", "high", "xhigh", "max"];

export async function show(root, context) {
  const { models, default: standard } = await get("models", null, context.signal);
  const from = context.query.get("from");
  const body = from ? await loadBody(from, context) : {};
  const form = makeForm(models, standard, body, context);
  const panes = h("div", { class: "panes" });
  let running = null;
  const run = h("button", { type: "submit", class: "primary" }, "Send");
  const stop = h("button", { type: "button", hidden: true, onclick: () => running?.abort() }, "Stop");
  form.append(h("p", { class: "actions" }, run, stop, h("span", { class: "muted small" }, "Sent as the client admin, and counted like any other request. Ctrl+Enter sends.")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const request = run.disabled ? null : readForm(form, body);
    if (!request) return;
    const names = [form.model.value, form.other.value].filter(Boolean);
    context.replaceQuery({ model: form.model.value, other: form.other.value, effort: form.effort.value, from });
    running = new AbortController();
    const signal = AbortSignal.any([running.signal, context.signal]);
    const answers = names.map((model) => new AnswerPane({ ...request, model }, signal));
    fill(panes, answers.map((answer) => answer.element));
    [run.disabled, stop.hidden] = [true, false];
    await Promise.all(answers.map((answer) => answer.run()));
    [run.disabled, stop.hidden] = [false, true];
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  const thread = THREAD.filter((name) => body[name]);
  if (thread.length > 0) form.prepend(h("p", { class: "banner" }, "Sent without ", h("code", null, thread.join(", ")), ": what came before belongs to the client that asked."));
  fill(root, head("Playground", from ? `Send ${from} again, as it was or with another model.` : "Ask a model, or two side by side."), h("div", { class: "playground" }, form, panes));
  fill(panes, h("div", { class: "empty" }, h("div", { class: "empty-mark" }), h("h2", null, "The response appears here"), h("p", null, "With its text, its reasoning, its tool calls and its raw events.")));
}

async function loadBody(id, context) {
  const { streams } = await get(`requests/${id}/streams`, null, context.signal);
  const request = streams.find((stream) => stream.kind === "request");
  try {
    return JSON.parse(request.chunks.map(([, text]) => text).join(""));
  } catch {
    announce("The payload of this request is not kept, so it starts empty.");
    return {};
  }
}

function field(label, control, hint) {
  return h("label", { class: "field" }, h("span", null, label, hint && h("small", { class: "muted" }, ` ${hint}`)), control);
}

function makeForm(models, standard, body, context) {
  const query = context.query;
  const text = typeof body.input === "string" ? body.input : "";
  const items = Array.isArray(body.input) ? JSON.stringify(body.input, null, 2) : "";
  const area = (name, value, rows, placeholder) => h("textarea", { name, rows, placeholder, value, class: JSON_FIELDS.has(name) ? "mono" : null, spellcheck: JSON_FIELDS.has(name) ? "false" : null });
  const effort = query.get("effort") ?? body.reasoning?.effort ?? "";
  return h("form", { class: "card form" },
    h("datalist", { id: "models" }, models.map((model) => h("option", { value: model.name }))),
    h("div", { class: "pair models" },
      field("Model", h("input", { name: "model", list: "models", required: true, value: query.get("model") || body.model || standard, autocomplete: "off", spellcheck: "false" })),
      field("Compare with", h("input", { name: "other", list: "models", value: query.get("other") ?? "", placeholder: "another model", autocomplete: "off", spellcheck: "false" }), "optional")),
    field("Input", area("input", text, 5, items ? "The items below are sent instead." : "Say something")),
    items && field("Input items", area("items", items, 6, ""), "JSON"),
    field("Instructions", area("instructions", body.instructions ?? "", 2, "How the model should behave")),
    h("div", { class: "pair" },
      field("Reasoning effort", h("select", { name: "effort" }, EFFORTS.map((each) => h("option", { value: each, selected: each === effort }, each || "default")))),
      field("Maximum output tokens", h("input", { name: "limit", type: "number", min: "1", value: body.max_output_tokens ?? "", placeholder: "no limit" }))),
    h("details", { open: Boolean(body.tools?.length) }, h("summary", null, "Tools"), area("tools", body.tools?.length ? JSON.stringify(body.tools, null, 2) : "", 5, EXAMPLES.tools)),
    h("details", { open: Boolean(body.text?.format?.schema) }, h("summary", null, "Output schema"), area("schema", body.text?.format?.schema ? JSON.stringify(body.text.format.schema, null, 2) : "", 5, EXAMPLES.schema)));
}

/** The text settings: those of the request that is sent again, with the schema of the form. */
function makeText(schema, before) {
  const { format = {}, ...rest } = before ?? {};
  if (schema) return { ...rest, format: { name: "answer", strict: true, ...format, type: "json_schema", schema } };
  return format.type && format.type !== "json_schema" ? { ...rest, format } : rest;
}

/** Build the request; a JSON field that cannot be parsed is reported at the field. */
function readForm(form, body) {
  const parse = (name) => {
    const control = form.elements[name];
    control?.setCustomValidity("");
    if (!control?.value.trim()) return undefined;
    try {
      return JSON.parse(control.value);
    } catch (error) {
      control.closest("details")?.setAttribute("open", "");
      control.setCustomValidity(`Not valid JSON: ${error.message}`);
      control.reportValidity();
      throw error;
    }
  };
  try {
    const kept = Object.fromEntries(Object.entries(body).filter(([name]) => !LEFT_OUT.includes(name)));
    const effort = form.effort.value;
    return {
      ...kept, input: form.input.value ? form.input.value : parse("items") ?? "",
      instructions: form.instructions.value || undefined, tools: parse("tools"),
      reasoning: effort ? { summary: "auto", ...body.reasoning, effort } : undefined,
      text: makeText(parse("schema"), body.text),
      max_output_tokens: form.limit.value ? Number(form.limit.value) : undefined,
      store: false,
    };
  } catch {
    return null;
  }
}
