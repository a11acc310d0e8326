"""Keys, prompts and outputs do not leak into logs, errors or traces: each has a canary."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.config import LogConfig, TimeoutConfig
from antiphon.server.log_output import open_log
from antiphon.stages.log import Entry
from tests.support.client_answers import Answer, post_request
from tests.support.gateways import Running, running, settings
from tests.support.shared_gateway import UVLOOP
from tests.support.upstream import (
    DONE,
    Connection,
    ReceivedRequest,
    Script,
    chunk,
    frame,
    send_json,
    upstream,
    whole_answer,
)

KEY = "sk-canary-upstream-8c1f"
PROMPT = "canary-prompt-51ab"
OUTPUT = "canary-output-e07d"
SAID = f"{OUTPUT} and {PROMPT}"
TOLD = f"Rejected {PROMPT!r} with key {KEY}; last output {OUTPUT}"
REFUSED = f"Rejected {PROMPT!r} with key {KEY}"  # before there is output

REQUEST: dict[str, Any] = {
    "instructions": f"Never repeat {PROMPT}.",
    "input": [
        {"role": "developer", "content": f"Mind {PROMPT}."},
        {"role": "user", "content": [{"type": "input_text", "text": PROMPT}]},
        {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": f'"{PROMPT}"'},
        {"type": "function_call_output", "call_id": "c1", "output": PROMPT},
    ],
    "tools": [
        {
            "type": "function",
            "name": "look_up",
            "description": PROMPT,
            "parameters": {"type": "object", "properties": {"word": {"const": PROMPT}}},
        }
    ],
    "metadata": {"note": PROMPT},
    "user": PROMPT,
    "safety_identifier": PROMPT,
    "prompt_cache_key": PROMPT,
}
SCHEMA = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


def streaming(*frames: bytes, end: bool = True) -> Script:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        for each in frames:
            await connection.send(each)
        await connection.end() if end else connection.cut()

    return script


async def stall_after(request: ReceivedRequest, connection: Connection) -> None:
    await connection.head()
    await connection.send(chunk({"content": SAID}))
    await connection.wait_disconnected()


def call(arguments: str) -> bytes:
    function = {"name": "look_up", "arguments": arguments}
    return chunk({"tool_calls": [{"index": 0, "id": "c9", "function": function}]})


ERROR = {"message": TOLD, "type": TOLD, "param": TOLD, "code": TOLD}
REFUSAL = dict.fromkeys(ERROR, REFUSED)
STOP = (chunk({}, "stop"), DONE)
PATHS: Mapping[str, tuple[Script, dict[str, Any]]] = {
    "text": (streaming(chunk({"content": SAID}), *STOP), {}),
    "reasoning": (streaming(chunk({"reasoning_content": SAID}), *STOP), {}),
    "a call": (streaming(call(f'{{"word": "{SAID}"}}'), chunk({}, "tool_calls"), DONE), {}),
    "half a call": (streaming(call(f'{{"word": "{SAID}'), chunk({}, "tool_calls"), DONE), {}),
    "an unknown finish": (streaming(chunk({"content": SAID}), chunk({}, TOLD), DONE), {}),
    "a broken contract": (streaming(chunk({"content": SAID}), *STOP), {"text": {"format": SCHEMA}}),
    "an error inside": (streaming(chunk({"content": SAID}), frame({"error": ERROR})), {}),
    "an error at once": (streaming(frame({"error": REFUSAL})), {}),
    "an error that is text": (streaming(frame({"error": REFUSED})), {}),
    "noise": (streaming(chunk({"content": SAID}), b"data: {" + TOLD.encode() + b"\n\n"), {}),
    "noise at once": (streaming(b"data: {" + REFUSED.encode() + b"\n\n"), {}),
    "odd types": (streaming(chunk({"content": {"text": TOLD}, "tool_calls": TOLD}), *STOP), {}),
    "a cut": (streaming(chunk({"content": SAID}), end=False), {}),
    "a silence": (stall_after, {}),
    "a web page": (send_json(200, f"<html>{REFUSED}</html>", content_type="text/html"), {}),
    **{
        str(status): (send_json(status, {"error": REFUSAL}, x_request_id=REFUSED), {})
        for status in (302, 400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 503)
    },
    "a plain 400": (send_json(400, REFUSED, content_type="text/plain"), {}),
    "fields of pydantic": (send_json(422, {"detail": [{"loc": [PROMPT], "input": REFUSED}]}), {}),
}


@asynccontextmanager
async def gateway_to(tmp_path: Path, script: Script) -> AsyncIterator[Running]:
    async with upstream(script) as provider_server:
        config = settings(tmp_path, provider_server.url, timeouts=TimeoutConfig(idle_s=0.1))
        provider = msgspec.structs.replace(config.providers["up"], api_keys=[KEY])
        async with running(msgspec.structs.replace(config, providers={"up": provider})) as gateway:
            yield gateway
        assert all(
            received.headers["authorization"] == f"Bearer {KEY}"
            for received in provider_server.requests
        )


def render_log(log: list[Entry]) -> str:
    """The whole log in both of its formats."""
    out = io.StringIO()
    for style in ("json", "text"):
        emit = open_log(msgspec.convert({"level": "debug", "format": style}, LogConfig), out)
        for entry in log:
            emit(entry)
    return out.getvalue()


def read_files(tmp_path: Path, name: str) -> bytes:
    """All bytes of a database and of the files beside it."""
    files = sorted(tmp_path.glob(f"{name}*"))
    assert files
    return b"".join(path.read_bytes() for path in files)


def find_canaries(canaries: tuple[str, ...], text: bytes | str) -> list[str]:
    data = text if isinstance(text, bytes) else text.encode()
    return [canary for canary in canaries if canary.encode() in data]


def error_text(answer: Answer) -> str:
    """The error of an answer, without the output before it."""
    if answer.status == 200 and answer.response["error"] is None:
        return ""
    return json.dumps([answer.error, dict(answer.headers)])


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
async def test_no_canary_is_in_the_log_an_error_or_the_trace(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: tuple[Script, dict[str, Any]]
) -> None:
    script, more = path
    caplog.set_level(0)
    body = {"model": "m", **REQUEST, **more}
    async with gateway_to(tmp_path, script) as gateway:
        answers = [
            await post_request(gateway, {**body, "stream": True, "store": False}),
            await post_request(gateway, {**body, "stream": True}),
        ]
    assert gateway.log
    assert find_canaries((KEY, PROMPT, OUTPUT), render_log(gateway.log) + caplog.text) == []
    assert find_canaries((KEY, PROMPT, OUTPUT), "".join(map(error_text, answers))) == []
    assert find_canaries((KEY, PROMPT, OUTPUT), read_files(tmp_path, "trace.db")) == []
    assert find_canaries((KEY,), read_files(tmp_path, "turns.db")) == []


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (200, whole_answer(SAID)),
        (200, {"error": REFUSAL}),
        (400, {"error": REFUSAL}),
        (401, {"error": REFUSED}),
    ],
    ids=["good", "an error in a 200", "400", "401"],
)
async def test_a_whole_answer_leaks_no_canary(tmp_path: Path, status: int, document: Any) -> None:
    async with gateway_to(tmp_path, send_json(status, document)) as gateway:
        answer = await post_request(gateway, {"model": "m", **REQUEST, "store": False})
    assert find_canaries((KEY, PROMPT, OUTPUT), render_log(gateway.log)) == []
    assert find_canaries((KEY, PROMPT, OUTPUT), error_text(answer)) == []
    for name in ("trace.db", "turns.db"):
        assert find_canaries((KEY, PROMPT, OUTPUT), read_files(tmp_path, name)) == []


async def test_content_with_store_false_is_not_written_to_disk(tmp_path: Path) -> None:
    script = streaming(chunk({"content": SAID}), *STOP)
    async with gateway_to(tmp_path, script) as gateway:
        await post_request(gateway, {"model": "m", **REQUEST, "stream": True, "store": False})
    assert find_canaries((KEY, PROMPT, OUTPUT), read_files(tmp_path, "")) == []


async def test_the_store_has_the_turn_and_no_key(tmp_path: Path) -> None:
    """Control: a stored turn does contain its canaries."""
    script = streaming(chunk({"content": SAID}), *STOP)
    async with gateway_to(tmp_path, script) as gateway:
        await post_request(gateway, {"model": "m", **REQUEST, "stream": True})
    assert find_canaries((KEY, PROMPT, OUTPUT), read_files(tmp_path, "turns.db")) == [
        PROMPT,
        OUTPUT,
    ]


@pytest.mark.parametrize(
    "body",
    [
        {"input": PROMPT, "temperature": PROMPT},
        {"input": PROMPT, "tools": PROMPT},
        {"input": [{"role": "narrator", "content": PROMPT}]},
        {"input": PROMPT, "previous_response_id": "resp_unknown"},
        {"input": PROMPT, "background": True, "store": False},
        {"input": {PROMPT: 1}},
    ],
)
async def test_a_rejected_request_leaves_no_prompt_in_log_or_trace(
    tmp_path: Path, body: dict[str, Any]
) -> None:
    """A message may name a value that has to be one of a list (a role, a type); never a text."""
    async with gateway_to(tmp_path, streaming(*STOP)) as gateway:
        await post_request(gateway, {"model": "m", **body})
    assert find_canaries((PROMPT,), render_log(gateway.log)) == []
    assert find_canaries((PROMPT,), read_files(tmp_path, "trace.db")) == []
