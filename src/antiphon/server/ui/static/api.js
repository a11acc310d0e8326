// The JSON API below /ui/api: requests, live updates, and streamed responses.

/** The address of the page, whatever the gateway is mounted below. */
export const BASE = new URL("..", import.meta.url);

export class ApiError extends Error {
  constructor(status, error, requestId = null) {
    super(error?.message ?? `The gateway answered with status ${status}.`);
    this.status = status;
    this.code = error?.code ?? null;
    this.param = error?.param ?? null;
    this.requestId = requestId;
  }
}

const RECONNECT_MS = 5000;
let onSignedOut = () => {};

/** Register what to do when the admin key is needed. */
export function whenSignedOut(callback) {
  onSignedOut = callback;
}

function address(path, query) {
  const url = new URL(`api/${path}`, BASE);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value) url.searchParams.set(name, value);
  }
  return url;
}

async function request(path, query, options) {
  let response;
  try {
    response = await fetch(address(path, query), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { message: "The gateway cannot be reached. Is it still running?" });
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  if (response.status === 401 && path !== "session") onSignedOut();
  throw new ApiError(response.status, body?.error, response.headers.get("x-request-id"));
}

export async function get(path, query, signal) {
  return (await request(path, query, { signal })).json();
}

export async function post(path, body, signal) {
  const headers = { "content-type": "application/json" };
  return request(path, null, { method: "POST", headers, body: JSON.stringify(body), signal });
}

export async function remove(path) {
  return request(path, null, { method: "DELETE" });
}

export async function signOut() {
  await request("session", null, { method: "DELETE" });
}

export function downloadAddress(path, query) {
  return address(path, query).href;
}

/** Listen to live updates until the returned function is called. */
export function listen(query, handlers) {
  let source;
  let timer;
  const connect = () => {
    source = new EventSource(address("live", query));
    for (const [name, handle] of Object.entries(handlers)) {
      if (name !== "state") source.addEventListener(name, (event) => handle(JSON.parse(event.data)));
    }
    source.onopen = () => handlers.state?.("live");
    source.onerror = () => {
      handlers.state?.("offline");
      if (source.readyState !== EventSource.CLOSED) return;  // the browser connects again by itself
      get("now").catch(() => {});  // asks for the key if the session has ended
      timer = setTimeout(connect, RECONNECT_MS);
    };
  };
  connect();
  return () => {
    clearTimeout(timer);
    source.close();
  };
}

/** Split the text of server-sent events into { type, data } while it arrives. */
export class EventReader {
  #rest = "";

  feed(text) {
    this.#rest += text;
    const frames = this.#rest.split(/\r?\n\r?\n/);
    this.#rest = frames.pop();
    return frames.map(readFrame).filter(Boolean);
  }

  close() {
    const last = readFrame(this.#rest);
    this.#rest = "";
    return last ? [last] : [];
  }
}

function readFrame(frame) {
  const lines = frame.split(/\r?\n/);
  const value = (name) => lines.filter((line) => line.startsWith(name)).map((line) => line.slice(name.length).trim());
  const data = value("data:").join("\n");
  return data ? { type: value("event:")[0] ?? "", data } : null;
}

/** Create a streamed response as the client `admin`; `onEvent` gets each event. */
export async function createResponse(body, onEvent, signal) {
  const response = await post("responses", { ...body, stream: true }, signal);
  const id = response.headers.get("x-request-id");
  onEvent({ type: "antiphon.accepted", request_id: id });
  const reader = new EventReader();
  const decoder = new TextDecoder();
  const source = response.body.getReader();  // Safari has no `for await` of a body
  for (let part = await source.read(); !part.done; part = await source.read()) {
    for (const { data } of reader.feed(decoder.decode(part.value, { stream: true }))) {
      if (data !== "[DONE]") onEvent(JSON.parse(data));
    }
  }
  return id;
}
