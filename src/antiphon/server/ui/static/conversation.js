// A conversation from a request in any client format, or from the output of a response: turns of
// texts, reasoning, tool calls and their results.

import { h } from "./dom.js";
import { pretty } from "./format.js";
import { jsonView } from "./json_view.js";

const LONG = 1200;
const SHOWN_TURNS = 40;
const SHORT = 300;
const FOLDED_ROLES = new Set(["instructions", "system", "developer"]);
const CHECKS = {
  valid: ["ok", "fits the schema"], invalid: ["bad", "breaks the schema"],
  unknown_tool: ["bad", "no such tool in the request"], unchecked: ["", "no schema to check"],
};

const asList = (value) => (Array.isArray(value) ? value : value === undefined || value === null ? [] : [value]);
const isObject = (value) => value !== null && typeof value === "object";
const asText = (value) => (typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value));

/** The turns of a request: [{ role, parts }]; each part has a `kind`. */
export function readConversation(body) {
  if (!isObject(body)) return [];
  if (Array.isArray(body.messages)) return readMessages(body);
  const turns = body.instructions ? [{ role: "instructions", parts: readContent(body.instructions) }] : [];
  if (typeof body.input === "string") return [...turns, { role: "user", parts: [{ kind: "text", text: body.input }] }];
  return [...turns, ...readItems(asList(body.input))];
}

/** Turns of Chat Completions or Messages. */
function readMessages(body) {
  const system = body.system ? [{ role: "system", parts: readContent(body.system) }] : [];
  return [...system, ...body.messages.filter(isObject).map((message) => {
    const parts = message.role === "tool"
      ? [{ kind: "result", id: message.tool_call_id, parts: readContent(message.content) }]
      : readContent(message.content);
    const reasoning = message.reasoning_content ? [{ kind: "reasoning", text: asText(message.reasoning_content) }] : [];
    const calls = asList(message.tool_calls).map((call) => ({
      kind: "call", id: call?.id, name: call?.function?.name ?? call?.custom?.name, text: asText(call?.function?.arguments ?? call?.custom?.input),
    }));
    return { role: asText(message.role), parts: [...reasoning, ...parts, ...calls] };
  })];
}

/** Turns of Responses items; neighbouring items of one role are one turn. */
export function readItems(items, checks = []) {
  const turns = [];
  items.forEach((item, index) => {
    if (!isObject(item)) return;
    const [role, parts] = readItem(item, checks.find((each) => each.index === index));
    const last = turns.at(-1);
    if (last?.role === role && role !== "user") last.parts.push(...parts);
    else turns.push({ role, parts });
  });
  return turns;
}

function readItem(item, check) {
  const type = item.type ?? (item.role ? "message" : "");
  if (type === "message") return [asText(item.role) || "assistant", readContent(item.content)];
  if (type === "reasoning") return ["assistant", [{ kind: "reasoning", text: reasoningText(item) }]];
  if (type === "function_call" || type === "custom_tool_call") {
    return ["assistant", [{ kind: "call", id: item.call_id, name: item.name, text: asText(item.arguments ?? item.input), check }]];
  }
  if (/_call_output$/.test(type)) return ["tool", [{ kind: "result", id: item.call_id, parts: readContent(item.output) }]];
  if (/_call$/.test(type)) return ["assistant", [{ kind: "hosted", name: type, value: item }]];
  return ["other", [{ kind: "other", name: type || "item", value: item }]];
}

function reasoningText(item) {
  const texts = [...asList(item.summary), ...asList(item.content)].map((part) => asText(part?.text)).filter(Boolean);
  return texts.join("\n\n") || (item.encrypted_content ? "(encrypted)" : "");
}

function readContent(content) {
  return asList(content).map((part) => (isObject(part) ? readPart(part) : { kind: "text", text: asText(part) }));
}

