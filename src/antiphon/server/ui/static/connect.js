// Ready snippets for clients: agents, the SDKs, and curl.

import { BASE } from "./api.js";
import { h } from "./dom.js";
import { code, tabs } from "./widgets.js";

export function connectClient(model, needsKey) {
  const base = new URL("../v1", BASE).href;
  const key = needsKey ? "YOUR-KEY" : "not-needed";
  const entries = Object.entries(snippets(base, model, key, needsKey));
  return h("div", null, tabs("Clients", entries.map(([name, text]) => [name, () => code(text)])),
    h("p", { class: "muted small" }, needsKey
      ? "YOUR-KEY is one of the gateway's own keys: api_keys in [server]."
      : "No key is needed on this machine. A client that requires one may send any text."));
}

function snippets(base, model, key, needsKey) {
  const variable = needsKey ? `env_key = "ANTIPHON_API_KEY"\n` : "";
  const header = needsKey ? ` \\\n  -H 'authorization: Bearer ${key}'` : "";
  return {
    curl: `curl ${base}/responses \\\n  -H 'content-type: application/json'${header} \\\n  -d '${JSON.stringify({ model, input: "Hello there" })}'`,
    Codex: `# antiphon codex starts Codex with this gateway. Or, in ~/.codex/config.toml:\nmodel = "${model}"\nmodel_provider = "antiphon"\n\n[model_providers.antiphon]\nname = "Antiphon"\nbase_url = "${base}"\nwire_api = "responses"\n${variable}`,
    "Claude Code": `# antiphon claude starts Claude Code with this gateway. Or:\nexport ANTHROPIC_BASE_URL=${base.replace(/\/v1$/, "")}\nexport ANTHROPIC_AUTH_TOKEN=${key}\nclaude --model ${model}`,
    Python: `from openai import OpenAI\n\nclient = OpenAI(base_url="${base}", api_key="${key}")\nresponse = client.responses.create(model="${model}", input="Hello there")\nprint(response.output_text)`,
    JavaScript: `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: "${base}", apiKey: "${key}" });\nconst response = await client.responses.create({ model: "${model}", input: "Hello there" });\nconsole.log(response.output_text);`,
    Environment: `export OPENAI_BASE_URL=${base}\nexport OPENAI_API_KEY=${key}`,
  };
}
