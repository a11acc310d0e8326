"""Retries with a changed request: without a parameter, without state, or with a larger context."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import AttemptConfig
from tests.support.failing_providers import (
    STREAMED_AND_WHOLE,
    A,
    B,
    error,
    failover_gateway,
    read_attempts,
)
from tests.support.shared_gateway import UVLOOP
from tests.support.traces import read_trace
from tests.support.upstream import Connection, ReceivedRequest, Script

REFUSED_TOP_P = error(400, "Unsupported parameter: 'top_p'", param="top_p")
REFUSED_USER = error(400, "unknown field: user")
HEADER = "antiphon-diagnostics"


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


# Without a parameter


@STREAMED_AND_WHOLE
async def test_a_rejected_parameter_is_left_out_from_then_on(tmp_path: Path, stream: bool) -> None:
    async with failover_gateway(tmp_path, [REFUSED_TOP_P]) as setup:
        first = await setup.post_request(top_p=0.5, temperature=0.5, stream=stream)
        second = await setup.post_request(top_p=0.25, stream=stream)
        assert first.text == second.text == "Hello, world"
        assert setup.new_calls == [A, A, B]
        assert [body.get("top_p") for body in setup.sent()] == [0.5, None, None]
        assert setup.sent()[1]["temperature"] == 0.5
    for answer in (first, second):
        assert "param.refused" in answer.headers[HEADER]
        detail = read_trace(setup.trace, answer.headers["x-request-id"])
        assert [(d.code, d.param) for d in detail.diagnostics] == [("param.refused", "top_p")]
    assert [fault for *_, fault in read_attempts(setup, first)] == ["invalid_request", None]


async def test_a_rejected_parameter_is_remembered_for_one_model(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, [REFUSED_TOP_P]) as setup:
        await setup.post_request(top_p=0.5)
        answer = await setup.post_request(top_p=0.5, model="one/other")
        assert setup.sent()[-1]["top_p"] == 0.5
        assert HEADER not in answer.headers


async def test_a_request_is_changed_once_but_rejections_accumulate(tmp_path: Path) -> None:
    body = {"top_p": 0.5, "user": "u"}
    async with failover_gateway(tmp_path, [REFUSED_TOP_P, REFUSED_USER, REFUSED_USER]) as setup:
        assert (await setup.post_request(**body)).status == 400
        assert (await setup.post_request(**body)).text == "Hello, world"
        assert (await setup.post_request(**body)).text == "Hello, world"
        sent_names = [[name for name in body if name in sent] for sent in setup.sent()]
        assert sent_names == [["top_p", "user"], ["user"], ["user"], [], []]


async def test_a_rejected_value_is_not_remembered(tmp_path: Path) -> None:
    script = error(400, "temperature must be between 0 and 1")
    async with failover_gateway(tmp_path, [script]) as setup:
        answer = await setup.post_request(temperature=1.5)
        assert (answer.text, "param.refused" in answer.headers[HEADER]) == ("Hello, world", True)
        assert HEADER not in (await setup.post_request(temperature=0.5)).headers
        assert [body.get("temperature") for body in setup.sent()] == [1.5, None, 0.5]


async def test_a_rejected_parameter_is_sent_under_its_newer_name(tmp_path: Path) -> None:
    script = error(400, "'max_tokens' is not supported, use 'max_completion_tokens' instead")
    async with failover_gateway(tmp_path, [script]) as setup:
        assert (await setup.post_request(max_output_tokens=99)).text == "Hello, world"
        assert "max_tokens" not in setup.sent()[1]
        assert setup.sent()[1]["max_completion_tokens"] == 99


@pytest.mark.parametrize(
    "message", ["messages: something is wrong", "the model cannot do this", "stream must be a bool"]
)
async def test_a_rejected_parameter_that_cannot_be_left_out_is_an_error(
    tmp_path: Path, message: str
) -> None:
    async with failover_gateway(tmp_path, [error(400, message)]) as setup:
        answer = await setup.post_request(top_p=0.5)
        assert (answer.status, answer.error["code"]) == (400, "invalid_prompt")
        assert setup.new_calls == [A]


async def test_a_rejection_inside_a_200_is_remembered_too(tmp_path: Path) -> None:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        refusal = {"message": "top_p is not supported", "code": 400, "param": "top_p"}
        await connection.send(b"data: " + json.dumps({"error": refusal}).encode() + b"\n\n")
        await connection.end()

    async with failover_gateway(tmp_path, [script]) as setup:
        answer = await setup.post_request(top_p=0.5, stream=True)
        assert (answer.text, setup.new_calls) == ("Hello, world", [A, A])
        assert "top_p" not in setup.sent()[1]


# Without a memory

REMEMBERED: list[dict[str, Any]] = [
    {"role": "user", "content": "Hello?"},
    {"type": "reasoning", "summary": [], "encrypted_content": "not ours"},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "Go on."},
]
REFUSED_STATES = (
    error(400, "Invalid `signature` in `thinking` block"),
    error(400, "thought_signature is not valid", status="INVALID_ARGUMENT"),
    error(400, "The encrypted content could not be verified", code="invalid_encrypted_content"),
)


@pytest.mark.parametrize("script", REFUSED_STATES)
async def test_rejected_reasoning_state_is_left_out_once(tmp_path: Path, script: Script) -> None:
    async with failover_gateway(tmp_path, [script]) as setup:
        answer = await setup.post_request(input=REMEMBERED, stream=True)
        assert (answer.text, setup.new_calls) == ("Hello, world", [A, A])
        assert "capsule.unused" in answer.headers[HEADER]
        assert "refused" in answer.headers[HEADER]


async def test_reasoning_state_rejected_twice_is_an_error(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, [REFUSED_STATES[0]] * 2) as setup:
        answer = await setup.post_request(input=REMEMBERED)
        assert (answer.status, answer.error["code"]) == (400, "server_error")
        assert setup.new_calls == [A, A]
        await setup.post_request()
        assert setup.new_calls == [B]


# With more room

TOO_LONG = (
    error(400, "This model's maximum context length is 8192 tokens"),
    error(400, code="context_length_exceeded"),
    error(413),
)
ROOMS = {"one": 8_000, "two": 64_000}


@STREAMED_AND_WHOLE
@pytest.mark.parametrize("script", TOO_LONG)
async def test_a_context_overflow_falls_back_to_a_larger_context_window(
    tmp_path: Path, script: Script, stream: bool
) -> None:
    async with failover_gateway(tmp_path, [script], windows=ROOMS) as setup:
        answer = await setup.post_request(stream=stream)
        assert answer.text == "Hello, world"
        assert [name for name, _ in setup.new_calls] == ["one", "two"]


@pytest.mark.parametrize(
    "windows", [{}, {"one": 8_000}, {"one": 8_000, "two": 8_000}, {"one": 64_000, "two": 8_000}]
)
@pytest.mark.parametrize("script", TOO_LONG)
async def test_a_context_overflow_everywhere_is_reported_inside_the_stream(
    tmp_path: Path, script: Script, windows: dict[str, int]
) -> None:
    """Clients compact a thread only if the error is inside the stream."""
    async with failover_gateway(tmp_path, [script], windows=windows) as setup:
        answer = await setup.post_request(stream=True)
        assert [name for name, _ in setup.new_calls] == ["one"]
    assert [event["type"] for event in answer.events] == [
        "response.created",
        "response.in_progress",
        "response.failed",
    ]
    assert answer.error["code"] == "context_length_exceeded"


@pytest.mark.parametrize("script", TOO_LONG)
async def test_a_context_overflow_of_a_whole_answer_is_an_http_error(
    tmp_path: Path, script: Script
) -> None:
    async with failover_gateway(tmp_path, [script]) as setup:
        answer = await setup.post_request()
        assert (answer.status, answer.error["code"]) == (400, "context_length_exceeded")


async def test_a_context_overflow_of_both_is_reported_by_the_larger_model(tmp_path: Path) -> None:
    script = TOO_LONG[0]
    async with failover_gateway(tmp_path, [script], [script], windows=ROOMS) as setup:
        answer = await setup.post_request(stream=True)
        assert [name for name, _ in setup.new_calls] == ["one", "two"]
    assert answer.error["code"] == "context_length_exceeded"


async def test_a_changed_request_counts_as_an_attempt(tmp_path: Path) -> None:
    policy = AttemptConfig(max_attempts=1)
    async with failover_gateway(tmp_path, [REFUSED_TOP_P], policy=policy) as setup:
        assert (await setup.post_request(top_p=0.5)).status == 400
