"""`antiphon.replay` with the client's request gives the events that the client received."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from antiphon import replay
from antiphon.cli.main import main
from antiphon.config import ModelConfig, ProviderConfig, TraceConfig
from antiphon.providers.registry import SPECS
from tests.support.client_answers import post_request
from tests.support.gateways import replaced, running, settings
from tests.support.recordings import comparable
from tests.support.upstream import Connection, ReceivedRequest, upstream

Document = dict[str, Any]

CITY = {
    "type": "json_schema",
    "name": "city",
    "strict": True,
    "schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
SHELL_CALL = ("shell", '{"commands":["ls"],"timeout_ms":1000,"max_output_length":100}')


def call(name: str, arguments: str, index: int = 0) -> Document:
    function = {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": index, "id": f"call_{index}", "function": function}]}


def stream(*deltas: Document, finish: str = "stop") -> bytes:
    chunks: list[Document] = [{"choices": [{"delta": delta}]} for delta in deltas]
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    chunks.append({"choices": [{"delta": {}, "finish_reason": finish}], "usage": usage})
    return b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)


CASES: dict[str, tuple[bytes, Document, Document]] = {
    "text": (stream({"content": "Hello"}), {}, {}),
    "custom tool": (
        stream(call("patch", '{"input":"*** Begin'), call("patch", ' Patch"}')),
        {"tools": [{"type": "custom", "name": "patch"}]},
        {},
    ),
    "shell": (stream(call(*SHELL_CALL)), {"tools": [{"type": "shell"}]}, {}),
    "empty arguments": (
        stream(call("look", "")),
        {"tools": [{"type": "function", "name": "look", "parameters": None, "strict": False}]},
        {},
    ),
    "one call of two": (
        stream(call("look", "{}"), call("look", "{}", 1)),
        {
            "tools": [{"type": "function", "name": "look", "parameters": {}, "strict": False}],
            "parallel_tool_calls": False,
        },
        {},
    ),
    "kept contract": (stream({"content": '{"city":"Ulm"}'}), {"text": {"format": CITY}}, {}),
    "broken contract": (
        stream({"content": '{"town":"Ulm"}'}, finish="stop"),
        {"text": {"format": CITY}},
        {},
    ),
    "reasoning as a summary": (
        stream({"reasoning_content": "Hm."}, {"content": "Yes."}),
        {"reasoning": {"summary": "auto"}},
        {},
    ),
    "leaked reasoning": (
        stream({"content": "<think>Hm.</think>Yes."}),
        {},
        {"guards": ("think",)},
    ),
    "refusal": (stream({"refusal": "I cannot."}), {}, {}),
    "whole answer": (
        b'{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}',
        {"stream": False},
        {},
    ),
}


@pytest.mark.parametrize("client", ["other", "codex"])
@pytest.mark.parametrize("case", CASES)
async def test_a_replay_gives_what_the_client_received(
    tmp_path: Path, case: str, client: str
) -> None:
    data, more, known = CASES[case]
    request = {"model": "up/m", "input": "Hi", "stream": True, "store": False, **more}

    async def script(received: ReceivedRequest, connection: Connection) -> None:
        whole = not request["stream"]
        await connection.head(content_type="application/json" if whole else "text/event-stream")
        await connection.send(data)
        await connection.end()

    async with upstream(script) as server:
        overrides = {"m": ModelConfig(**known)} if known else {}
        entry = ProviderConfig(kind="chat", base_url=server.url, api_keys=["k"], models=overrides)
        config = replaced(settings(tmp_path, server.url), providers={"up": entry})
        async with running(config) as gateway:
            answer = await post_request(gateway, request, **{"User-Agent": f"{client}_cli"})
    capabilities = structs.replace(SPECS["chat"].capabilities_of("m"), **known)
    events = replay(data, request=request, capabilities=capabilities, client=client)
    if request["stream"]:
        assert comparable(events) == comparable(answer.events)
    else:
        assert comparable(events[-1]["response"]) == comparable(answer.response)


GOLDEN = Path(__file__).parents[1] / "golden"
TYPES = {
    ".sse": "text/event-stream",
    ".ndjson": "application/x-ndjson",
    ".eventstream": "application/vnd.amazon.eventstream",
}
DIALECTS = ("anthropic", "bedrock", "chat", "cohere", "gemini", "ollama", "responses")


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_traced_request_of_every_dialect_gives_what_its_client_received(
    tmp_path: Path, dialect: str, capsys: pytest.CaptureFixture[str]
) -> None:
    [recorded] = GOLDEN.glob(f"{dialect}/parallel_calls/upstream.*")
    tools: list[Document] = [
        {"type": "function", "name": name, "parameters": {}, "strict": False}
        for name in ("get_weather", "get_time")
    ]

    async def script(received: ReceivedRequest, connection: Connection) -> None:
        await connection.head(content_type=TYPES[recorded.suffix])
        await connection.send(recorded.read_bytes())
        await connection.end()

    async with upstream(script) as server:
        entry = ProviderConfig(kind=dialect, base_url=server.url, api_keys=["k"])
        trace = TraceConfig(path=str(tmp_path / "trace.db"), payloads=True)
        config = replaced(settings(tmp_path), providers={"up": entry}, trace=trace)
        async with running(config) as gateway:
            request = {"model": "up/m", "input": "Hi", "tools": tools, "stream": True}
            answer = await post_request(gateway, request)
    assert answer.events[-1]["type"] == "response.completed"
    status = main(["trace", "replay", answer.headers["x-request-id"], "--file", trace.path])
    lines = capsys.readouterr().out.splitlines()
    assert status == 0
    assert comparable([json.loads(line) for line in lines]) == comparable(answer.events)
