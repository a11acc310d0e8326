"""Three `antiphon serve` processes in a chain respond like one of them.

The client speaks Messages to the first, which speaks Chat Completions to the second, which speaks
Responses to the third; a provider of any dialect is behind that one. The same request goes to the
first and to the third alone: content, arguments to the byte, reasoning, usage, end and errors are
equal.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from tests.e2e.test_chained_gateways import play
from tests.e2e.test_state_formats import CLIENTS, StrictProviders
from tests.support import native_answers as native
from tests.support.commands import serving
from tests.support.shared_gateway import UVLOOP
from tests.support.upstream import (
    DONE,
    Connection,
    ReceivedRequest,
    Script,
    Upstream,
    chunk,
    send_frames,
    send_json,
    upstream,
)

Document = dict[str, Any]
CONFIG = """
[discovery]
enabled = false
[trace]
enabled = false
[store]
url = "memory://"
[attempts]
max_attempts = 1
[capsule]
keys = ["the key of {name}"]
"""
PROVIDER = """
[providers.{name}]
kind = "{kind}"
base_url = "{url}"
api_keys = ["sk-up"]
"""
MODELS = {
    "chat": "some-model",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-pro-preview",
    "responses": "some-model",
    "bedrock": "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "cohere": "command-a-reasoning-08-2025",
    "ollama": "qwen3",
}


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@dataclass(frozen=True)
class Process:
    """A gateway in a process of its own."""

    base_url: str
    client: aiohttp.ClientSession


class Answers:
    """A provider of every dialect, which a test gives its answer."""

    def __init__(self) -> None:
        self.script: Script = send_json(500, {})

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        await self.script(request, connection)


@dataclass(frozen=True)
class Chain:
    first: Process
    last: Process
    answers: Answers
    strict: StrictProviders

    def both(self, model: str) -> tuple[tuple[Process, str], tuple[Process, str]]:
        """The chain and its last gateway, each with its name for a model."""
        return (self.first, f"up/up/{model}"), (self.last, model)


def _serve(stack: AsyncExitStack, home: Path, name: str, providers: str) -> str:
    """Run one gateway until the stack closes; return its URL. It starts without its providers."""
    directory = home / name
    directory.mkdir()
    config = directory / "antiphon.toml"
    config.write_text(CONFIG.format(name=name) + providers, encoding="utf-8")
    url = stack.enter_context(serving(directory, "--config", str(config)))
    return f"{url.removesuffix('/').removesuffix('/v1')}/v1"


def _providers(servers: Mapping[str, Upstream], url: str) -> str:
    """The providers of the last gateway: scripted ones, and one of each dialect."""
    found = "".join(
        PROVIDER.format(name=kind, kind=kind, url=server.url) for kind, server in servers.items()
    )
    return found + "".join(
        PROVIDER.format(name=f"any-{kind}", kind=kind, url=url) for kind in MODELS
    )


@pytest.fixture(scope="module")
async def chain(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chain]:
    home = tmp_path_factory.mktemp("chain")
    strict, answers = StrictProviders(), Answers()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(upstream(answers))
        servers = await strict.start(stack)
        client = await stack.enter_async_context(aiohttp.ClientSession())
        last = _serve(stack, home, "last", _providers(servers, server.url))
        next_to_last = PROVIDER.format(name="up", kind="responses", url=last)
        second = _serve(stack, home, "second", next_to_last)
        first = _serve(stack, home, "first", PROVIDER.format(name="up", kind="chat", url=second))
        yield Chain(Process(first, client), Process(last, client), answers, strict)


# --- what the client sees -------------------------------------------------------------------------


class Result(NamedTuple):
    status: int
    blocks: list[Document]
    """Content without signatures and ids, which differ from request to request, and without blocks
    that have nothing but a signature: a gateway may keep the state by the ids of calls instead."""
    stop_reason: str | None
    usage: Document | None
    error: str | None = None
    """Its type."""
    headers: tuple[str | None, ...] = ()
    """Of an error: when to ask again, if ever."""


ASKED: Document = {
    "max_tokens": 32000,
    "messages": [{"role": "user", "content": "How is the weather in Ulm?"}],
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "tools": [
        {
            "name": "get_weather",
            "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
        }
    ],
}
_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens")


async def ask(process: Process, model: str, *, stream: bool) -> Result:
    body = {"model": model, "stream": stream, **ASKED}
    async with process.client.post(f"{process.base_url}/messages", json=body) as answer:
        data = await answer.read()
        if answer.status != 200:
            headers = tuple(answer.headers.get(each) for each in ("retry-after", "x-should-retry"))
            kind = json.loads(data)["error"]["type"]
            return Result(answer.status, [], None, None, kind, headers)
    return _read_stream(data) if stream else _read_whole(json.loads(data))


def _plain(block: Document) -> Document:
    return {name: value for name, value in block.items() if name not in ("id", "signature")}


def _counted(usage: Document) -> Document:
    return {name: usage.get(name) for name in _COUNTS}


def _read_whole(message: Document) -> Result:
    blocks = _content([_plain(block) for block in message["content"]])
    # A whole body of Chat Completions does not say whether text or calls came first (ADR 0011).
    blocks.sort(key=lambda block: block["type"] == "tool_use")
    return Result(200, blocks, message["stop_reason"], _counted(message["usage"]))


def _content(blocks: list[Document]) -> list[Document]:
    return [block for block in blocks if block != {"type": "thinking", "thinking": ""}]


def _read_stream(data: bytes) -> Result:
    events = [json.loads(line[6:]) for line in data.split(b"\n") if line.startswith(b"data: ")]
    blocks: list[Document] = []
    stop_reason, usage, error = None, None, None
    for event in events:
        match event:
            case {"type": "content_block_start", "content_block": block}:
                blocks.append(_plain(block))
            case {"type": "content_block_delta", "delta": delta}:
                _extend(blocks[-1], delta)
            case {"type": "message_delta", "delta": delta}:
                stop_reason, usage = delta["stop_reason"], _counted(event["usage"])
            case {"type": "error"}:
                error = event["error"]["type"]
    return Result(200, _content(blocks), stop_reason, usage, error)


def _extend(block: Document, delta: Document) -> None:
    for name in ("text", "thinking"):
        if name in delta:
            block[name] += delta[name]
    if "partial_json" in delta:
        block["json"] = block.get("json", "") + delta["partial_json"]


# --- the tests ------------------------------------------------------------------------------------

CHAT_CALL = {"index": 0, "id": "c", "type": "function"}
CHAT_USAGE = {
    "prompt_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens": 8,
    "total_tokens": 18,
}
CHAT_MESSAGE: Document = {
    "role": "assistant",
    "reasoning_content": "Let me see.",
    "content": "Rain.",
    "tool_calls": [
        {**CHAT_CALL, "function": {"name": "get_weather", "arguments": native.ARGUMENTS}}
    ],
}


def _chat_frames() -> tuple[bytes, ...]:
    call = {**CHAT_CALL, "function": {"name": "get_weather", "arguments": ""}}
    pieces = ('{"city"', ': "Ulm"}')
    end = json.dumps({"choices": [], "usage": CHAT_USAGE})
    return (
        chunk({"role": "assistant", "reasoning_content": "Let me see."}),
        chunk({"content": "Rain."}),
        chunk({"tool_calls": [call]}),
        *(chunk({"tool_calls": [{"index": 0, "function": {"arguments": p}}]}) for p in pieces),
        chunk({}, "tool_calls"),
        f"data: {end}\n\n".encode(),
        DONE,
    )


CHOICE = {"index": 0, "message": CHAT_MESSAGE, "finish_reason": "tool_calls"}
SAMPLES: Mapping[str, tuple[bytes, bytes]] = {
    "chat": (
        b"".join(_chat_frames()),
        json.dumps({"id": "x", "choices": [CHOICE], "usage": CHAT_USAGE}).encode(),
    ),
    "anthropic": (native.ANTHROPIC_STREAM, native.ANTHROPIC_WHOLE),
    "gemini": (native.GEMINI_STREAM, native.GEMINI_WHOLE),
    "responses": (native.RESPONSES_STREAM, native.RESPONSES_WHOLE),
    "bedrock": (native.BEDROCK_STREAM, native.BEDROCK_WHOLE),
    "cohere": (native.COHERE_STREAM, native.COHERE_WHOLE),
    "ollama": (native.OLLAMA_STREAM, native.OLLAMA_WHOLE),
}
CONTENT_TYPES = {
    "bedrock": "application/vnd.amazon.eventstream",
    "ollama": "application/x-ndjson",
}


def send_sample(kind: str, *, stream: bool) -> Script:
    streamed, whole = SAMPLES[kind]

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        if not stream:
            await send_json(200, json.loads(whole))(request, connection)
            return
        await connection.head(content_type=CONTENT_TYPES.get(kind, "text/event-stream"))
        await connection.send(streamed)
        await connection.end()

    return script


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("kind", MODELS)
async def test_a_response_of_every_dialect_is_the_same(
    chain: Chain, kind: str, stream: bool
) -> None:
    chain.answers.script = send_sample(kind, stream=stream)
    chained, alone = [
        await ask(process, model, stream=stream)
        for process, model in chain.both(f"any-{kind}/{MODELS[kind]}")
    ]
    assert chained == alone
    assert [block["type"] for block in alone.blocks] == ["thinking", "text", "tool_use"]
    assert alone.blocks[0]["thinking"] == "Let me see."
    call = alone.blocks[2]
    assert (json.loads(call["json"]) if stream else call["input"]) == native.INPUT
    assert alone.stop_reason == "tool_use"
    assert alone.usage is not None
    assert alone.usage["output_tokens"] == 8


FAILURES: Mapping[str, tuple[int, Document, Mapping[str, str]]] = {
    "a request that is invalid": (400, {"message": "No."}, {}),
    "a context that is too long": (
        400,
        {"message": "maximum context length is 10 tokens", "code": "context_length_exceeded"},
        {},
    ),
    "a key that is wrong": (401, {"message": "No."}, {}),
    "a forbidden model": (403, {"message": "No."}, {}),
    "an unknown model": (404, {"message": "No.", "code": "model_not_found"}, {}),
    "a rate limit": (429, {"message": "Slow down."}, {"retry_after": "7"}),
    "an error of the server": (500, {"message": "No."}, {}),
    "an overloaded server": (503, {"message": "No."}, {}),
}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", FAILURES)
async def test_an_error_is_the_same(chain: Chain, name: str, stream: bool) -> None:
    status, error, headers = FAILURES[name]
    chain.answers.script = send_json(status, {"error": error}, **headers)
    chained, alone = [
        await ask(process, model, stream=stream)
        for process, model in chain.both("any-chat/some-model")
    ]
    assert chained == alone
    assert alone.error is not None


ENDS: Mapping[str, tuple[bytes, ...]] = {
    "the limit of tokens": (chunk({"content": "Half"}), chunk({}, "length"), DONE),
    "a filter": (chunk({"content": "Half"}), chunk({}, "content_filter"), DONE),
    "a cut": (chunk({"content": "Half"}),),
    "a cut within a call": _chat_frames()[:4],
    "an error inside": (chunk({"content": "Half"}), b'data: {"error": {"code": 429}}\n\n'),
}


@pytest.mark.parametrize("name", ENDS)
async def test_a_stream_that_does_not_end_well_ends_the_same(chain: Chain, name: str) -> None:
    chain.answers.script = send_frames(ENDS[name])
    chained, alone = [
        await ask(process, model, stream=True)
        for process, model in chain.both("any-chat/some-model")
    ]
    assert chained == alone
    assert (alone.error is None) != (alone.stop_reason is None)


@pytest.mark.parametrize("kind", ["anthropic", "gemini", "deepseek", "openai"])
async def test_state_of_the_provider_survives_three_processes(chain: Chain, kind: str) -> None:
    assert await play(chain.first, chain.strict, CLIENTS["messages"](), kind) == []
