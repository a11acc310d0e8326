// The AI SDK with `@ai-sdk/openai-compatible`, which agents use for servers of Chat Completions.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { playChat } from "./chat-scenarios.mjs";
import { apiKey, baseURL } from "./program.mjs";

const options = { name: "gw", baseURL, apiKey, includeUsage: true, supportsStructuredOutputs: true };
await playChat((name) => createOpenAICompatible(options).chatModel(name));
