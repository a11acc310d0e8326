"""Verdicts: one case for each kind of cause, with its evidence and its remedy."""

from __future__ import annotations

from typing import Any

from antiphon.core.faults.kinds import FAULT_KINDS
from antiphon.observe.result import Result, ToolCall
from antiphon.observe.verdict import Cause, explain
from antiphon.store.trace.reader import TraceDetail
from antiphon.store.trace.rows import (
    TraceAttempt,
    TraceError,
    TraceFinish,
    TraceRequest,
    TraceSkip,
    TraceStream,
    TraceUsage,
)
from tests.support.tables import table

ID = "req_1"
REQUEST = TraceRequest(request_id=ID, received_at_ms=0, model="smart", provider="acme")


def attempt(code: str | None = None, number: int = 1, **more: Any) -> TraceAttempt:
    values: dict[str, Any] = {"provider": "acme", "model": "large", "key_name": "key 1", **more}
    if code is not None:
        values |= {"fault_type": str(FAULT_KINDS[code].type), "fault_code": code}
    return TraceAttempt(request_id=ID, number=number, **values)


def failed(code: str, **more: Any) -> TraceDetail:
    """A request whose only attempt failed with this code."""
    error = TraceError(request_id=ID, code=code, message="It failed.", provider="acme")
    values: dict[str, Any] = {"errors": (error,), **more}
    values.setdefault("attempts", (attempt(code),) if code in FAULT_KINDS else (attempt(),))
    return TraceDetail(request=REQUEST, finish=ended("failed"), **values)


def ended(status: str, **more: Any) -> TraceFinish:
    values: dict[str, Any] = {"provider": "acme", "provider_model": "large", **more}
    return TraceFinish(request_id=ID, status=status, duration_ms=306, **values)


def rejected(status: int, code: str = "invalid_value", param: str | None = None) -> TraceDetail:
    error = TraceError(request_id=ID, code=code, message="Not allowed.", param=param)
    finish = TraceFinish(request_id=ID, status="rejected", http_status=status, duration_ms=0)
    return TraceDetail(request=REQUEST, errors=(error,), finish=finish)


FAULTS: dict[str, tuple[Cause, str]] = {
    "connection_failed": ("network", "acme could not be reached"),
    "stream_cut": ("network", "acme could not be reached, or the connection broke"),
    "connect_timeout": ("network", "acme could not be reached in time"),
    "first_token_timeout": ("provider", "acme took too long"),
    "idle_timeout": ("provider", "acme stopped sending"),
    "total_timeout": ("gateway", "within the time that the gateway allows"),
    "upstream_timeout": ("provider", "acme took too long"),
    "rate_limit_exceeded": ("provider", "acme has reached its rate limit"),
    "insufficient_quota": ("provider", "no credit left"),
    "model_quota_exhausted": ("provider", "for large is used up"),
    "invalid_api_key": ("provider", "acme rejected the API key"),
    "permission_denied": ("provider", "does not allow this key to use large"),
    "model_not_found": ("client", "acme does not offer large"),
    "not_found": ("gateway", "no API at the configured address"),
    "invalid_request": ("provider", "rejected the request as invalid"),
    "invalid_image": ("provider", "rejected the request as invalid"),
    "reasoning_rejected": ("provider", "rejected the request as invalid"),
    "context_length_exceeded": ("client", "too long for large"),
    "content_filter": ("provider", "content filter of acme"),
    "overloaded": ("provider", "acme is overloaded"),
    "server_error": ("provider", "acme has an internal error"),
    "bad_gateway": ("provider", "acme is overloaded"),
    "redirected": ("gateway", "redirect"),
    "tool_use_failed": ("model", "large wrote a tool call"),
    "invalid_chunk": ("provider", "cannot be parsed"),
    "response_too_large": ("gateway", "larger than [limits] allows"),
    "cancelled": ("client", "disconnected"),
    "internal_error": ("gateway", "A defect of the gateway"),
    "shutting_down": ("gateway", "restarting"),
    "mcp_list_failed": ("client", "MCP server"),
    "out_of_files": ("gateway", "open files"),
    "out_of_threads": ("gateway", "threads"),
    "api_error": ("provider", "acme refused the request"),
    "unknown": ("provider", "unknown error"),
}


def test_every_kind_of_fault_has_a_case() -> None:
    assert set(FAULTS) == {str(kind) for kind in FAULT_KINDS}


@table("code", FAULTS)
def test_a_fault_has_its_cause_and_a_remedy(code: str) -> None:
    verdict = explain(failed(code))
    assert verdict is not None
    cause, title = FAULTS[code]
    assert verdict.cause == cause
    assert title in verdict.title
    assert verdict.remedy.endswith(".")
    assert code in verdict.evidence[0]


@table(
    "code, cause, title",
    [
        ("incomplete_tool_call", "provider", "within a tool call"),
        ("invalid_tool_arguments", "model", "not valid JSON"),
        ("invalid_output_format", "model", "does not match the requested format"),
    ],
)
def test_a_stream_that_breaks_its_rules_names_the_model_or_the_provider(
    code: str, cause: str, title: str
) -> None:
    verdict = explain(failed(code))
    assert verdict is not None
    assert (verdict.cause, verdict.other_model) == (cause, True)
    assert title in verdict.title


