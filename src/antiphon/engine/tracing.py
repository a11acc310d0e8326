"""Run trace: the rows that one run leaves in the trace, from its request to its outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, convert, structs

from antiphon.config import TraceConfig
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.mcp.credentials import hide_credentials
from antiphon.core.plan.plan import Outbound
from antiphon.core.response import ResponseUsage
from antiphon.engine.accounting import DOLLAR, Accounting, TraceHeaders
from antiphon.engine.fault_report import FaultReport
from antiphon.engine.report import AttemptReport, RunReport, ServerCallReport
from antiphon.engine.routing import Target
from antiphon.engine.runtime import Runtime
from antiphon.providers.prices import Price
from antiphon.stages.builtin import TraceStage
from antiphon.stages.trace import ClientFormat, Payloads, PayloadTraceStage
from antiphon.store.redact import Redactor
from antiphon.store.trace.rows import (
    StreamKind,
    TraceAttempt,
    TraceDiagnostic,
    TraceError,
    TraceFinish,
    TraceRequest,
    TraceRow,
    TraceServerCall,
    TraceSkip,
    TraceStream,
    TraceUsage,
)
from antiphon.store.trace.trace_store import TraceOptions, TraceStore


class RecordRows(Protocol):
    def __call__(self, *rows: TraceRow) -> None: ...


def _drop_rows(*rows: TraceRow) -> None:
    """Keep no trace."""


@dataclass(frozen=True)
class Tracer:
    """Writer of trace rows; without a store it drops them."""

    store: TraceStore | None
    epoch_s: Callable[[], float]

    @property
    def keeps_payloads(self) -> bool:
        return self.store is not None and self.store.keeps_payloads

    @cached_property
    def record(self) -> RecordRows:
        """Adds rows to the trace."""
        return _drop_rows if self.store is None else self.store.record

    def close(self) -> None:
        if self.store is not None:
            self.store.close()


class RunEnd(Struct, frozen=True, kw_only=True):
    """How a run has ended, as far as its trace has not seen it."""

    failure: FaultReport | None = None
    diagnostics: Sequence[Diagnostic] = ()
    finish_reason: str | None = None
    """Why the model stopped, in the provider's own word."""
    upstream_latency_ms: float | None = None
    save_ms: float | None = None
    """Time to save the response; None: nothing was saved."""
    partial_usage: ResponseUsage | None = None
    """What a response without token counts has used."""


class _Stopwatch:
    """Time since a run began. It does not refer to the run: no cycle."""

    __slots__ = ("_began", "_clock")

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        self._began = 0.0

    def start(self) -> None:
        self._began = self._clock()

    def elapsed_ms(self) -> float:
        return (self._clock() - self._began) * 1000


class _RunProgress:
    """What a run has done so far."""

    __slots__ = ("attempts", "first_output_ms", "rounds", "served_by", "server_calls")

    def __init__(self) -> None:
        self.attempts: list[AttemptReport] = []
        self.served_by: AttemptReport | None = None
        """The last attempt that had output; without one, the last that failed."""
        self.first_output_ms: float | None = None
        self.rounds = [0.0]
        """When each round began."""
        self.server_calls: list[ServerCallReport] = []

    def add(self, attempt: AttemptReport) -> None:
        self.attempts.append(attempt)
        if attempt.fault_type is None:
            self.served_by = attempt
            if self.first_output_ms is None:
                self.first_output_ms = attempt.at_ms
        elif self.first_output_ms is None:
            self.served_by = attempt


