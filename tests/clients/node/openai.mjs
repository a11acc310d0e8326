// The `openai` package: whole answers, its stream helper, tools, parsing, chains and errors.

import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { apiKey, baseURL, failure, model, play } from "./program.mjs";

const client = new OpenAI({ baseURL, apiKey });
const City = z.object({ name: z.string(), people: z.number().int() });
const weather = {
  type: "function",
  name: "get_weather",
  description: "The weather of a city.",
  strict: true,
  parameters: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  },
};

const outputsOf = (response) =>
  response.output
    .filter((item) => item.type === "function_call")
    .map((call) => ({
      type: "function_call_output",
      call_id: call.call_id,
      output: `sunny in ${JSON.parse(call.arguments).city}`,
    }));

async function streamed(request) {
  const events = [];
  let text = "";
  const stream = client.responses.stream({ model, ...request });
  for await (const event of stream) {
    events.push(event.type);
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  const response = await stream.finalResponse();
  return { events, text, response };
}

await play({
  async create() {
    const { output_text, status, usage, output } = await client.responses.create({
      model,
      instructions: "Be kind.",
      input: "Hello?",
    });
    return { output_text, status, usage, types: output.map((item) => item.type) };
  },

  async stream() {
    const { events, text, response } = await streamed({ input: "Hello?" });
    return { events, text, output_text: response.output_text, status: response.status };
  },

  async reasoning() {
    const { events, response } = await streamed({ input: "Think", reasoning: { summary: "auto" } });
    return { events, output: response.output };
  },

  async tool() {
    const input = [{ role: "user", content: "How is the weather in Paris and Rome?" }];
    const asked = await streamed({ input, tools: [weather] });
    const calls = asked.response.output.filter((item) => item.type === "function_call");
    input.push(...asked.response.output, ...outputsOf(asked.response));
    const told = await client.responses.create({ model, input, tools: [weather] });
    return {
      events: asked.events,
      calls: calls.map(({ name, arguments: given, call_id }) => [name, JSON.parse(given), call_id]),
      output_text: told.output_text,
    };
  },

  async parse() {
    const request = { model, input: "Paris", text: { format: zodTextFormat(City, "city") } };
    const whole = await client.responses.parse(request);
    const inPieces = await client.responses.stream(request).finalResponse();
    return { whole: whole.output_parsed, streamed: inPieces.output_parsed };
  },

  async chain() {
    const first = await client.responses.create({ model, input: "My name is Ada." });
    const second = await client.responses.create({
      model,
      input: "What is my name?",
      previous_response_id: first.id,
    });
    return {
      texts: [first.output_text, second.output_text],
      follows: second.previous_response_id === first.id,
    };
  },

  async missing() {
    const asking = client.responses.create({ model: "nobody/knows", input: "Hello" });
    return asking.then(() => null, failure);
  },

  async limited() {
    const asking = client.responses.create({ model, input: "Hello" }, { maxRetries: 0 });
    const refused = await asking.then(
      () => null,
      (error) => ({ ...failure(error), retry_after: error.headers.get("retry-after") }),
    );
    const second = await client.responses.create({ model, input: "Hello" }, { maxRetries: 1 });
    return { refused, output_text: second.output_text };
  },

  async cut() {
    const events = [];
    const stream = client.responses.stream({ model, input: "Hello" });
    try {
      for await (const event of stream) events.push(event.type);
      return { events, status: (await stream.finalResponse()).status };
    } catch (error) {
      return { events, ...failure(error) };
    }
  },
});
