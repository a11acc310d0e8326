// The `openai` package: what can be done with a response besides creating it.

import OpenAI from "openai";
import { apiKey, baseURL, failure, model, play } from "./program.mjs";

const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const message = (content) => ({ role: "user", content });
const inBackground = { model, input: "Good morning", background: true };
const pollMilliseconds = 20;

/** The error that a call is rejected with. */
async function codeOf(call) {
  return call.then(
    () => null,
    (error) => [failure(error).name, error.code],
  );
}

async function all(pages) {
  const items = [];
  for await (const item of await pages) items.push(item);
  return items;
}

async function textsOf(pages) {
  return (await all(pages)).map((item) => item.content[0].text);
}

async function poll(response, statuses) {
  while (!statuses.includes(response.status)) {
    await new Promise((resolve) => setTimeout(resolve, pollMilliseconds));
    response = await client.responses.retrieve(response.id);
  }
  return response;
}

/** The next event of a WebSocket that ends a response. */
function ending(socket) {
  return new Promise((resolve, reject) => {
    const hear = (event) => {
      if (event.type !== "response.completed") return;
      socket.off("event", hear);
      resolve(event.response);
    };
    socket.on("event", hear);
    socket.on("error", reject);
  });
}

await play({
  async stored() {
    const input = [message("One?"), message("Two?"), message("Three?")];
    const response = await client.responses.create({ model, input });
    const { id } = response;
    const found = await client.responses.retrieve(id);
    const asc = await textsOf(client.responses.inputItems.list(id, { order: "asc", limit: 2 }));
    const desc = await textsOf(client.responses.inputItems.list(id, { order: "desc", limit: 2 }));
    await client.responses.delete(id);
    const gone = await codeOf(client.responses.retrieve(id));
    return { text: found.output_text, same: found.id === id, asc, desc, gone };
  },

  async background() {
    const begun = await client.responses.create(inBackground);
    const ended = await poll(begun, ["completed", "failed", "incomplete", "cancelled"]);
    return { begun: begun.status, ended: ended.status, text: ended.output_text };
  },

  async cancel() {
    const begun = await client.responses.create(inBackground);
    await poll(begun, ["in_progress"]);
    const cancelled = await client.responses.cancel(begun.id);
    const found = await client.responses.retrieve(begun.id);
    return { statuses: [cancelled.status, found.status] };
  },

  async resume() {
    const events = await all(client.responses.create({ ...inBackground, stream: true }));
    const { id } = events[0].response;
    const unequal = [];
    for (const { sequence_number } of events) {
      const query = { stream: true, starting_after: sequence_number };
      const rest = await all(client.responses.retrieve(id, query));
      const wanted = events.slice(sequence_number + 1);
      if (JSON.stringify(rest) !== JSON.stringify(wanted)) unequal.push(sequence_number);
    }
    const helped = client.responses.stream({ response_id: id, starting_after: 3 });
    return {
      numbers: events.map((event) => event.sequence_number),
      unequal,
      text: (await helped.finalResponse()).output_text,
    };
  },

  async conversation() {
    const talk = await client.conversations.create({ items: [message("I am Ada.")] });
    const asking = { model, conversation: talk.id };
    await client.responses.create({ ...asking, input: "Who am I?" });
    const second = await client.responses
      .stream({ ...asking, input: "Sure?" })
      .finalResponse();
    const texts = await textsOf(
      client.conversations.items.list(talk.id, { order: "asc", limit: 2 }),
    );
    const { deleted } = await client.conversations.delete(talk.id);
    return { text: second.output_text, texts, deleted };
  },

  async compact() {
    const input = [message("The word is heron."), message("Remember it.")];
    const compacted = await client.responses.compact({ model, input });
    const after = [...compacted.output, message("Which word?")];
    const answered = await client.responses.create({ model, input: after, store: false });
    return { types: compacted.output.map((item) => item.type), text: answered.output_text };
  },

  async websocket() {
    const { ResponsesWS } = await import("openai/resources/responses/ws"); // needs `ws`
    const socket = new ResponsesWS(client);
    const texts = [];
    let previous_response_id;
    for (const input of ["One?", "Two?"]) {
      const ended = ending(socket);
      socket.send({ type: "response.create", model, input, store: false, previous_response_id });
      const response = await ended;
      previous_response_id = response.id;
      texts.push(response.output.at(-1).content[0].text);
    }
    socket.close();
    return { texts };
  },
});