class RunTrace:
    """Everything one run records: its request row in `begin`, its outcome in `finish`. Inert until
    `start_clock`."""

    __slots__ = (
        "_accounting",
        "_began_ms",
        "_has_ended",
        "_load_ms",
        "_progress",
        "_stopwatch",
        "_tracer",
        "context",
        "elapsed_ms",
        "facts",
        "outcome",
        "payloads",
    )

    def __init__(
        self,
        tracer: Tracer,
        facts: Mapping[str, Any],
        clock: Callable[[], float],
        accounting: Accounting | None = None,
        headers: TraceHeaders = ("", ""),
        load_ms: float | None = None,
        client: ClientFormat | None = None,
    ) -> None:
        """`clock` returns seconds. `load_ms` is the time that loading the history took. `client` is
        the format of the client, if that is not the one of the events."""
        self._tracer = tracer
        self._accounting = accounting or Accounting()
        self.facts = facts
        self._load_ms = load_ms
        self._stopwatch = _Stopwatch(clock)
        self._began_ms = 0
        self.elapsed_ms = self._stopwatch.elapsed_ms
        """Returns the time since the run began."""
        self._progress = _RunProgress()
        new_context = self._accounting.new_context
        self.context = None if new_context is None else new_context(headers)
        self._has_ended = False
        self.payloads: Payloads | None = None
        """None: the trace keeps none."""
        if tracer.store is not None and tracer.store.keeps_payloads:
            self.payloads = Payloads(self.elapsed_ms)
            self.outcome: TraceStage = PayloadTraceStage(
                self.elapsed_ms, is_streamed=facts["stream"], client=client
            )
            """The stage that keeps how the response has ended; with payloads, also its events."""
        else:
            self.outcome = TraceStage()

    def start_clock(self) -> None:
        """The run begins now."""
        self._stopwatch.start()
        self._began_ms = int(self._tracer.epoch_s() * 1000)

    def begin(self, skipped: Iterable[tuple[Target, str]] = (), *, software: str = "") -> None:
        """Record the request, and targets that cannot serve it; `finish` or `abort` must follow.
        `software` is the name and version of the client's software."""
        facts = self.facts
        self._tracer.record(
            TraceRequest(
                facts["request_id"],
                self._began_ms,
                facts["model"],
                facts["response_id"],
                facts["client"],
                software,
                facts["format"],
                facts["provider"],
                facts["provider_model"],
                facts["stream"],
                facts["session"],
            )
        )
        for target, reason in skipped:
            self.skip_target(target, reason)

    @property
    def round(self) -> int:
        """The number of the round, from 0."""
        return len(self._progress.rounds) - 1

    def add_attempt(self, attempt: AttemptReport) -> None:
        """Record an attempt that failed, or whose output has begun."""
        if self.context is not None:
            attempt = structs.replace(attempt, span_id=self.context.end_attempt())
        self._progress.add(attempt)
        row = TraceAttempt(
            self.facts["request_id"],
            attempt.number,
            attempt.provider,
            attempt.model,
            attempt.key_name,
            attempt.status,
            attempt.latency_ms,
        )
        self._tracer.record(row if attempt.fault_type is None else _add_fault(row, attempt))

    def record_outbound(self, outbound: Outbound) -> Outbound:
        """Record the request of the next attempt; return it with the ids that it has in a
        distributed trace."""
        if self.context is not None:
            headers = {**outbound.headers, **self.context.begin_attempt()}
            outbound = structs.replace(outbound, headers=headers)
        if self.payloads is not None:
            self.payloads.outbound.feed(hide_credentials(outbound.body))
        return outbound

    def rewind(self) -> None:
        """Set the bytes of an attempt aside if it has failed."""
        if self.payloads is None:
            return
        taken = self.payloads.raw.rewind()
        if taken.blob and self._progress.attempts:
            self.payloads.failed[self._progress.attempts[-1].number] = taken

    def add_server_call(self, call: ServerCallReport) -> None:
        """Record a call of an MCP server that has ended."""
        self._progress.server_calls.append(call)
        self._tracer.record(
            TraceServerCall(
                request_id=self.facts["request_id"],
                server=call.server,
                tool=call.tool,
                item_id=call.item_id,
                error=call.error,
                reason=call.reason,
                result_bytes=call.result_bytes,
                duration_ms=round(call.duration_ms),
            )
        )

    def begin_round(self) -> None:
        """Keep what the provider sent so far; a further round begins."""
        if self.payloads is not None:
            self.payloads.raw.keep()
        self._progress.rounds.append(self.elapsed_ms())

    def skip_target(self, target: Target, reason: str) -> None:
        """Record a target that was not tried."""
        provider, model = target.name
        self._tracer.record(
            TraceSkip(
                request_id=self.facts["request_id"], provider=provider, model=model, reason=reason
            )
        )

    def finish(self, end: RunEnd) -> None:
        """Record the outcome of the run, whatever it is."""
        response = self.outcome.response
        status: str = "cancelled" if end.failure is None else "failed"
        usage = end.partial_usage
        if response is not None:
            status = response.status
            usage = usage or response.usage
        report = self._report(status, usage, end)
        self._record_diagnostics(report)
        self._record_streams()
        self._record_end(report)

    def abort(self) -> None:
        """Record the end of a run that could not be entered. Nothing happens to any other."""
        if not self._has_ended:
            self._record_end(self._report("failed", None, RunEnd()))

    def _record_diagnostics(self, report: RunReport) -> None:
        for each in report.diagnostics:
            self._tracer.record(
                TraceDiagnostic(
                    request_id=self.facts["request_id"],
                    code=each.code,
                    decision=each.decision,
                    param=each.param,
                    message=each.message,
                )
            )
        failure = report.failure
        if failure is not None:
            progress = failure.progress
            self._tracer.record(
                TraceError(
                    request_id=self.facts["request_id"],
                    code=failure.code,
                    message=failure.message,
                    reason=failure.reason,
                    provider=report.provider,
                    model=report.model,
                    chunks=None if progress is None else progress.chunks,
                    stream_ms=None if progress is None else round(progress.seconds * 1000),
                )
            )

    def _record_streams(self) -> None:
        payloads = self.payloads
        if payloads is None or not isinstance(self.outcome, PayloadTraceStage):
            return
        if self._progress.attempts and self._progress.attempts[-1].fault_type is not None:
            self.rewind()
        self._record_stream("request", payloads.request.blob, payloads.request.offsets)
        self._record_stream("outbound", payloads.outbound.blob, payloads.outbound.offsets)
        for number, recorded in payloads.failed.items():
            self._record_stream("raw", *recorded, attempt=number)
        raw = payloads.raw
        self._record_stream("raw", raw.blob, raw.offsets, rounds=raw.kept)
        self._record_stream("transformed", *self.outcome.encode())
        self._record_stream("client", *self.outcome.render())

    def _record_stream(
        self,
        kind: StreamKind,
        blob: bytes,
        offsets: Sequence[tuple[int, float]],
        *,
        attempt: int = 0,
        rounds: Sequence[int] = (),
    ) -> None:
        if blob:
            times = [(offset, self._began_ms + round(at_ms)) for offset, at_ms in offsets]
            self._tracer.record(
                TraceStream(
                    request_id=self.facts["request_id"],
                    kind=kind,
                    attempt=attempt,
                    blob=blob,
                    offsets=times,
                    rounds=rounds,
                )
            )

    def _record_end(self, report: RunReport) -> None:
        self._has_ended = True
        rows: list[TraceRow] = []
        if report.usage is not None:
            rows.append(_usage_row(report.request_id, report.usage, report.cost))
        first_event = report.first_event_ms
        latency = report.upstream_latency_ms
        served = report.served_by
        rows.append(
            TraceFinish(
                report.request_id,
                report.status,
                round(report.duration_ms),
                report.finish_reason,
                None if latency is None else round(latency),
                None if first_event is None else round(first_event),
                report.events,
                served.provider if served else "",
                served.model if served else "",
                served.dialect if served else "",
                served.key_name if served else None,
            )
        )
        self._tracer.record(*rows)
        self._accounting.record(report)

    def _report(self, status: str, usage: ResponseUsage | None, end: RunEnd) -> RunReport:
        facts = self.facts
        progress = self._progress
        served = progress.served_by
        return RunReport(
            request_id=facts["request_id"],
            received_at_ms=self._began_ms,
            client=facts["client"],
            provider=served.provider if served else facts["provider"],
            model=served.model if served else facts["provider_model"],
            status=status,
            format=facts["format"],
            response_id=facts["response_id"],
            requested_model=facts["model"],
            finish_reason=end.finish_reason,
            failure=end.failure,
            diagnostics=end.diagnostics,
            usage=usage,
            cost=compute_cost(served.price if served else None, usage),
            events=self.outcome.event_count,
            attempts=progress.attempts,
            served_by=served,
            server_calls=progress.server_calls,
            rounds=progress.rounds,
            first_event_ms=progress.first_output_ms,
            duration_ms=self.elapsed_ms(),
            upstream_latency_ms=end.upstream_latency_ms,
            load_ms=self._load_ms,
            save_ms=end.save_ms,
            context=self.context,
        )


