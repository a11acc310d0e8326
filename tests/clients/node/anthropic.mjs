// The `@anthropic-ai/sdk` package: messages, its stream helper, tool runner, parsing and errors.

import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";
import { apiKey, baseURL, failure, model, play } from "./program.mjs";

const client = new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ""), apiKey });
const City = z.object({ name: z.string(), people: z.number().int() });
const asked = { model, max_tokens: 500, messages: [{ role: "user", content: "Hello?" }] };

async function streamed(request) {
  const events = [];
  let text = "";
  const stream = client.messages.stream(request);
  stream.on("streamEvent", (event) => events.push(event.type));
  stream.on("text", (delta) => (text += delta));
  const message = await stream.finalMessage();
  return { events, text, message };
}

async function failing(options = {}) {
  try {
    const stream = client.withOptions(options).messages.stream(asked);
    return { message: await stream.finalMessage() };
  } catch (error) {
    return failure(error);
  }
}

await play({
  create: () => client.messages.create({ ...asked, system: "Be kind." }),
  stream: () => streamed(asked),
  async tools() {
    const weather = betaZodTool({
      name: "get_weather",
      description: "The weather of a city.",
      inputSchema: z.object({ city: z.string() }),
      run: ({ city }) => `sunny in ${city}`,
    });
    const message = await client.beta.messages.toolRunner({ ...asked, tools: [weather] });
    return { message };
  },
  async parse() {
    const format = zodOutputFormat(City);
    const message = await client.messages.parse({ ...asked, output_config: { format } });
    return { parsed: message.parsed_output };
  },
  count: () => client.messages.countTokens({ model, messages: asked.messages }),
  models: async () => ({ names: (await client.models.list()).data.map((each) => each.id) }),
  retried: () => streamed(asked),
  failing: () => failing({ maxRetries: 0 }),
});
