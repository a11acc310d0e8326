"""Answers of several rounds: a provider with one script for each request, a search engine, an
optional fallback provider, and the gateway in front of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import (
    AttemptConfig,
    McpConfig,
    ModelConfig,
    ProviderConfig,
    SearchConfig,
    TimeoutConfig,
    TraceConfig,
)
from tests.support.client_answers import Answer, post_request
from tests.support.failing_providers import Clock, ScriptQueue
from tests.support.gateways import Running, replaced, running, settings
from tests.support.patches import GRAMMAR
from tests.support.upstream import (
    DONE,
    Connection,
    ReceivedRequest,
    Script,
    Upstream,
    chunk,
    frame,
    upstream,
    usage,
)

Document = dict[str, Any]

SEARCH: Document = {"type": "web_search"}
READ: Document = {"type": "function", "name": "read", "parameters": {"type": "object"}}
PATCH: Document = {
    "type": "custom",
    "name": "apply_patch",
    "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR.definition},
}
SCHEMA: Document = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TEXT_FORMAT: Document = {
    "format": {"type": "json_schema", "name": "trip", "schema": SCHEMA, "strict": True}
}
ULM = '{"city": "Ulm"}'
RAIN = {"title": "Rain", "url": "https://weather.example/rain", "snippet": "It rains."}
SEARCH_RESULTS: Document = {"rain": [RAIN], "*": []}

streamed_and_whole = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


# Output of the model


def text_delta(output_text: str) -> Document:
    return {"content": output_text}


def reasoning_delta(output_text: str) -> Document:
    return {"reasoning_content": output_text}


def call_delta(*given: tuple[str, str, str]) -> Document:
    """A delta with whole calls: id, name, arguments."""
    return {
        "tool_calls": [
            {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}
            for index, (call_id, name, arguments) in enumerate(given)
        ]
    }


def search_call(query: str = "rain", call_id: str = "call_s") -> tuple[str, str, str]:
    return call_id, "web_search", json.dumps({"query": query})


def patch_call(text: str, call_id: str = "call_p") -> tuple[str, str, str]:
    return call_id, "apply_patch", json.dumps({"input": text})


def read_call(call_id: str = "call_r") -> tuple[str, str, str]:
    return call_id, "read", "{}"


def round_script(*deltas: Document, finish: str = "", counted: bool = True) -> Script:
    """Make the script of one round, streamed or whole as requested."""
    called = any("tool_calls" in delta for delta in deltas)
    reason = finish or ("tool_calls" if called else "stop")

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        if request.body.get("stream"):
            await connection.head()
            ends = [chunk({}, reason), *([usage()] if counted else []), DONE]
            for each in (*map(chunk, deltas), *ends):
                await connection.send(each)
        else:
            await connection.head(content_type="application/json")
            await connection.send(json.dumps(whole_round(deltas, reason, counted=counted)).encode())
        await connection.end()

    return script


def whole_round(deltas: Sequence[Document], finish: str, *, counted: bool = True) -> Document:
    message: Document = {"role": "assistant", "content": ""}
    for delta in deltas:
        for name in ("content", "reasoning_content"):
            if name in delta:
                message[name] = message.get(name, "") + delta[name]
        if "tool_calls" in delta:
            message["tool_calls"] = [{"type": "function", **call} for call in delta["tool_calls"]]
    choice = {"index": 0, "message": message, "finish_reason": finish}
    counts = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    document = {"id": "c1", "model": "scripted", "choices": [choice]}
    return {**document, "usage": counts} if counted else document


def error_in_body(message: str = "Busy.", code: int = 503) -> Script:
    """Make a script that answers 200 with an error in its body."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        document = {"error": {"message": message, "code": code}}
        streams = request.body.get("stream")
        await connection.head(content_type="text/event-stream" if streams else "application/json")
        if streams:
            await connection.send(chunk({"role": "assistant"}))
        await connection.send(frame(document) if streams else json.dumps(document).encode())
        await connection.end()

    return script


