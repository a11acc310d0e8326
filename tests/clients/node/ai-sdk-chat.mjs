// The AI SDK with `@ai-sdk/openai` in its Chat mode.

import { createOpenAI } from "@ai-sdk/openai";
import { playChat } from "./chat-scenarios.mjs";
import { apiKey, baseURL } from "./program.mjs";

await playChat((name) => createOpenAI({ baseURL, apiKey }).chat(name));
