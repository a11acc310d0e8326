"""Run trace: the rows of one run, from its request to its outcome."""

from __future__ import annotations

from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import TraceConfig
from antiphon.core.deltas import Text, Usage
from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.faults.classify import classify
from antiphon.core.plan.plan import Outbound
from antiphon.core.response import InputTokensDetails, ResponseUsage
from antiphon.engine.accounting import Accounting
from antiphon.engine.fault_report import FaultReport
from antiphon.engine.report import AttemptReport, ServerCallReport
from antiphon.engine.routing import Target
from antiphon.engine.runtime import Runtime
from antiphon.engine.tracing import RunEnd, RunTrace, Tracer, compute_cost, open_tracer
from antiphon.providers.prices import Price
from antiphon.stages.pipeline import Batch, Pipeline
from antiphon.store.redact import Redactor
from antiphon.store.trace.reader import TraceDetail
from antiphon.store.trace.rows import (
    TraceAttempt,
    TraceDiagnostic,
    TraceError,
    TraceFinish,
    TraceRequest,
    TraceServerCall,
    TraceUsage,
)
from tests.support.gateways import events_of
from tests.support.machines import machine
from tests.support.outbound_requests import configured
from tests.support.traces import read_trace

FOUR = Target(configured("chat"), "p")
NOW_MS = 1_700_000_000_000
FACTS: dict[str, Any] = {
    "request_id": "req_1",
    "response_id": "resp_1",
    "client": "alice",
    "model": "fast",
    "provider": "up",
    "provider_model": "m",
    "stream": True,
    "format": "chat",
    "session": None,
}
BAD_KEY = classify(401, {}, b'{"error":{"message":"the prompt was: secret plans"}}')
FAILURE = FaultReport(
    code="invalid_api_key", message="up rejected the API key.", reason="no such key"
)
DIAGNOSTIC = Diagnostic(
    code=Code.PARAM_IGNORED, decision=Decision.IGNORED, param="top_p", message="Ignored."
)


def attempt(number: int, provider: str = "up", **fields: Any) -> AttemptReport:
    values: dict[str, Any] = {"model": "m", "key_name": f"key {number}", "status": 200}
    return AttemptReport(number=number, provider=provider, **(values | fields))


REJECTED: dict[str, Any] = {
    "status": 401,
    "fault_type": BAD_KEY.type,
    "fault_code": BAD_KEY.code,
    "reason": "no",
}


class Recorder:
    """A run trace that is written to a file, and what the file has in the end."""

    def __init__(self, path: Path, *, payloads: bool = False) -> None:
        self._path = path / "trace.db"
        config = TraceConfig(path=str(self._path), payloads=payloads)
        runtime = Runtime(epoch_s=lambda: NOW_MS / 1000)
        self._tracer = open_tracer(config, path, runtime, Redactor(["sk-secret"]))
        self.accounting = Accounting(queue_observers=[lambda: None])
        clock = chain([100.0], repeat(100.0126)).__next__
        self.trace = RunTrace(self._tracer, FACTS, clock, self.accounting)
        self.trace.start_clock()
        self.trace.begin()

    def read(self) -> TraceDetail:
        self._tracer.close()
        return read_trace(self._path, "req_1")


def finish_answer(trace: RunTrace) -> None:
    subject = machine()
    events = [*subject.start(), *subject.feed(Text("Well"))]
    events += subject.feed(Usage(input_tokens=7, cached_tokens=2, output_tokens=3))
    events += subject.finish("stop")
    Pipeline([trace.outcome]).feed(Batch(events, event_count=len(events)))


def test_the_request_is_recorded_first(tmp_path: Path) -> None:
    detail = Recorder(tmp_path).read()
    assert detail.request == TraceRequest(received_at_ms=NOW_MS, **FACTS)
    assert detail.finish is None


