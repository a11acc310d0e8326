"""Run trace: the rows that one run leaves in the trace, from its request to its outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import convert, structs

from antiphon.config import TraceConfig
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.plan.plan import Outbound
from antiphon.core.response import ResponseUsage
from antiphon.engine.accounting import DOLLAR, Accounting, TraceHeaders, compute_cost
from antiphon.engine.fault_report import FaultReport
from antiphon.engine.report import AttemptReport, RunReport, TraceContext, find_serving_attempt
from antiphon.engine.routing import Target
from antiphon.engine.runtime import Runtime
from antiphon.stages.trace import PayloadTraceStage, RawTap, TraceStage
from antiphon.store.redact import Redactor
from antiphon.store.trace.rows import (
    TraceAttempt,
    TraceDiagnostic,
    TraceError,
    TraceFinish,
    TraceRequest,
    TraceRow,
    TraceSkip,
    TraceStream,
    TraceUsage,
)
from antiphon.store.trace.trace_store import TraceOptions, TraceStore


@dataclass(frozen=True)
class Tracer:
    """Writer of trace rows; without a store it drops them."""

    store: TraceStore | None
    now_ms: Callable[[], int]

    @property
    def keeps_payloads(self) -> bool:
        return self.store is not None and self.store.options.payloads

    @cached_property
    def record(self) -> Callable[[TraceRow], object]:
        """Adds a row to the trace."""
        return bool if self.store is None else self.store.record

    def close(self) -> None:
        if self.store is not None:
            self.store.close()


class RunTrace:
    """Everything one run records: its request row in `begin`, its outcome in `finish`."""

    software = ""
    """The name and version of the client's software."""

    def __init__(
        self,
        tracer: Tracer,
        facts: Mapping[str, Any],
        clock: Callable[[], float],
        accounting: Accounting | None = None,
        headers: TraceHeaders = ("", ""),
        load_ms: float | None = None,
    ) -> None:
        """`clock` returns seconds; the run begins now. `load_ms` is what its history took."""
        keep, began = tracer.keeps_payloads, clock()

        def elapsed_ms() -> float:
            """Return the time since the run began. It does not refer to the trace: no cycle."""
            return (clock() - began) * 1000

        self.elapsed_ms = elapsed_ms
        self._tracer = tracer
        self._accounting = accounting or Accounting()
        self._id: str = facts["request_id"]
        self.keeps_payloads = keep
        self._began_ms = tracer.now_ms()
        self.request = RawTap(keep=keep, elapsed_ms=elapsed_ms)
        self.outbound = RawTap(keep=keep, elapsed_ms=elapsed_ms)
        """The request body of every attempt, one after another."""
        self.raw = RawTap(keep=keep, elapsed_ms=elapsed_ms)
        """The provider's bytes: of each round, those of the attempt that succeeded."""
        self.transformed = (
            PayloadTraceStage(elapsed_ms, is_streamed=facts["stream"]) if keep else TraceStage()
        )
        self.facts = facts
        self._attempts: list[AttemptReport] = []
        self._rounds = [0.0]
        self._load_ms = load_ms
        self.save_ms: float | None = None
        """Time to save the response; None: nothing was saved."""
        self._failure: FaultReport | None = None
        self.finish_reason: str | None = None
        """Why the model stopped, in the provider's own word."""
        new_context = self._accounting.new_context
        self.context = None if new_context is None else new_context(headers)

    def begin(self, skipped: Iterable[tuple[Target, str]] = ()) -> None:
        """Record the request, and targets that cannot serve it; `finish` or `abort` must follow."""
        facts = {"software": self.software, **self.facts}
        self._tracer.record(TraceRequest(received_at_ms=self._began_ms, **facts))
        for target, reason in skipped:
            self.skip_target(target, reason)

    def attempt(self, attempt: AttemptReport) -> None:
        """Record an attempt that failed, or whose output has begun."""
        span_id = 0 if self.context is None else self.context.end_attempt()
        report = structs.replace(
            attempt, at_ms=self.elapsed_ms(), round=len(self._rounds) - 1, span_id=span_id
        )
        self._attempts.append(report)
        self._tracer.record(
            TraceAttempt(
                request_id=self._id,
                number=report.number,
                provider=report.provider,
                model=report.model,
                key_name=report.key_name,
                status=report.status,
                fault_type=report.fault_type,
                fault_code=report.fault_code,
                reason=report.reason,
                latency_ms=report.latency_ms,
            )
        )

    def add_context(self, outbound: Outbound, context: TraceContext) -> Outbound:
        """Add the ids of the next attempt in a distributed trace to its headers."""
        headers = {**outbound.headers, **context.begin_attempt()}
        return structs.replace(outbound, headers=headers)

    def begin_round(self) -> None:
        """Keep what the provider sent so far; a further round begins."""
        self.raw.keep()
        self._rounds.append(self.elapsed_ms())

    def skip_target(self, target: Target, reason: str) -> None:
        """Record a target that was not tried."""
        provider, model = target.name
        self._tracer.record(
            TraceSkip(request_id=self._id, provider=provider, model=model, reason=reason)
        )

    def finish(
        self,
        failure: FaultReport | None,
        latency_ms: float | None,
        diagnostics: Sequence[Diagnostic],
        partial_usage: ResponseUsage | None = None,
    ) -> None:
        """Record the outcome of the run, whatever it is. `partial_usage` is what a response without
        token counts has used."""
        response = self.transformed.response
        usage = partial_usage or (None if response is None else response.usage)
        status: str = "cancelled" if failure is None else "failed"
        report = self._report(status if response is None else response.status, usage)
        report = structs.replace(
            report,
            failure=failure,
            diagnostics=diagnostics,
            finish_reason=self.finish_reason,
            upstream_latency_ms=latency_ms,
        )
        self._record_diagnostics(report)
        self._record_streams()
        self._record_end(report)

    def abort(self) -> None:
        """Record the end of a run that could not be entered."""
        self._record_end(self._report("failed", None))

    def _record_diagnostics(self, report: RunReport) -> None:
        for each in report.diagnostics:
            self._tracer.record(
                TraceDiagnostic(
                    request_id=self._id,
                    code=each.code,
                    decision=each.decision,
                    param=each.param,
                    message=each.message,
                )
            )
        failure = report.failure
        if failure is not None:
            self._tracer.record(
                TraceError(
                    request_id=self._id,
                    code=failure.code,
                    message=failure.message,
                    reason=failure.reason,
                    provider=report.provider,
                    model=report.model,
                )
            )

    def _record_streams(self) -> None:
        if not isinstance(self.transformed, PayloadTraceStage):
            return  # payloads are not kept
        taps = {"request": self.request, "outbound": self.outbound, "raw": self.raw}
        for kind, tap in taps.items():
            self._record_stream(kind, tap.blob, tap.offsets)
        self._record_stream("transformed", *self.transformed.encode())

    def _record_stream(self, kind: Any, blob: bytes, offsets: Sequence[tuple[int, float]]) -> None:
        if blob:
            times = [(offset, self._began_ms + round(at_ms)) for offset, at_ms in offsets]
            self._tracer.record(
                TraceStream(request_id=self._id, kind=kind, blob=blob, offsets=times)
            )

    def _record_end(self, report: RunReport) -> None:
        if report.usage is not None:
            self._record_usage(report.usage, report.cost)
        first_event, latency = report.first_event_ms, report.upstream_latency_ms
        served = report.served_by
        self._tracer.record(
            TraceFinish(
                request_id=self._id,
                status=report.status,
                finish_reason=report.finish_reason,
                duration_ms=round(report.duration_ms),
                upstream_latency_ms=None if latency is None else round(latency),
                first_event_ms=None if first_event is None else round(first_event),
                events=report.events,
                provider=served.provider if served else "",
                provider_model=served.model if served else "",
                dialect=served.dialect if served else "",
                key_name=served.key_name if served else None,
            )
        )
        self._accounting.record(report)

    def _record_usage(self, usage: ResponseUsage, cost: int | None) -> None:
        self._tracer.record(
            TraceUsage(
                request_id=self._id,
                input_tokens=usage.input_tokens,
                cached_tokens=usage.input_tokens_details.cached_tokens,
                cache_write_tokens=usage.input_tokens_details.cache_write_tokens,
                output_tokens=usage.output_tokens,
                reasoning_tokens=usage.output_tokens_details.reasoning_tokens,
                estimated=usage.estimated is True,
                cost=None if cost is None else cost / DOLLAR,
            )
        )

    def _report(self, status: str, usage: ResponseUsage | None) -> RunReport:
        facts, served = self.facts, find_serving_attempt(self._attempts)
        successes = (each.at_ms for each in self._attempts if each.fault_type is None)
        return RunReport(
            request_id=self._id,
            received_at_ms=self._began_ms,
            client=facts["client"],
            provider=served.provider if served else facts["provider"],
            model=served.model if served else facts["provider_model"],
            status=status,
            usage=usage,
            cost=compute_cost(served.price if served else None, usage),
            first_event_ms=next(successes, None),
            response_id=facts["response_id"],
            requested_model=facts["model"],
            duration_ms=self.elapsed_ms(),
            events=self.transformed.event_count,
            attempts=self._attempts,
            rounds=self._rounds,
            load_ms=self._load_ms,
            save_ms=self.save_ms,
            context=self.context,
        )


def open_tracer(config: TraceConfig, data: Path, runtime: Runtime, redactor: Redactor) -> Tracer:
    if not config.enabled:
        return Tracer(None, runtime.now_ms)
    options = convert(config, TraceOptions, from_attributes=True)
    path = Path(config.path) if config.path else data / "trace.db"
    store = TraceStore(path, now_ms=runtime.now_ms, redactor=redactor, options=options)
    store.open()
    return Tracer(store, runtime.now_ms)
