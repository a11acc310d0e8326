"""Errors of Chat Completions: their types, statuses and words."""

from __future__ import annotations

import json

from antiphon.core.faults.fault import fault_of_kind
from antiphon.core.faults.kinds import FaultKind
from antiphon.core.response import Response, ResponseError
from antiphon.dialects.chat.errors import render_error, render_failure, stream_error
from antiphon.dialects.client_dialect import fault_problem
from tests.support.tables import table


@table(
    ("error", "status", "kind", "code"),
    [
        (
            ResponseError("rate_limit_exceeded", "m"),
            429,
            "rate_limit_error",
            "rate_limit_exceeded",
        ),
        (ResponseError("insufficient_quota", "m"), 429, "insufficient_quota", "insufficient_quota"),
        (ResponseError("invalid_prompt", "m"), 400, "invalid_request_error", "invalid_prompt"),
        (
            ResponseError("context_length_exceeded", "m"),
            400,
            "invalid_request_error",
            "context_length_exceeded",
        ),
        (
            ResponseError("server_is_overloaded", "m"),
            503,
            "server_error",
            "server_is_overloaded",
        ),
        (ResponseError("server_error", "m"), 502, "server_error", "server_error"),
        (None, 502, "server_error", "server_error"),
    ],
)
def test_a_response_that_failed_is_an_error(
    error: ResponseError | None, status: int, kind: str, code: str
) -> None:
    reply = render_failure(
        Response(id="resp_1", created_at=0, model="m", status="failed", error=error)
    )
    shown = json.loads(reply.body)["error"]
    assert (reply.status, shown["type"], shown["code"]) == (status, kind, code)
    assert (reply.headers.get("x-should-retry") == "false") is (status == 400)


@table(
    ("reported", "shown"),
    [
        (
            "prompt is too long: 210,000 tokens > 200000 maximum",
            "This model's maximum context length is 200000 tokens. However, your messages resulted"
            " in 210000 tokens. Please reduce the length of the messages.",
        ),
        (
            "too big",
            "This model's maximum context length is exceeded: please reduce the length of the"
            " messages. Described.",
        ),
    ],
)
def test_an_overflow_has_the_words_by_which_agents_compact(reported: str, shown: str) -> None:
    """LiteLLM knows `This model's maximum context length is`, pi and Continue also `reduce the
    length of the messages`."""
    fault = fault_of_kind(FaultKind.CONTEXT_LENGTH, reported)
    reply = render_error(fault_problem(fault, "Described."))
    error = json.loads(reply.body)["error"]
    assert (reply.status, error["code"]) == (400, "context_length_exceeded")
    assert error["message"] == shown
    failed = Response(
        id="resp_1",
        created_at=0,
        model="m",
        status="failed",
        error=ResponseError("context_length_exceeded", "Described."),
    )
    assert "maximum context length" in json.loads(render_failure(failed).body)["error"]["message"]


@table(
    ("code", "kind", "begin"),
    [
        ("rate_limit_exceeded", "rate_limit_error", "m"),
        ("context_length_exceeded", "invalid_request_error", "This model's maximum context"),
        ("server_error", "server_error", "m"),
    ],
)
def test_a_failure_in_a_stream_has_the_type_and_the_words_of_its_code(
    code: str, kind: str, begin: str
) -> None:
    failed = Response(id="r", created_at=0, model="m", error=ResponseError(code, "m"))
    data = stream_error(failed)
    error = json.loads(data.decode().strip().removeprefix("data: "))["error"]
    assert (error["type"], error["code"], error["param"]) == (kind, code, None)
    assert error["message"].startswith(begin)
