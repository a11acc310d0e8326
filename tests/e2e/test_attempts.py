"""Every kind of fault through the real server: the attempts that follow, and the client's error.

The rows are those of the fault table: what is asked again with the same key, what turns to another
key, what goes to the next provider, and what is the answer at once. Each is met twice: by a request
that somebody else can answer, and by one that nobody can. Two rows have a page of their own: what
is too long (`test_attempts_changed`), and clients that leave (`test_attempts_commit`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.failing_providers import (
    NO_FALLBACKS,
    STREAMED_AND_WHOLE,
    TWO,
    A,
    B,
    error,
    failover_gateway,
    read_attempts,
)
from tests.support.shared_gateway import UVLOOP
from tests.support.upstream import (
    HELLO,
    Connection,
    ReceivedRequest,
    Script,
    frame,
    send_frames,
    send_json,
)


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@dataclass(frozen=True)
class Case:
    """A misbehaviour; the way of a request that always meets it at the first provider, without
    anybody to fall back to; and what its client is told in the end."""

    script: Script
    calls: Sequence[tuple[str, str]]
    status: int
    code: str
    fault: str
    slept: Sequence[float] = ()
    falls_back: bool = True
    body: dict[str, Any] = field(default_factory=dict)


async def reset(request: ReceivedRequest, connection: Connection) -> None:
    connection.reset()


async def closed(request: ReceivedRequest, connection: Connection) -> None:
    connection.cut()


async def send_unreadable(request: ReceivedRequest, connection: Connection) -> None:
    if request.body.get("stream"):
        await send_frames([b"data: {broken\n\n"])(request, connection)
    else:
        await connection.head(content_type="application/json")
        await connection.send(b"{broken")
        await connection.end()


async def end_without_output(request: ReceivedRequest, connection: Connection) -> None:
    """End the stream without output or finish reason."""
    if request.body.get("stream"):
        await send_frames(HELLO[:1])(request, connection)
    else:
        await send_json(200, {"id": "c1", "choices": []})(request, connection)


async def break_first_frame(request: ReceivedRequest, connection: Connection) -> None:
    """Break the connection inside the first frame."""
    await connection.head()
    await connection.send(HELLO[1][:20])
    connection.cut()


def error_in_stream(status: int, **more: Any) -> Script:
    """Answer 200 with only an error inside."""
    document = {"error": {"message": "No.", "code": status, **more}}

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        if request.body.get("stream"):
            await send_frames([frame(document)])(request, connection)
        else:
            await send_json(200, document)(request, connection)

    return script


EXHAUSTED = {"status": "RESOURCE_EXHAUSTED", "code": 429}
THOUGHT = [
    {"role": "user", "content": "Hello?"},
    {"type": "reasoning", "summary": [], "encrypted_content": "not ours"},
    {"role": "user", "content": "Go on."},
]

CASES = {
    # 1: the line
    "reset before bytes": Case(reset, [A] * 3, 502, "server_error", "connection", (1, 2)),
    "closed before bytes": Case(closed, [A] * 3, 502, "server_error", "connection", (1, 2)),
    # 2: too late
    "408": Case(error(408), [A] * 2, 504, "server_error", "timeout", (1,)),
    "504": Case(error(504), [A] * 2, 504, "server_error", "timeout", (1,)),
    # 3: too often
    "429": Case(error(429), [A, B], 429, "rate_limit_exceeded", "rate_limit"),
    "exhausted": Case(error(429, **EXHAUSTED), [A, B], 429, "rate_limit_exceeded", "rate_limit"),
    "429 inside a 200": Case(
        error_in_stream(429), [A, B], 429, "rate_limit_exceeded", "rate_limit"
    ),
    # 4: unpaid
    "402": Case(error(402), [A, B], 429, "insufficient_quota", "billing"),
    "429 about a balance": Case(
        error(429, "Insufficient balance"), [A, B], 429, "insufficient_quota", "billing"
    ),
    # 5, 6: not with this key
    "401": Case(error(401), [A, B], 502, "server_error", "auth"),
    "403": Case(error(403), [A, B], 502, "server_error", "permission"),
    # 7: not this model
    "404": Case(error(404, code="model_not_found"), [A], 404, "model_not_found", "model_error"),
    # 8: not like this
    "400": Case(error(400), [A], 400, "invalid_prompt", "invalid_request", (), False),
    "422": Case(error(422), [A], 400, "invalid_prompt", "invalid_request", (), False),
    # 10: not this
    "blocked": Case(
        error(400, code="content_filter"),
        [A],
        400,
        "invalid_prompt",
        "content_blocked",
        falls_back=False,
    ),
    # 11: too busy
    "500": Case(error(500), [A] * 3, 503, "server_error", "api_error", (1, 2)),
    "502": Case(error(502), [A] * 3, 503, "server_error", "provider_overloaded", (1, 2)),
    "503": Case(
        error(503),
        [A] * 3,
        503,
        "server_is_overloaded",
        "provider_overloaded",
        (1, 2),
    ),
    "529": Case(
        error(529),
        [A] * 3,
        503,
        "server_is_overloaded",
        "provider_overloaded",
        (1, 2),
    ),
    "500 inside a 200": Case(
        error_in_stream(500), [A] * 3, 503, "server_error", "api_error", (1, 2)
    ),
    # 12: gibberish
    "unreadable": Case(send_unreadable, [A] * 2, 502, "server_error", "protocol", (1,)),
    "wordless": Case(end_without_output, [A] * 2, 502, "server_error", "protocol", (1,)),
    # 13: not with this memory
    "signature": Case(
        error(400, "Invalid `signature` in `thinking` block"),
        [A, A],
        400,
        "server_error",
        "invalid_request",
        falls_back=False,
        body={"input": THOUGHT},
    ),
}
EACH = pytest.mark.parametrize("case", [pytest.param(CASES[name], id=name) for name in CASES])


@STREAMED_AND_WHOLE
@EACH
async def test_a_persistent_fault_is_reported_after_the_last_attempt(
    tmp_path: Path, case: Case, stream: bool
) -> None:
    async with failover_gateway(tmp_path, [case.script] * 4, fallbacks=NO_FALLBACKS) as setup:
        answer = await setup.post_request(stream=stream, **case.body)
        assert setup.new_calls == case.calls
        assert (answer.status, answer.error["code"]) == (case.status, case.code)
        assert setup.clock.slept == [*case.slept]
        assert not setup.gateway.engine.active
    numbers = {"sk-one-a": "key 1", "sk-one-b": "key 2"}
    assert read_attempts(setup, answer) == [
        (number, provider, numbers[key], case.fault)
        for number, (provider, key) in enumerate(case.calls, 1)
    ]


@EACH
async def test_a_fallback_serves_what_the_first_provider_cannot(tmp_path: Path, case: Case) -> None:
    async with failover_gateway(tmp_path, [case.script] * 4) as setup:
        answer = await setup.post_request(stream=True, **case.body)
        assert setup.new_calls == ([*case.calls, TWO] if case.falls_back else case.calls)
        assert answer.status == (200 if case.falls_back else case.status)
        if case.falls_back:
            assert answer.text == "Hello, world"
    last = read_attempts(setup, answer)[-1]
    assert last[1:] == (("two", "key 1", None) if case.falls_back else (*last[1:3], case.fault))


@EACH
async def test_a_transient_fault_is_retried(tmp_path: Path, case: Case) -> None:
    """Only for faults that are retried at the same provider."""
    async with failover_gateway(tmp_path, [case.script], fallbacks=NO_FALLBACKS) as setup:
        answer = await setup.post_request(**case.body)
        assert setup.new_calls == case.calls[:2]
        assert answer.status == (200 if len(case.calls) > 1 else case.status)


# Lines that never come about


@contextmanager
def refused_url() -> Iterator[str]:
    """A URL with no server behind it."""
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    yield f"http://127.0.0.1:{port}/v1"


@STREAMED_AND_WHOLE
async def test_a_refused_connection_is_retried_and_then_falls_back(
    tmp_path: Path, stream: bool
) -> None:
    with refused_url() as url:
        async with failover_gateway(tmp_path, urls={"one": url}) as setup:
            answer = await setup.post_request(stream=stream)
            assert (answer.text, setup.new_calls) == ("Hello, world", [TWO])
            assert setup.clock.slept == [1, 2]
        faults = [fault for _, _, _, fault in read_attempts(setup, answer)]
        assert faults == ["connection"] * 3 + [None]


@STREAMED_AND_WHOLE
async def test_a_tls_failure_is_a_connection_fault(tmp_path: Path, stream: bool) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server, failover_gateway(tmp_path, urls={"one": url}) as setup:
        answer = await setup.post_request(stream=stream)
        assert (answer.text, setup.new_calls) == ("Hello, world", [TWO])
    assert read_attempts(setup, answer)[0][3] == "connection"


@STREAMED_AND_WHOLE
async def test_a_connection_that_breaks_before_output_is_a_connection_fault(
    tmp_path: Path, stream: bool
) -> None:
    async with failover_gateway(tmp_path, [break_first_frame]) as setup:
        answer = await setup.post_request(stream=stream)
        assert (answer.text, setup.new_calls) == ("Hello, world", [A, A])
    assert read_attempts(setup, answer)[0][3] == "connection"
