"""Ended requests with the facts that a test does not care about."""

from __future__ import annotations

from typing import Any

from antiphon.engine.accounting.ended_request import EndedAttempt, EndedRequest
from antiphon.store.trace.rows import TraceAttempt
from antiphon.wire.response import InputTokensDetails, OutputTokensDetails, ResponseUsage

USAGE = ResponseUsage(
    input_tokens=70,
    input_tokens_details=InputTokensDetails(20, 10),
    output_tokens=50,
    output_tokens_details=OutputTokensDetails(30),
    total_tokens=120,
)


def ended_request(**changes: Any) -> EndedRequest:
    values: dict[str, Any] = {
        "request_id": "req_1",
        "response_id": "resp_1",
        "received_at_ms": 1_700_000_000_000,
        "client": "me",
        "requested_model": "fast",
        "provider": "up",
        "model": "m",
        "status": "completed",
        "usage": USAGE,
        "cost": 2_500_000_000,
        "first_event_ms": 300.0,
        "duration_ms": 3000.0,
        "events": 9,
        "attempts": (ended_attempt(),),
    }
    return EndedRequest(**(values | changes))


def ended_attempt(
    *, at_ms: float = 300.0, round: int = 0, span_id: int = 0, **changes: Any
) -> EndedAttempt:
    values: dict[str, Any] = {
        "request_id": "req_1",
        "number": 1,
        "provider": "up",
        "model": "m",
        "key_name": "key 1",
        "status": 200,
        "latency_ms": 100,
    }
    row = TraceAttempt(**(values | changes))
    return EndedAttempt(row=row, at_ms=at_ms, round=round, span_id=span_id)