@table(
    "detail, cause, title",
    [
        (rejected(401, "invalid_api_key"), "client", "no key, or one that the gateway"),
        (rejected(403, "forbidden"), "client", "may not do this"),
        (rejected(404, "not_found"), "client", "nothing at this address"),
        (rejected(404, "model_not_found"), "client", "has the model smart"),
        (rejected(413, "request_too_large"), "client", "too large"),
        (rejected(429, "rate_limit_exceeded"), "client", "one of its limits"),
        (rejected(400, param="temperature"), "client", "invalid: `temperature`"),
        (rejected(422), "client", "The request is invalid"),
        (rejected(503, "store_unavailable"), "gateway", "could not serve"),
    ],
)
def test_a_rejection_is_explained_by_its_status(
    detail: TraceDetail, cause: str, title: str
) -> None:
    verdict = explain(detail)
    assert verdict is not None
    assert verdict.cause == cause
    assert title in verdict.title
    assert verdict.evidence[0] == "Not allowed."


def test_a_cut_stream_says_how_much_had_arrived() -> None:
    raw = TraceStream(request_id=ID, kind="raw", chunks=13, size=2000)
    finish = ended("failed", events=9)
    detail = failed("connection_failed", attempts=(attempt(),), streams=(raw,))
    detail = TraceDetail(
        request=detail.request,
        attempts=detail.attempts,
        errors=detail.errors,
        streams=detail.streams,
        finish=finish,
    )
    verdict = explain(detail)
    assert verdict is not None
    assert verdict.cause == "network"
    assert "was cut within the stream" in verdict.title
    assert verdict.evidence == [
        "13 chunks of the provider had arrived, and 9 events were sent to the client within 306 ms."
    ]


def test_the_evidence_lists_attempts_skips_and_the_words_of_the_provider() -> None:
    attempts = tuple(attempt("overloaded", number, status=503) for number in range(1, 7))
    error = TraceError(request_id=ID, code="overloaded", message="m", reason="Try later")
    skip = TraceSkip(request_id=ID, provider="other", model="x", reason="every key is cooling down")
    verdict = explain(failed("overloaded", attempts=attempts, errors=(error,), skipped=(skip,)))
    assert verdict is not None
    assert verdict.evidence[0] == "Attempt 1, acme/large, key 1: overloaded, HTTP 503."
    assert verdict.evidence[4:] == [
        "2 further attempts failed, too.",
        "other/x was not tried: every key is cooling down.",
        "Try later",
    ]


def test_without_a_provider_that_could_be_tried_the_reasons_are_listed() -> None:
    skip = TraceSkip(request_id=ID, provider="acme", model="large", reason="the breaker is open")
    verdict = explain(failed("overloaded", attempts=(), skipped=(skip,)))
    assert verdict is not None
    assert (verdict.cause, verdict.title) == ("gateway", "No provider was tried")
    assert verdict.evidence == ["acme/large was not tried: the breaker is open."]


def test_a_cancelled_request_was_ended_by_its_client() -> None:
    verdict = explain(TraceDetail(request=REQUEST, finish=ended("cancelled", events=3)))
    assert verdict is not None
    assert (verdict.cause, verdict.other_model) == ("client", False)
    assert verdict.evidence == ["3 events were sent to the client within 306 ms."]


@table(
    "reason, cause, title",
    [
        ("length", "model", "large was cut off"),
        ("content_filter", "provider", "content filter"),
        ("SAFETY", "provider", "content filter"),
    ],
)
def test_an_incomplete_response_is_explained_by_its_reason(
    reason: str, cause: str, title: str
) -> None:
    usage = TraceUsage(request_id=ID, output_tokens=4096)
    finish = ended("incomplete", finish_reason=reason)
    verdict = explain(TraceDetail(request=REQUEST, finish=finish, usage=usage))
    assert verdict is not None
    assert verdict.cause == cause
    assert title in verdict.title
    assert verdict.evidence == [f"The model stopped with `{reason}`.", "It wrote 4,096 tokens."]


MESSAGE = {"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}


def test_a_call_that_breaks_its_schema_is_the_model_s() -> None:
    calls = [
        ToolCall(index=0, name="run", arguments="{}", check="invalid", problems=["no cmd"]),
        ToolCall(index=1, name="fly", arguments="{}", check="unknown_tool"),
    ]
    result = Result(status="completed", items=[MESSAGE], calls=calls)
    verdict = explain(TraceDetail(request=REQUEST, finish=ended("completed")), result)
    assert verdict is not None
    assert (verdict.cause, verdict.other_model) == ("model", True)
    assert verdict.evidence == ["`run`: no cmd", "`fly` is not among the tools of the request."]


def test_a_response_without_text_and_calls_is_odd() -> None:
    detail = TraceDetail(request=REQUEST, finish=ended("completed"))
    verdict = explain(detail, Result(status="completed", items=[{"type": "reasoning"}]))
    assert verdict is not None
    assert verdict.title == "large wrote nothing"
    assert explain(detail, Result(status="completed", items=[MESSAGE])) is None


def test_a_request_that_ended_well_or_still_runs_has_no_verdict() -> None:
    assert explain(TraceDetail(request=REQUEST, finish=ended("completed"))) is None
    assert explain(TraceDetail(request=REQUEST)) is None
    assert explain(TraceDetail(request=REQUEST, finish=ended("attached"))) is None