def compute_cost(price: Price | None, usage: ResponseUsage | None) -> int | None:
    """Return the cost of a response in billionths of a dollar; None if the price is unknown.

    One dollar per million tokens is 1,000 billionths per token."""
    if usage is None or not usage.total_tokens:
        return 0
    if price is None:
        return None
    details = usage.input_tokens_details
    cached = details.cached_tokens
    written = details.cache_write_tokens
    dollars = (
        max(0, usage.input_tokens - cached - written) * price.input
        + cached * (price.input if price.cached_input is None else price.cached_input)
        + written * (price.input if price.cache_write is None else price.cache_write)
        + usage.output_tokens * price.output
    )
    return round(dollars * 1000)


def _usage_row(request_id: str, usage: ResponseUsage, cost: int | None) -> TraceUsage:
    return TraceUsage(
        request_id,
        usage.input_tokens,
        usage.input_tokens_details.cached_tokens,
        usage.input_tokens_details.cache_write_tokens,
        usage.output_tokens,
        usage.output_tokens_details.reasoning_tokens,
        usage.estimated is True,
        None if cost is None else cost / DOLLAR,
    )


def _add_fault(row: TraceAttempt, attempt: AttemptReport) -> TraceAttempt:
    """Return the row of an attempt with why it failed."""
    words = attempt.words
    return structs.replace(
        row,
        fault_type=attempt.fault_type,
        fault_code=attempt.fault_code,
        reason=attempt.reason,
        upstream_type=words.type,
        upstream_code=words.code,
        upstream_param=words.param,
        upstream_request_id=words.request_id,
        upstream_body=words.body,
    )


def open_tracer(config: TraceConfig, data: Path, runtime: Runtime, redactor: Redactor) -> Tracer:
    if not config.enabled:
        return Tracer(None, runtime.epoch_s)
    options = convert(config, TraceOptions, from_attributes=True)
    path = Path(config.path) if config.path else data / "trace.db"
    store = TraceStore(path, epoch_s=runtime.epoch_s, redactor=redactor, options=options)
    store.open()
    return Tracer(store, runtime.epoch_s)
