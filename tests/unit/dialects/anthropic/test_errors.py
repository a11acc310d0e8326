"""Errors of Messages: the status, the type and the headers that make its clients act."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.faults.fault import fault_of_kind
from antiphon.core.faults.kinds import FaultKind
from antiphon.core.response import Response, ResponseError
from antiphon.dialects.anthropic.errors import render_error, render_failure, stream_error
from antiphon.dialects.client_dialect import Problem, fault_problem, request_problem
from antiphon.errors import ChainNotFound, InvalidRequest, LimitExceeded
from tests.support.tables import table

K = FaultKind


def of_fault(kind: FaultKind, message: str = "m") -> tuple[int, dict[str, Any], dict[str, str]]:
    return of(fault_problem(fault_of_kind(kind, message), "Described."))


def of(problem: Problem) -> tuple[int, dict[str, Any], dict[str, str]]:
    reply = render_error(problem)
    body = json.loads(reply.body)
    assert body["type"] == "error"
    assert reply.headers["content-type"] == "application/json"
    return reply.status, body["error"], dict(reply.headers)


@table(
    ("kind", "status", "name"),
    [
        (K.INVALID_REQUEST, 400, "invalid_request_error"),
        (K.INVALID_IMAGE, 400, "invalid_request_error"),
        (K.AUTH, 502, "api_error"),
        (K.PERMISSION, 502, "api_error"),
        (K.MODEL, 404, "not_found_error"),
        (K.NOT_FOUND, 404, "not_found_error"),
        (K.CONTEXT_LENGTH, 400, "invalid_request_error"),
        (K.RATE_LIMIT, 429, "rate_limit_error"),
        (K.BILLING, 402, "billing_error"),
        (K.MODEL_QUOTA, 402, "billing_error"),
        (K.OVERLOADED, 529, "overloaded_error"),
        (K.SHUTDOWN, 529, "overloaded_error"),
        (K.OUT_OF_FILES, 529, "overloaded_error"),
        (K.IDLE_TIMEOUT, 504, "timeout_error"),
        (K.UPSTREAM_TIMEOUT, 504, "timeout_error"),
        (K.CONNECTION_FAILED, 502, "api_error"),
        (K.SERVER_ERROR, 502, "api_error"),
        (K.BAD_GATEWAY, 502, "api_error"),
        (K.INVALID_CHUNK, 502, "api_error"),
        (K.RESPONSE_TOO_LARGE, 502, "api_error"),
        (K.INTERNAL, 500, "api_error"),
        (K.CONTENT_BLOCKED, 400, "invalid_request_error"),
    ],
)
def test_a_fault_has_the_type_of_the_format(kind: FaultKind, status: int, name: str) -> None:
    found, error, _ = of_fault(kind)
    assert (found, error["type"]) == (status, name)


@table(
    ("kind", "is_final"),
    [(K.AUTH, True), (K.INVALID_REQUEST, True), (K.OVERLOADED, False), (K.RATE_LIMIT, False)],
)
def test_a_retry_in_vain_is_named_as_such(kind: FaultKind, is_final: bool) -> None:
    _, _, headers = of_fault(kind)
    assert (headers.get("x-should-retry") == "false") is is_final


@table(
    ("sent", "shown"),
    [
        (
            "prompt is too long: 210,000 tokens > 200000 maximum",
            "prompt is too long: 210000 tokens > 200000 maximum",
        ),
        (
            "This model's maximum context length is 128000 tokens. However, your messages resulted"
            " in 130001 tokens.",
            "prompt is too long: 130001 tokens > 128000 maximum",
        ),
        ("too big", "prompt is too long: Described."),
    ],
)
def test_an_overflow_has_the_words_by_which_clients_compact(sent: str, shown: str) -> None:
    _, error, _ = of_fault(K.CONTEXT_LENGTH, sent)
    assert error["message"] == shown


@table(
    ("problem", "status", "name", "is_final"),
    [
        (Problem(status=400, message="m"), 400, "invalid_request_error", False),
        (Problem(status=401, message="m"), 401, "authentication_error", True),
        (Problem(status=403, message="m"), 403, "permission_error", True),
        (Problem(status=404, message="m"), 404, "not_found_error", False),
        (Problem(status=413, message="m"), 413, "request_too_large", False),
        (Problem(status=429, message="m"), 429, "rate_limit_error", False),
        (Problem(status=429, message="m", is_permanent=True), 429, "billing_error", True),
        (Problem(status=500, message="m"), 500, "api_error", False),
        (Problem(status=501, message="m"), 501, "not_supported", True),
        (Problem(status=503, message="m"), 529, "overloaded_error", False),
        (Problem(status=418, message="m"), 418, "invalid_request_error", False),
    ],
)
def test_a_problem_of_the_gateway_has_a_type(
    problem: Problem, status: int, name: str, is_final: bool
) -> None:
    found, error, headers = of(problem)
    assert (found, error) == (status, {"type": name, "message": "m"})
    assert ("x-should-retry" in headers) is is_final


def test_an_error_names_its_request() -> None:
    reply = render_error(Problem(status=400, message="m", request_id="req_1"))
    assert json.loads(reply.body)["request_id"] == "req_1"
    assert "request_id" not in json.loads(render_error(Problem(status=400, message="m")).body)


def test_a_delay_is_in_whole_seconds() -> None:
    _, _, headers = of(Problem(status=429, message="m", retry_after_s=1.2))
    assert headers["retry-after"] == "2"
    assert "retry-after-ms" not in headers


def test_a_limit_of_the_client_keeps_its_headers() -> None:
    limit = LimitExceeded(
        "Spent.",
        code="insufficient_quota",
        kind="insufficient_quota",
        headers={"retry-after": "60"},
        permanent=True,
    )
    status, error, headers = of(request_problem(limit))
    assert (status, error["type"]) == (429, "billing_error")
    assert (headers["retry-after"], headers["x-should-retry"]) == ("60", "false")


def test_a_thread_that_cannot_be_continued_has_the_code_of_the_sdk() -> None:
    _, error, _ = of(request_problem(ChainNotFound("resp_1")))
    assert error["details"] == {"error_code": "thread_not_found"}
    assert "'msg_1'" in error["message"]
    refused = InvalidRequest("No store.", param="thread", code="thread_unsupported_request")
    _, error, _ = of(request_problem(refused))
    assert error["details"] == {"error_code": "thread_unsupported_request"}


@table(
    ("code", "name"),
    [
        ("rate_limit_exceeded", "rate_limit_error"),
        ("insufficient_quota", "billing_error"),
        ("invalid_prompt", "invalid_request_error"),
        ("server_is_overloaded", "overloaded_error"),
        ("server_error", "api_error"),
    ],
)
def test_a_failure_in_a_stream_has_a_type(code: str, name: str) -> None:
    data = stream_error(code, "m").decode()
    assert data.startswith("event: error\ndata: {")
    error = json.loads(data.split("data: ")[1])["error"]
    assert error == {"type": name, "message": "m"}


def test_an_overflow_in_a_stream_has_the_words() -> None:
    error = json.loads(stream_error("context_length_exceeded", "m").decode().split("data: ")[1])
    assert error["error"]["message"] == "prompt is too long: m"


@table(
    ("error", "status", "name"),
    [
        (ResponseError("rate_limit_exceeded", "m"), 429, "rate_limit_error"),
        (ResponseError("context_length_exceeded", "m"), 400, "invalid_request_error"),
        (ResponseError("server_error", "m"), 502, "api_error"),
        (None, 502, "api_error"),
    ],
)
def test_a_whole_response_that_failed_is_an_error(
    error: ResponseError | None, status: int, name: str
) -> None:
    response = Response(id="resp_1", created_at=0, model="m", status="failed", error=error)
    reply = render_failure(response)
    assert (reply.status, json.loads(reply.body)["error"]["type"]) == (status, name)
