"""Run trace: the rows that one run leaves in the trace, from its request to its outcome."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct, convert, structs

from antiphon.config import TraceConfig
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.faults.fault import ProviderFault
from antiphon.core.plan.plan import Outbound
from antiphon.engine.accounting.ended_request import (
    EndedAttempt,
    EndedRequest,
    RequestLimiter,
    TraceContext,
)
from antiphon.engine.routing import Target
from antiphon.engine.runtime import Runtime
from antiphon.pipeline.trace import PayloadTraceStage, RawTap, TraceStage
from antiphon.providers.prices import Price
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
from antiphon.wire.response import Response, ResponseUsage


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


DOLLAR = 1_000_000_000
"""Units of a cost: exact sums need whole numbers."""
_NO_HEADERS: Mapping[str, str] = {}
TraceHeaders: TypeAlias = tuple[str, str]
"""The headers `traceparent` and `tracestate` of a request; empty: it has none."""


@dataclass
class Accounting:
    """Limits of clients, and the queue of ended requests for the usage table."""

    limiter: RequestLimiter | None = None
    on_queued: Callable[[], object] | None = None
    """Called when a request is added to the empty queue; None: usage is not counted."""
    ended: deque[EndedRequest] = field(default_factory=deque)
    observers: list[Callable[[Sequence[EndedRequest]], object]] = field(default_factory=list)
    """Called with the ended requests, some time after their end."""
    on_rejected: Callable[[str], object] | None = None
    """Called with the error code of a request that was rejected before it had a run."""
    new_context: Callable[[TraceHeaders], TraceContext] | None = None
    """Makes the ids of a request in a distributed trace; None: there are none."""

    def drain(self) -> None:
        """Pass the queue on to the observers."""
        ended = tuple(self.ended)
        self.ended.clear()
        for observe in self.observers:
            observe(ended)

    async def admit(self, client: str, request_id: str) -> Mapping[str, str]:
        if self.limiter is None:
            return _NO_HEADERS
        return await self.limiter.admit(client, request_id)

    def withdraw(self, client: str, request_id: str) -> None:
        """Count an admitted request as running no longer. May be called after its end."""
        if self.limiter is not None:
            self.limiter.withdraw(client, request_id)

    def record(self, request: EndedRequest) -> None:
        if self.limiter is not None:
            self.limiter.release(request)
        if self.on_queued is not None:
            if not self.ended:
                self.on_queued()
            self.ended.append(request)


def compute_cost(price: Price | None, usage: ResponseUsage | None) -> int | None:
    """Return the cost of a response in billionths of a dollar; None if the price is unknown.

    One dollar per million tokens is 1,000 billionths per token."""
    if usage is None or not usage.total_tokens:
        return 0
    if price is None:
        return None
    details = usage.input_tokens_details
    cached, written = details.cached_tokens, details.cache_write_tokens
    dollars = (
        max(0, usage.input_tokens - cached - written) * price.input
        + cached * (price.input if price.cached_input is None else price.cached_input)
        + written * (price.input if price.cache_write is None else price.cache_write)
        + usage.output_tokens * price.output
    )
    return round(dollars * 1000)


class AttemptRecord(Struct, frozen=True):
    """One attempt for the trace: the provider, the model, and the key by its number."""

    number: int
    provider: str
    model: str
    key_name: str
    dialect: str = ""
    price: Price | None = None


class FailureRecord(Struct, frozen=True):
    """Why a response failed: as its client reads it, and in the provider's own words."""

    code: str
    message: str
    reason: str | None = None


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
        self.transformed = PayloadTraceStage(elapsed_ms) if keep else TraceStage()
        self.facts = facts
        self._answered: AttemptRecord | None = None
        """The attempt that answered; without one, the last that failed."""
        self._first_event_ms: float | None = None
        self._attempts: list[EndedAttempt] = []
        self._rounds = [0.0]
        self._load_ms = load_ms
        self.save_ms: float | None = None
        """Time to save the response; None: nothing was saved."""
        self._code: str | None = None
        new_context = self._accounting.new_context
        self.context = None if new_context is None else new_context(headers)

    async def admit(self) -> Mapping[str, str]:
        """Check the limits of the client, and return headers for the response; raises
        `LimitExceeded`. `begin` must follow."""
        if self._accounting.limiter is None:
            return _NO_HEADERS
        return await self._accounting.admit(self.facts["client"], self._id)

    def begin(self, skipped: Iterable[tuple[Target, str]] = ()) -> None:
        """Record the request, and targets that cannot serve it; `finish` or `abort` must follow."""
        facts = {"software": self.software, **self.facts}
        self._tracer.record(TraceRequest(received_at_ms=self._began_ms, **facts))
        for target, reason in skipped:
            self.skip_target(target, reason)

    def attempt(
        self,
        attempt: AttemptRecord,
        fault: ProviderFault | None,
        reason: str | None,
        status: int | None,
        latency_ms: float,
    ) -> None:
        """Record an attempt that failed, or whose output has begun."""
        at_ms = self.elapsed_ms()
        if fault is None or self._first_event_ms is None:
            self._answered = attempt
        if fault is None and self._first_event_ms is None:
            self._first_event_ms = at_ms
        row = TraceAttempt(
            request_id=self._id,
            number=attempt.number,
            provider=attempt.provider,
            model=attempt.model,
            key_name=attempt.key_name,
            status=status,
            fault_type=fault.type if fault else None,
            fault_code=fault.code if fault else None,
            reason=reason,
            latency_ms=round(latency_ms),
        )
        span_id = 0 if self.context is None else self.context.end_attempt()
        number = len(self._rounds) - 1
        self._attempts.append(EndedAttempt(row=row, at_ms=at_ms, round=number, span_id=span_id))
        self._tracer.record(row)

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
        failure: FailureRecord | None,
        latency_ms: float | None,
        diagnostics: Sequence[Diagnostic],
        partial_usage: ResponseUsage | None = None,
    ) -> None:
        """Record the outcome of the run, whatever it is. `partial_usage` is what an answer without
        token counts has used."""
        latency = None if latency_ms is None else round(latency_ms)
        for each in diagnostics:
            self._tracer.record(
                TraceDiagnostic(
                    request_id=self._id,
                    code=each.code,
                    decision=each.decision,
                    param=each.param,
                    message=each.message,
                )
            )
        if failure is not None:
            self._record_failure(failure)
        self._record_streams()
        response = self.transformed.response
        usage = partial_usage or (None if response is None else response.usage)
        self._record_end(response, latency, usage, failed=failure is not None)

    def _record_failure(self, failure: FailureRecord) -> None:
        answered, self._code = self._answered, failure.code
        self._tracer.record(
            TraceError(
                request_id=self._id,
                code=failure.code,
                message=failure.message,
                reason=failure.reason,
                provider=answered.provider if answered else self.facts["provider"],
                model=answered.model if answered else self.facts["provider_model"],
            )
        )

    def abort(self) -> None:
        """Record the end of a run that could not be entered."""
        self._record_end(None, None, None, failed=True)

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

    def _record_end(
        self,
        response: Response | None,
        latency: int | None,
        usage: ResponseUsage | None,
        *,
        failed: bool,
    ) -> None:
        if response is not None:
            status: str = response.status
        else:
            status = "failed" if failed else "cancelled"
        answered = self._answered
        cost = compute_cost(answered.price if answered else None, usage)
        if usage is not None:
            self._record_usage(usage, cost)
        first_event, duration_ms = self._first_event_ms, self.elapsed_ms()
        self._tracer.record(
            TraceFinish(
                request_id=self._id,
                status=status,
                duration_ms=round(duration_ms),
                upstream_latency_ms=latency,
                first_event_ms=None if first_event is None else round(first_event),
                events=self.transformed.event_count,
                provider=answered.provider if answered else "",
                provider_model=answered.model if answered else "",
                dialect=answered.dialect if answered else "",
                key_name=answered.key_name if answered else None,
            )
        )
        self._accounting.record(self._ended(status, usage, cost, duration_ms))

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

    def _ended(
        self, status: str, usage: ResponseUsage | None, cost: int | None, duration_ms: float
    ) -> EndedRequest:
        answered, facts = self._answered, self.facts
        return EndedRequest(
            request_id=self._id,
            received_at_ms=self._began_ms,
            client=facts["client"],
            provider=answered.provider if answered else facts["provider"],
            model=answered.model if answered else facts["provider_model"],
            status=status,
            usage=usage,
            cost=cost,
            first_event_ms=self._first_event_ms,
            response_id=facts["response_id"],
            requested_model=facts["model"],
            duration_ms=duration_ms,
            events=self.transformed.event_count,
            code=self._code,
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
