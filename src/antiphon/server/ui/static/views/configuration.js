// Configuration: the settings in effect with file and line; checking the file on disk and reloading it.

import { get, post } from "../api.js";
import { fill, h, latestOf } from "../dom.js";
import { clientKeys } from "../keys.js";
import { plural } from "../format.js";
import { mayChange } from "../permission.js";
import { card, copyable, head, table } from "../widgets.js";

export const title = "Configuration";

export async function show(root, context) {
  let { file, settings } = await get("config", null, context.signal);
  const result = h("div", { role: "status" });
  const begin = latestOf();
  const all = h("input", { type: "checkbox", checked: context.query.get("all") === "1", onchange: () => {
    context.replaceQuery({ all: all.checked ? "1" : "" });
    draw();
  } });
  const list = h("div", { class: "stack" });
  const draw = () => fill(list, makeTables(settings, file, all.checked));
  const beginReading = latestOf();
  const reread = async () => {
    const isLatest = beginReading();
    const found = await get("config", null, context.signal);
    if (!isLatest()) return;
    ({ file, settings } = found);
    draw();
  };
  fill(root,
    head("Configuration", file ? h("span", null, "The settings in effect, from ", copyable(file)) : "No file: API keys in the environment enable their providers. Everything else is a default.",
      h("button", { type: "button", disabled: !file, onclick: () => check(begin, result, context) }, "Check the file"),
      h("button", { type: "button", disabled: !file || !mayChange(), title: file && !mayChange() ? "Open the link that antiphon serve shows in its terminal to reload the file." : null, onclick: () => reload(begin, result, context, reread) }, "Reload the file")),
    result, await clientKeys(context), h("p", null, h("label", { class: "switch" }, all, " Show defaults as well")), list);
  draw();
}

async function check(begin, result, context) {
  await ask(begin, result, "Checking…", async () => {
    const { problems } = await (await post("config/check", {}, context.signal)).json();
    return problems.length === 0
      ? h("p", { class: "banner good" }, "The file is valid. Reload it to apply changes in it.")
      : listProblems(problems);
  });
}

/** Reload the file, and call `reread` if the gateway uses it now. */
async function reload(begin, result, context, reread) {
  await ask(begin, result, "Reloading…", async () => {
    const { problems, needs_restart: later = [], replaces_workers: workers } = await (await post("config/reload", {}, context.signal)).json();
    if (problems.length > 0) return listProblems(problems);
    await reread();
    return h("div", { class: "banner good" },
      h("p", null, workers
        ? "The file is valid. The workers are replaced one by one, and new requests use it then."
        : "Reloaded. New requests use the file; those that are running end as they began."),
      later.length > 0 && h("p", null, "Changed, but in effect only after a restart: ", h("code", null, later.join(", "))));
  });
}

/** Show the outcome of the latest request that was made of the gateway, whatever the order of the replies. */
async function ask(begin, result, words, perform) {
  const isLatest = begin();
  fill(result, h("p", { class: "muted" }, words));
  const outcome = await perform().catch((error) => error.name !== "AbortError" && h("p", { class: "failure", role: "alert" }, error.message));
  if (isLatest()) fill(result, outcome);
}

function listProblems(problems) {
  return h("div", { class: "failure", role: "alert" },
    h("p", null, h("strong", null, `${plural(problems.length, "problem")} in the file. What is in effect has not changed.`)),
    h("ul", null, problems.map((each) => h("li", null, each))));
}

function makeTables(settings, file, withDefaults) {
  const shown = settings.filter((each) => withDefaults || !each.default || each.line);
  if (shown.length === 0) return h("p", { class: "muted" }, "Every setting has its default.");
  const groups = Map.groupBy(shown, (each) => each.table.join("."));
  return [...groups].map(([name, group]) => card(name ? `[${name}]` : "Top level", table(name || "top level", [
    { name: "Key", cell: (each) => h("code", null, each.key) },
    { name: "Value", class: "grow", cell: (each) => h("code", { class: "setting" }, JSON.stringify(each.value)) },
    { name: "From", class: "right", cell: (each) => origin(each, file) },
  ], group)));
}

function origin(setting, file) {
  if (setting.line) return copyable(`${file}:${setting.line}`, `line ${setting.line}`);
  return h("span", { class: "muted" }, setting.default ? "default" : "command line or program");
}