# The gateway


@dataclass
class RoundsGateway:
    gateway: Running
    upstream: Upstream
    fallback: Upstream
    clock: Clock
    trace: Path

    async def post_request(self, **body: Any) -> Answer:
        return await post_request(self.gateway, {"model": "m", "input": "Hello?", **body})

    @property
    def request_bodies(self) -> list[Document]:
        """Request bodies that the first provider received, in order."""
        return [asked.body for asked in self.upstream.requests]

    @property
    def waiting_requests(self) -> int:
        """Requests that wait for their first output, as the keyrings count them."""
        rings = [health.keyring for health in self.gateway.engine.services.health]
        return sum(sum(ring.active.values()) for ring in rings)

    def log_of(self, event: str) -> list[Document]:
        return [dict(entry.facts) for entry in self.gateway.log if entry.event == event]


PATIENT = AttemptConfig(max_attempts=4, backoff_s=0.1)
ONCE = AttemptConfig(max_attempts=1)


@asynccontextmanager
async def rounds_gateway(
    tmp_path: Path,
    *rounds: Script,
    fallback: Sequence[Script] = (),
    spare_kind: str = "chat",
    engine: Script | None = None,
    attempts: AttemptConfig = PATIENT,
    timeouts: TimeoutConfig | None = None,
    model: ModelConfig | None = None,
    spare_model: ModelConfig | None = None,
    payloads: bool = False,
    mcp: McpConfig | None = None,
    **server: Any,
) -> AsyncIterator[RoundsGateway]:
    """`engine` is the script of a search engine; without it, search results are recorded. Without
    `fallback` scripts there is no fallback provider."""
    clock = Clock()
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(upstream(ScriptQueue(*rounds)))
        other = await stack.enter_async_context(upstream(ScriptQueue(*fallback)))
        given = timeouts or TimeoutConfig()
        entry = ProviderConfig(
            kind="chat",
            base_url=first.url,
            api_keys=["sk-up"],
            timeouts=given,
            models=_models(model),
        )
        second = ProviderConfig(
            kind=spare_kind,
            base_url=other.url,
            api_keys=["sk-spare"],
            timeouts=given,
            models=_models(spare_model),
        )
        config = replaced(
            settings(tmp_path, first.url, **server),
            providers={"up": entry, "spare": second},
            fallbacks={"up/m": ["spare/m"]} if fallback else {},
            attempts=attempts,
            search=await _search(stack, tmp_path, engine),
            mcp=mcp or McpConfig(),
            trace=TraceConfig(path=str(tmp_path / "trace.db"), payloads=payloads),
        )
        gateway = await stack.enter_async_context(running(config, clock.runtime()))
        yield RoundsGateway(gateway, first, other, clock, tmp_path / "trace.db")


def _models(model: ModelConfig | None) -> dict[str, ModelConfig]:
    return {} if model is None else {"*": model}


async def _search(stack: AsyncExitStack, tmp_path: Path, engine: Script | None) -> SearchConfig:
    if engine is not None:
        listening = await stack.enter_async_context(upstream(engine))
        return SearchConfig(backend="searxng", url=listening.url.removesuffix("/v1"))
    path = tmp_path / "answers.json"
    path.write_text(json.dumps(SEARCH_RESULTS))
    return SearchConfig(backend="recorded", url=f"file://{path}")


# The response


def item_types(response: Mapping[str, Any]) -> list[str]:
    """The types of all items but reasoning."""
    return [item["type"] for item in response["output"] if item["type"] != "reasoning"]


def output_text(response: Mapping[str, Any]) -> str:
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "".join(part.get("text", "") for item in messages for part in item["content"])


def search_statuses(response: Mapping[str, Any]) -> list[str]:
    """The status of each search."""
    items = [item for item in response["output"] if item["type"] == "web_search_call"]
    return [item["status"] for item in items]
