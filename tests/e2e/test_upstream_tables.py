"""The tables of misbehaving upstreams, for clients of every format, streamed and whole.

The tables are those of the tests for Responses. Each row runs once for each format: all clients see
the same content and one end, or an HTTP error of the status and type that their SDKs act on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from antiphon.config import TimeoutConfig
from tests.e2e.test_upstream_disconnects import RECORDED, disconnect_after
from tests.e2e.test_upstream_failures import (
    FAILURES,
    MINIMAX_ARREARS,
    NONSENSE,
    OPENAI,
    TOO_LONG,
    raw_answer,
)
from tests.e2e.test_upstream_formats import SCENARIOS, see
from tests.e2e.test_upstream_framing import BROKEN, JSON, STREAM, break_chunks
from tests.e2e.test_upstream_timers import OPEN_CONNECTIONS, repeat_frame, stall_after
from tests.support.corpus import ABSENT
from tests.support.format_judges import FORMATS, Seen
from tests.support.shared_gateway import UVLOOP, SharedGateway, open_shared_gateway
from tests.support.upstream import (
    DONE,
    HELLO,
    HELLO_WORLD,
    Script,
    frame,
    send_frames,
    send_json,
    whole_answer,
)
from tests.support.waiting import LIMIT_S

ERROR = Seen(0, "error")
streamed_and_whole = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@pytest.fixture(scope="module")
async def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedGateway]:
    async with open_shared_gateway(tmp_path_factory.mktemp("tables")) as shared_gateway:
        yield shared_gateway


async def see_all(shared: SharedGateway, script: Script, *, stream: bool = True) -> Seen:
    """Ask in every format; return what all of their clients see."""
    async with asyncio.timeout(LIMIT_S):
        seen = {each: await see(shared, script, each, stream=stream) for each in FORMATS}
    assert seen["chat"] == seen["messages"] == seen["responses"]
    return seen["chat"]


# --- HTTP errors ----------------------------------------------------------------------------------


class Expected(NamedTuple):
    """Status and type of Messages, status and code of Chat Completions, and whether to try again"""

    messages: tuple[int, str]
    chat: tuple[int, str]
    is_final: bool = False


INVALID = Expected((400, "invalid_request_error"), (400, "invalid_prompt"), is_final=True)
BILLING = Expected((402, "billing_error"), (429, "insufficient_quota"))
NO_KEY = Expected((502, "api_error"), (502, "server_error"), is_final=True)
NO_MODEL = Expected((404, "not_found_error"), (404, "model_not_found"), is_final=True)
NOT_FOUND = Expected((404, "not_found_error"), (404, "invalid_prompt"), is_final=True)
TIMEOUT = Expected((504, "timeout_error"), (504, "server_error"))
LIMITED = Expected((429, "rate_limit_error"), (429, "rate_limit_exceeded"))
OVERLOADED = Expected((529, "overloaded_error"), (503, "server_is_overloaded"))
BROKEN_SERVER = Expected((502, "api_error"), (503, "server_error"))
EXPECTED: Mapping[str, Expected] = {
    "400": INVALID,
    "400 by balance": BILLING,
    "400 by model": NO_MODEL,
    "401": NO_KEY,
    "402": BILLING,
    "403": NO_KEY,
    "404": NOT_FOUND,
    "404 by model": NO_MODEL,
    "408": TIMEOUT,
    "422": INVALID,
    "429": LIMITED,
    "429 by balance": BILLING,
    "429 by load": OVERLOADED,
    "500": BROKEN_SERVER,
    "500 by balance": BILLING,
    "502": BROKEN_SERVER,
    "503": OVERLOADED,
    "504": TIMEOUT,
    "529": OVERLOADED,
}


async def fail(
    shared: SharedGateway, script: Script, format: str, *, stream: bool
) -> tuple[int, dict[str, Any], Mapping[str, str]]:
    spoken, gateway = FORMATS[format], shared.gateway
    body = {"model": shared.add_script(script), "stream": stream, **spoken.body}
    async with gateway.client.post(gateway.base_url + spoken.path, json=body) as answer:
        return answer.status, (await answer.json())["error"], answer.headers


def test_every_status_of_the_table_is_expected() -> None:
    assert EXPECTED.keys() == FAILURES.keys()


@streamed_and_whole
@pytest.mark.parametrize("name", FAILURES)
async def test_a_status_of_the_provider_is_that_of_the_format(
    shared_gateway: SharedGateway, name: str, stream: bool
) -> None:
    given, body, _, _ = FAILURES[name]
    expected, script = EXPECTED[name], send_json(given, body)
    status, error, headers = await fail(shared_gateway, script, "messages", stream=stream)
    assert (status, error["type"]) == expected.messages
    assert (headers.get("x-should-retry") == "false") is expected.is_final
    status, error, headers = await fail(shared_gateway, script, "chat", stream=stream)
    assert (status, error["code"]) == expected.chat
    assert (headers.get("x-should-retry") == "false") is expected.is_final


@streamed_and_whole
@pytest.mark.parametrize(("given", "seconds"), [("7", "7"), ("0.2", "1"), ("2.4", "3")])
async def test_a_delay_of_the_provider_is_in_whole_seconds(
    shared_gateway: SharedGateway, given: str, seconds: str, stream: bool
) -> None:
    script = send_json(429, OPENAI, retry_after=given)
    for format in ("messages", "chat"):
        status, _, headers = await fail(shared_gateway, script, format, stream=stream)
        assert (status, headers["retry-after"]) == (429, seconds)


WORDS = {"messages": "prompt is too long", "chat": "context"}


@streamed_and_whole
@pytest.mark.parametrize(
    "script",
    [send_json(413, OPENAI), send_json(400, TOO_LONG), send_frames((frame(TOO_LONG), DONE))],
    ids=["413", "400", "within a 200"],
)
@pytest.mark.parametrize("format", WORDS)
async def test_a_context_that_is_too_long_is_named_before_the_first_byte(
    shared_gateway: SharedGateway, format: str, script: Script, stream: bool
) -> None:
    status, error, headers = await fail(shared_gateway, script, format, stream=stream)
    assert status == 400
    assert WORDS[format] in error["message"]
    assert headers["x-should-retry"] == "false"
    assert error.get("code", "context_length_exceeded") == "context_length_exceeded"


# --- what is no response --------------------------------------------------------------------------


@streamed_and_whole
@pytest.mark.parametrize("data", NONSENSE.values(), ids=NONSENSE)
async def test_an_unreadable_body_is_an_error(
    shared_gateway: SharedGateway, data: bytes, stream: bool
) -> None:
    assert await see_all(shared_gateway, raw_answer(data), stream=stream) == ERROR


@streamed_and_whole
@pytest.mark.parametrize("body", [OPENAI, MINIMAX_ARREARS], ids=["error", "base_resp"])
async def test_an_error_with_status_200_is_an_error(
    shared_gateway: SharedGateway, body: Any, stream: bool
) -> None:
    assert await see_all(shared_gateway, send_json(200, body), stream=stream) == ERROR
    first = send_frames((frame(body), DONE))
    assert await see_all(shared_gateway, first, stream=stream) == ERROR


@streamed_and_whole
@pytest.mark.parametrize("broken", BROKEN)
async def test_broken_chunks_before_output_are_an_error(
    shared_gateway: SharedGateway, broken: str, stream: bool
) -> None:
    script = break_chunks(b'{"id": "c1", ', broken=BROKEN[broken], kind=STREAM if stream else JSON)
    assert await see_all(shared_gateway, script, stream=stream) == ERROR


@pytest.mark.parametrize("broken", BROKEN)
async def test_broken_chunks_after_output_end_the_stream_with_an_error(
    shared_gateway: SharedGateway, broken: str
) -> None:
    script = break_chunks(*HELLO, broken=BROKEN[broken])
    seen = await see_all(shared_gateway, script)
    assert (seen.end, seen.text) == ("error", "Hello")


# --- whole bodies, and streams in their place -----------------------------------------------------


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_whole_response_has_the_same_end_in_every_format(
    shared_gateway: SharedGateway, name: str
) -> None:
    """The provider streams though it was not asked to: its stream may be anything."""
    script = send_frames(SCENARIOS[name])
    whole = await see_all(shared_gateway, script, stream=False)
    streamed = await see_all(shared_gateway, script)
    assert whole.end == streamed.end
    assert whole.end == "error" or whole.text == streamed.text


@streamed_and_whole
async def test_a_whole_body_and_a_stream_are_read_whichever_was_asked_for(
    shared_gateway: SharedGateway, stream: bool
) -> None:
    whole = await see_all(shared_gateway, send_json(200, whole_answer("Hello")), stream=stream)
    parts = await see_all(shared_gateway, send_frames(HELLO_WORLD), stream=stream)
    assert (whole.end, whole.text) == ("stop", "Hello")
    assert (parts.end, parts.text) == ("stop", "Hello, world")


@pytest.mark.parametrize("ending", ["end", "cut", "reset"])
async def test_a_whole_body_that_is_cut_is_an_error(
    shared_gateway: SharedGateway, ending: str
) -> None:
    body = b'{"id": "c", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi'
    for size in (0, 1, 20, len(body)):
        frames = [body[:size]] if size else []
        script = disconnect_after(frames, ending, content_type="application/json")
        assert await see_all(shared_gateway, script, stream=False) == ERROR, size


# --- cuts and timeouts ----------------------------------------------------------------------------


@pytest.mark.skipif(not RECORDED, reason=ABSENT)
@pytest.mark.parametrize("ending", ["end", "cut"])
@pytest.mark.parametrize("name", RECORDED)
async def test_a_recording_cut_at_any_chunk_ends_alike_in_every_format(
    shared_gateway: SharedGateway, name: str, ending: str
) -> None:
    frames = RECORDED[name]
    for count in range(0, len(frames) + 1, 3):
        await see_all(shared_gateway, disconnect_after(frames[:count], ending))
    assert not shared_gateway.gateway.engine.active


@pytest.mark.parametrize(
    ("timeouts", "script", "expected"),
    [
        (TimeoutConfig(first_token_s=0.1), stall_after(head=False), ERROR),
        (TimeoutConfig(first_token_s=0.1), stall_after(), ERROR),
        (TimeoutConfig(first_token_s=0.1), stall_after(b": working\n\n"), ERROR),
        (TimeoutConfig(idle_s=0.1), stall_after(*HELLO), Seen(200, "error", "Hello")),
        (
            TimeoutConfig(idle_s=0.2),
            repeat_frame(HELLO, b": still here\n\n"),
            Seen(200, "error", "Hello"),
        ),
        (TimeoutConfig(total_s=0.5), stall_after(*HELLO), Seen(200, "error", "Hello")),
    ],
    ids=["no head", "no byte", "comments", "idle", "idle with comments", "total"],
)
async def test_a_timeout_is_an_error(
    tmp_path: Path, timeouts: TimeoutConfig, script: Script, expected: Seen
) -> None:
    async with open_shared_gateway(tmp_path, timeouts=timeouts) as shared_gateway:
        assert await see_all(shared_gateway, script) == expected


async def test_a_finished_response_does_not_wait_for_the_connection_to_close(
    shared_gateway: SharedGateway,
) -> None:
    for script in OPEN_CONNECTIONS:
        seen = await see_all(shared_gateway, script)
        assert (seen.end, seen.text) == ("stop", "Hello")