def test_attempts_are_recorded_with_their_fault_and_status(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.trace.add_attempt(attempt(1, **REJECTED, latency_ms=3))
    recorder.trace.add_attempt(attempt(2, dialect="chat", latency_ms=6))
    common: dict[str, Any] = {"request_id": "req_1", "provider": "up", "model": "m"}
    assert recorder.read().attempts == (
        TraceAttempt(
            number=1,
            key_name="key 1",
            status=401,
            fault_type=BAD_KEY.type,
            fault_code=BAD_KEY.code,
            reason="no",
            latency_ms=3,
            **common,
        ),
        TraceAttempt(number=2, key_name="key 2", status=200, latency_ms=6, **common),
    )


def test_calls_of_mcp_servers_are_recorded(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    call = ServerCallReport(
        server="sky", tool="weather", item_id="mcp_1", result_bytes=12, duration_ms=3.4
    )
    recorder.trace.add_server_call(call)
    assert recorder.read().server_calls == (
        TraceServerCall(
            request_id="req_1",
            server="sky",
            tool="weather",
            item_id="mcp_1",
            result_bytes=12,
            duration_ms=3,
        ),
    )


def test_a_completed_run_has_usage_diagnostics_and_an_end(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    finish_answer(recorder.trace)
    recorder.trace.finish(RunEnd(upstream_latency_ms=3.4, diagnostics=[DIAGNOSTIC]))
    detail = recorder.read()
    assert detail.usage == TraceUsage(
        request_id="req_1", input_tokens=7, cached_tokens=2, output_tokens=3
    )
    assert detail.diagnostics == (
        TraceDiagnostic(
            request_id="req_1",
            code="param.ignored",
            decision="ignored",
            param="top_p",
            message="Ignored.",
        ),
    )
    assert detail.finish is not None
    assert detail.finish.events > 5
    assert (detail.finish.status, detail.finish.duration_ms) == ("completed", 13)
    assert detail.finish.upstream_latency_ms == 3


@pytest.mark.parametrize(("fault", "status"), [(None, "cancelled"), (FAILURE, "failed")])
def test_a_run_without_a_response_is_cancelled_or_failed(
    tmp_path: Path, fault: Any, status: str
) -> None:
    recorder = Recorder(tmp_path)
    recorder.trace.finish(RunEnd(failure=fault))
    assert recorder.read().finish == TraceFinish(request_id="req_1", status=status, duration_ms=13)


def test_a_run_that_could_not_be_entered_is_failed(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.trace.abort()
    finish = recorder.read().finish
    assert finish is not None
    assert finish.status == "failed"


def test_a_run_ends_once(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.trace.finish(RunEnd())
    recorder.trace.abort()
    assert [each.status for each in recorder.accounting.ended] == ["cancelled"]


@pytest.mark.parametrize("payloads", [False, True])
def test_a_failure_is_recorded_with_its_reason_payloads_or_not(
    tmp_path: Path, *, payloads: bool
) -> None:
    recorder = Recorder(tmp_path, payloads=payloads)
    recorder.trace.finish(RunEnd(failure=FAILURE))
    assert recorder.read().errors == (
        TraceError(
            request_id="req_1",
            code="invalid_api_key",
            message="up rejected the API key.",
            reason="no such key",
            provider="up",
            model="m",
        ),
    )


def test_the_end_names_the_attempt_that_answered(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.trace.add_attempt(attempt(1, **REJECTED))
    recorder.trace.add_attempt(attempt(2, "two", model="n", dialect="gemini"))
    recorder.trace.add_attempt(attempt(3, "three", **REJECTED))  # a further round that was given up
    recorder.trace.skip_target(FOUR, "its circuit breaker is open")
    recorder.trace.finish(RunEnd())
    detail = recorder.read()
    assert detail.finish is not None
    found = detail.finish
    assert (found.provider, found.provider_model, found.dialect, found.key_name) == (
        "two",
        "n",
        "gemini",
        "key 2",
    )
    assert [(each.provider, each.reason) for each in detail.skipped] == [
        ("it", "its circuit breaker is open")
    ]


def feed_streams(trace: RunTrace) -> None:
    trace.record_outbound(Outbound(path="/", body=b'{"messages": []}'))
    if trace.payloads is not None:
        trace.payloads.request.feed(b'{"input": "with sk-secret"}')
        trace.payloads.raw.feed(b"data: 1\n\n")
    finish_answer(trace)
    trace.finish(RunEnd())


def test_payloads_are_recorded_without_secrets(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, payloads=True)
    feed_streams(recorder.trace)
    streams = {stream.kind: stream for stream in recorder.read().streams}
    assert list(streams) == ["request", "outbound", "raw", "transformed"]
    assert b"sk-secret" not in streams["request"].blob
    assert streams["outbound"].blob == b'{"messages": []}'
    assert streams["raw"].offsets == [(0, NOW_MS + 13)]
    events = events_of(streams["transformed"].blob)
    assert (events[0]["type"], events[-1]["type"]) == ("response.created", "response.completed")


def test_a_request_is_recorded_without_credentials_for_servers_that_the_provider_calls(
    tmp_path: Path,
) -> None:
    recorder = Recorder(tmp_path, payloads=True)
    body = b'{"mcp_servers":[{"name":"a","authorization_token":"canary"}]}'
    sent = recorder.trace.record_outbound(Outbound(path="/", body=body))
    finish_answer(recorder.trace)
    recorder.trace.finish(RunEnd())
    streams = {stream.kind: stream for stream in recorder.read().streams}
    assert streams["outbound"].blob == b'{"mcp_servers":[{"name":"a"}]}'
    assert sent.body == body


def test_without_payloads_no_stream_is_recorded(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    feed_streams(recorder.trace)
    assert recorder.read().streams == ()


def test_a_disabled_trace_writes_no_file(tmp_path: Path) -> None:
    tracer = open_tracer(TraceConfig(enabled=False), tmp_path, Runtime(), Redactor())
    assert not tracer.keeps_payloads
    RunTrace(tracer, FACTS, lambda: 0.0).finish(RunEnd())
    tracer.close()
    assert list(tmp_path.iterdir()) == []


def test_the_default_trace_file_is_in_the_data_directory(tmp_path: Path) -> None:
    tracer: Tracer = open_tracer(TraceConfig(), tmp_path, Runtime(), Redactor())
    tracer.close()
    assert (tmp_path / "trace.db").exists()


PRICE = Price(input=2.0, output=8.0, cached_input=0.5)


def test_the_cost_is_that_of_the_model_that_answered(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    dear = Price(input=1000.0, output=1000.0)
    recorder.trace.add_attempt(attempt(1, "dear", price=dear, **REJECTED))
    recorder.trace.add_attempt(attempt(2, price=PRICE, at_ms=12.6))
    finish_answer(recorder.trace)
    recorder.trace.finish(RunEnd(upstream_latency_ms=3.4))
    [ended] = recorder.accounting.ended
    assert (ended.client, ended.provider, ended.model) == (FACTS["client"], "up", "m")
    assert ended.cost == (5 * 2.0 + 2 * 0.5 + 3 * 8.0) * 1000
    assert ended.first_event_ms == 12.6
    detail = recorder.read()
    assert detail.usage is not None
    assert detail.finish is not None
    assert (detail.usage.cost, detail.finish.first_event_ms) == (35e-6, 13)


def test_tokens_without_a_price_have_an_unknown_cost(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    finish_answer(recorder.trace)
    recorder.trace.finish(RunEnd(upstream_latency_ms=3.4))
    [ended] = recorder.accounting.ended
    assert ended.cost is None


def test_a_run_that_could_not_be_entered_used_nothing(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.trace.abort()
    [ended] = recorder.accounting.ended
    assert (ended.status, ended.is_failed, ended.usage, ended.cost) == ("failed", True, None, 0)


def test_a_cache_write_has_its_own_price_or_that_of_the_input() -> None:
    details = InputTokensDetails(cached_tokens=10, cache_write_tokens=20)
    usage = ResponseUsage(input_tokens=100, input_tokens_details=details, total_tokens=100)
    assert compute_cost(Price(input=1.0, output=1.0, cache_write=2.0), usage) == 120_000
    assert compute_cost(Price(input=1.0, output=1.0), usage) == 100_000


async def test_without_limits_every_request_is_admitted_and_nothing_is_queued() -> None:
    accounting = Accounting()
    assert await accounting.admit("me", "req_1") == {}
    RunTrace(Tracer(None, lambda: 0.0), FACTS, lambda: 0.0, accounting).abort()
    assert not accounting.ended


def test_the_queue_of_ended_requests_asks_once_to_be_written() -> None:
    calls: list[None] = []
    accounting = Accounting(queue_observers=[lambda: calls.append(None)])
    for _ in range(3):
        RunTrace(Tracer(None, lambda: 0.0), FACTS, lambda: 0.0, accounting).abort()
    assert (len(calls), len(accounting.ended)) == (1, 3)
