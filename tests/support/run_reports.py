"""Reports of runs with the facts that a test does not care about."""

from __future__ import annotations

from typing import Any

from antiphon.core.response import InputTokensDetails, OutputTokensDetails, ResponseUsage
from antiphon.engine.report import AttemptReport, RunReport

USAGE = ResponseUsage(
    input_tokens=70,
    input_tokens_details=InputTokensDetails(20, 10),
    output_tokens=50,
    output_tokens_details=OutputTokensDetails(30),
    total_tokens=120,
)


def run_report(**changes: Any) -> RunReport:
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
        "attempts": (attempt_report(),),
    }
    return RunReport(**(values | changes))


def attempt_report(**changes: Any) -> AttemptReport:
    values: dict[str, Any] = {
        "number": 1,
        "provider": "up",
        "model": "m",
        "key_name": "key 1",
        "status": 200,
        "latency_ms": 100,
        "at_ms": 300.0,
    }
    return AttemptReport(**(values | changes))