function readPart(part) {
  if (typeof part.text === "string") return { kind: "text", text: part.text };
  if (part.type === "refusal") return { kind: "refusal", text: asText(part.refusal) };
  if (part.type === "thinking") return { kind: "reasoning", text: asText(part.thinking) };
  if (part.type === "tool_use") return { kind: "call", id: part.id, name: part.name, text: asText(part.input) };
  if (part.type === "tool_result") return { kind: "result", id: part.tool_use_id, parts: readContent(part.content) };
  return { kind: "other", name: asText(part.type) || "part", value: part };
}

/** Turns as elements. Of many, the last ones are shown first; those before on demand. `names` are the tools of calls, by id: those of these turns are added. */
export function drawTurns(turns, names = new Map()) {
  turns.flatMap((turn) => turn.parts).filter((part) => part.kind === "call").forEach((part) => names.set(part.id, part.name));
  const draw = (turn) => h("div", { class: `turn ${/^[a-z]+$/.test(turn.role) ? turn.role : "other"}` }, h("div", { class: "role" }, turn.role), h("div", { class: "parts" }, turn.parts.map((part) => drawPart(part, names, FOLDED_ROLES.has(turn.role)))));
  const earlier = turns.slice(0, -SHOWN_TURNS);
  const more = earlier.length > 0 && h("button", { type: "button", onclick: () => more.replaceWith(...earlier.map(draw)) }, `Show ${earlier.length} earlier turns`);
  return h("div", { class: "conversation" }, more, turns.slice(-SHOWN_TURNS).map(draw));
}

function drawPart(part, names, isInstruction = false) {
  if (part.kind === "reasoning") return h("details", { class: "reasoning" }, h("summary", null, "Reasoning"), h("p", { class: "prose" }, part.text));
  if (part.kind === "call") return drawCall(part);
  if (part.kind === "result") return drawResult(part, names);
  if (part.kind === "hosted" || part.kind === "other") return h("details", { class: "call" }, h("summary", null, h("strong", null, part.name)), jsonView(part.value));
  if (part.kind === "text" && (isInstruction ? part.text.length > SHORT : isTagged(part.text))) return drawFolded(part.text);
  return h("div", { class: `prose ${part.kind}` }, longText(part.text));
}

/** Whether a text is one element, such as `<environment_context>`: agents add such texts, their users do not write them. */
const isTagged = (text) => /^\s*<([a-z][\w-]*)>[^]*<\/\1>\s*$/.test(text);

function drawFolded(text) {
  const beginning = text.trim().split("\n", 1)[0];
  return h("details", { class: "fold" }, h("summary", null, h("span", { class: "muted" }, beginning.length > 90 ? `${beginning.slice(0, 90)}…` : beginning, ` (${text.length.toLocaleString("en")} characters)`)), h("div", { class: "prose text" }, text));
}

/** A tool call: its name, its arguments as JSON, and whether they fit the schema of the tool. */
function drawCall({ name, text, check }) {
  const [tone, words] = check ? CHECKS[check.check] ?? CHECKS.unchecked : [];
  return h("div", { class: "call" },
    h("div", { class: "call-head" }, h("strong", null, name || "tool call"), words && h("span", { class: `pill ${tone}` }, words)),
    check?.problems?.length > 0 && h("ul", { class: "problems bad-text" }, check.problems.map((each) => h("li", null, each))),
    h("pre", { tabindex: "0" }, longText(pretty(text))));
}

function drawResult(part, names) {
  const name = names.get(part.id);
  return h("div", { class: "call result" }, h("div", { class: "call-head muted small" }, name ? `result of ${name}` : "result of a tool call"),
    part.parts.map((each) => (each.kind === "text" ? h("pre", { tabindex: "0" }, longText(each.text)) : drawPart(each, names))));
}

/** A text whose rest is shown on demand, if it is long. */
export function longText(text) {
  if (text.length <= LONG * 1.5) return text;
  const shown = h("span", null, `${text.slice(0, LONG)}…`);
  const more = h("button", { type: "button", class: "quiet", onclick: () => {
    shown.textContent = text;
    more.remove();
  } }, `show all ${text.length.toLocaleString("en")} characters`);
  return h("span", null, shown, " ", more);
}
