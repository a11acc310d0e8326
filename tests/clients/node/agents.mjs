// The `@openai/agents` package, with its tracing off: tools, streams, typed output and handoffs.

import {
  Agent,
  OpenAIConversationsSession,
  OpenAIResponsesModel,
  Runner,
  setTracingDisabled,
  tool,
} from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";
import { apiKey, baseURL, model, play } from "./program.mjs";

setTracingDisabled(true);

const runner = new Runner({ tracingDisabled: true });
const client = new OpenAI({ baseURL, apiKey });
const answering = new OpenAIResponsesModel(client, model);
const City = z.object({ name: z.string(), people: z.number().int() });
const weather = tool({
  name: "get_weather",
  description: "The weather of a city.",
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}`,
});

const agent = (options = {}) => new Agent({ name: "Tester", model: answering, ...options });

const report = (result) => ({
  final: result.finalOutput,
  items: result.newItems.map((item) => item.type),
  agent: result.lastAgent.name,
  usage: result.state.usage.totalTokens,
});

await play({
  async tool() {
    return report(await runner.run(agent({ tools: [weather] }), "How is the weather in Paris?"));
  },

  async streamed() {
    const asked = agent({ tools: [weather] });
    const result = await runner.run(asked, "How is the weather in Paris?", { stream: true });
    const raw = [];
    const named = [];
    let text = "";
    for await (const event of result) {
      if (event.type === "run_item_stream_event") named.push(event.name);
      if (event.type !== "raw_model_stream_event") continue;
      raw.push(event.data.type === "model" ? event.data.event.type : event.data.type);
      if (event.data.type === "output_text_delta") text += event.data.delta;
    }
    await result.completed;
    return { ...report(result), raw, named, text };
  },

  /** A text, and the error in its place if it is not completed. */
  async textStream() {
    let text = "";
    let error = "";
    try {
      const result = await runner.run(agent(), "Hello?", { stream: true });
      for await (const event of result) {
        if (event.type !== "raw_model_stream_event") continue;
        if (event.data.type === "output_text_delta") text += event.data.delta;
      }
      await result.completed;
    } catch (raised) {
      error = raised.message;
    }
    return { text, error };
  },

  async typed() {
    return report(await runner.run(agent({ outputType: City, tools: [weather] }), "Paris"));
  },

  async handoff() {
    const french = agent({ name: "French", instructions: "Speak French." });
    return report(await runner.run(agent({ name: "Triage", handoffs: [french] }), "Bonjour"));
  },

  async reasoning() {
    const settings = { store: false, providerData: { include: ["reasoning.encrypted_content"] } };
    const thinker = agent({ tools: [weather], modelSettings: settings });
    return report(await runner.run(thinker, "How is the weather in Paris?"));
  },

  async conversation() {
    const session = new OpenAIConversationsSession({ client });
    const asked = agent({ tools: [weather] });
    const first = await runner.run(asked, "How is the weather in Paris?", { session });
    const second = await runner.run(asked, "Thanks.", { session });
    const items = await session.getItems();
    await session.clearSession();
    const types = items.map((item) => item.type);
    return { finals: [first.finalOutput, second.finalOutput], types };
  },
});
