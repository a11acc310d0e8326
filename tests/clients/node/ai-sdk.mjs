// The AI SDK (`ai` with `@ai-sdk/openai`): text, streams, tools in steps, objects, reasoning.
// It checks every chunk against a schema, so it is the strictest reader of events here.

import { createOpenAI } from "@ai-sdk/openai";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { apiKey, baseURL, model, play } from "./program.mjs";

const openai = createOpenAI({ baseURL, apiKey });
const answering = openai.responses(model);
const City = z.object({ name: z.string(), people: z.number().int() });
const weather = tool({
  description: "The weather of a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}`,
});
const tools = { get_weather: weather };
const question = "How is the weather in Paris?";
const kept = { include: { requestBody: true } }; // ai 6 keeps it by default, ai 7 does not
const options = (openai) => ({ providerOptions: { openai } });
const thinking = { forceReasoning: true, reasoningSummary: "auto" };
const unstored = { store: false, include: ["reasoning.encrypted_content"] };

/** All parts of a stream; an error is one of them here, not an exception. */
async function drained(result) {
  const parts = [];
  const errors = [];
  for await (const part of result.fullStream) {
    parts.push(part.type);
    if (part.type === "error") errors.push(part.error);
  }
  return { parts, errors };
}

/** How many earlier items a request only names. */
function referencesIn(body) {
  const { input } = typeof body === "string" ? JSON.parse(body) : body;
  return input.filter((item) => item.type === "item_reference").length;
}

const steps = (result) =>
  result.steps.map((step) => ({
    finish: step.finishReason,
    text: step.text,
    reasoning: step.reasoningText,
    calls: step.toolCalls.map((call) => [call.toolName, call.input]),
    results: step.toolResults.map((result) => result.output),
    references: referencesIn(step.request.body),
  }));

const report = (result) => ({
  text: result.text,
  finish: result.finishReason,
  tokens: result.usage.totalTokens,
  steps: steps(result),
});

/** The same report of a streamed answer, whose every part is a promise. */
async function streamReport(result) {
  const { parts, errors } = await drained(result);
  const [text, finishReason, usage, all] = await Promise.all([
    result.text,
    result.finishReason,
    result.usage,
    result.steps,
  ]);
  return { parts, errors, ...report({ text, finishReason, usage, steps: all }) };
}

const inSteps = {
  ...kept,
  model: answering,
  tools,
  prompt: question,
  stopWhen: stepCountIs(3),
  ...options({ store: false }),
};

// The messages of all steps: in `response` with ai 6, which has those of the last one with ai 7.
const generated = async (request) => {
  const result = await generateText(request);
  return [result.responseMessages ?? result.response.messages, report(result)];
};

const streamed = async (request) => {
  const result = streamText({ ...request, onError() {} });
  const seen = await streamReport(result);
  return [(await result.responseMessages) ?? (await result.response).messages, seen];
};

/** Two turns by hand, the second with all messages of the first before it. */
async function conversation(answer, more) {
  const messages = [{ role: "user", content: question }];
  const request = { ...kept, model: answering, tools, stopWhen: stepCountIs(3), ...more };
  const [answered, first] = await answer({ ...request, messages });
  messages.push(...answered, { role: "user", content: "And tomorrow?" });
  const [, second] = await answer({ ...request, messages });
  return { first, second };
}

await play({
  async text() {
    const request = { ...kept, model: answering, system: "Be kind.", prompt: question };
    return report(await generateText(request));
  },

  stream: () =>
    streamReport(streamText({ ...kept, model: answering, prompt: question, onError() {} })),
  tools: async () => report(await generateText(inSteps)),
  streamedTools: () => streamReport(streamText({ ...inSteps, onError() {} })),

  async object() {
    const output = Output.object({ schema: City, name: "city" });
    const result = await generateText({ model: answering, output, prompt: "Paris" });
    return { object: result.output, finish: result.finishReason };
  },

  async streamedObject() {
    const output = Output.object({ schema: City, name: "city" });
    const result = streamText({ model: answering, output, prompt: "Paris", onError() {} });
    const partial = [];
    for await (const object of result.partialOutputStream) partial.push(object);
    return { partial, object: await result.output };
  },

  unstored: () => conversation(generated, options({ ...thinking, ...unstored })),
  streamedUnstored: () => conversation(streamed, options({ ...thinking, ...unstored })),
  stored: () => conversation(generated, options(thinking)),
  streamedStored: () => conversation(streamed, options(thinking)),
});
