// What the AI SDK does with a model of Chat Completions, whichever package speaks to it.

import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { model, play } from "./program.mjs";

const City = z.object({ name: z.string(), people: z.number().int() });
const weather = tool({
  description: "The weather of a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}`,
});
const question = "How is the weather in Paris?";

const report = (text, finish, usage, steps) => ({
  text,
  finish,
  tokens: usage.totalTokens,
  steps: steps.map((step) => ({
    finish: step.finishReason,
    text: step.text,
    reasoning: step.reasoningText ?? "",
    calls: step.toolCalls.map((call) => [call.toolName, call.input]),
    results: step.toolResults.map((result) => result.output),
  })),
});

async function generated(request) {
  const result = await generateText(request);
  return report(result.text, result.finishReason, result.usage, result.steps);
}

/** An error is a part of the stream here, not an exception. */
async function streamed(request) {
  const result = streamText({ ...request, onError() {} });
  const errors = [];
  let shown = "";
  for await (const part of result.fullStream) {
    if (part.type === "error") errors.push(String(part.error?.message ?? part.error));
    if (part.type === "text-delta") shown += part.text;
  }
  if (errors.length > 0) return { shown, errors };
  const [text, finish, usage, steps] = await Promise.all([
    result.text,
    result.finishReason,
    result.usage,
    result.steps,
  ]);
  return { shown, errors, ...report(text, finish, usage, steps) };
}

/** Run the scenario of the command line with the model that a package makes of its name. */
export function playChat(makeModel) {
  const asked = { model: makeModel(model), prompt: question };
  const inSteps = { ...asked, tools: { get_weather: weather }, stopWhen: stepCountIs(3) };
  const output = Output.object({ schema: City, name: "city" });
  return play({
    text: () => generated({ ...asked, system: "Be kind." }),
    stream: () => streamed(asked),
    tools: () => generated(inSteps),
    streamedTools: () => streamed(inSteps),
    object: async () => ({ object: (await generateText({ ...asked, output })).output }),
  });
}
