"""Run trace: the rows that one run leaves in the trace, from its request to its outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.config import TraceConfig
from antiphon.core.faults.fault import ProviderFault
from antiphon.core.plan.plan import Diagnostic
from antiphon.engine.routing import Target
from antiphon.engine.runtime import Runtime
from antiphon.pipeline.trace import PayloadTraceStage, RawTap, TraceStage
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
from antiphon.wire.response import Response
from antiphon.wire.sse import SSEEncoder


@dataclass(frozen=True)
class Tracer:
    """Writer of trace rows; without a store it drops them."""

    store: TraceStore | None
    now_ms: Callable[[], int]

    @property
    def keeps_payloads(self) -> bool:
        return self.store is not None and self.store.options.payloads

    def record(self, row: TraceRow) -> None:
        if self.store is not None:
            self.store.record(row)

    def close(self) -> None:
        if self.store is not None:
            self.store.close()


@dataclass(frozen=True)
class AttemptRecord:
    """One attempt for the trace: the provider, the model, and the key by its number."""

    number: int
    provider: str
    model: str
    key_name: str
    dialect: str = ""


@dataclass(frozen=True)
class FailureRecord:
    """Why a response failed: as its client reads it, and in the provider's own words."""

    code: str
    message: str
    reason: str | None = None


class RunTrace:
    """Everything one run records: its request row in `begin`, its outcome in `finish`."""

    def __init__(
        self, tracer: Tracer, facts: Mapping[str, Any], elapsed_ms: Callable[[], float]
    ) -> None:
        keep = tracer.keeps_payloads
        self._tracer = tracer
        self._id: str = facts["request_id"]
        self.keeps_payloads = keep
        self.elapsed_ms = elapsed_ms
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
        self._has_output = False

    def begin(self, skipped: Iterable[tuple[Target, str]] = ()) -> None:
        """Record the request, and targets that cannot serve it; `finish` or `abort` must follow."""
        self._tracer.record(TraceRequest(received_at_ms=self._began_ms, **self.facts))
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
        if fault is None or not self._has_output:
            self._answered = attempt
        self._has_output = self._has_output or fault is None
        self._tracer.record(
            TraceAttempt(
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
        )

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
    ) -> None:
        """Record the outcome of the run, whatever it is."""
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
        self._record_end(self.transformed.response, latency, failed=failure is not None)

    def _record_failure(self, failure: FailureRecord) -> None:
        answered = self._answered
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
        self._record_end(None, None, failed=True)

    def _record_streams(self) -> None:
        if not isinstance(self.transformed, PayloadTraceStage):
            return  # payloads are not kept
        taps = {"request": self.request, "outbound": self.outbound, "raw": self.raw}
        for kind, tap in taps.items():
            self._record_stream(kind, tap.blob, tap.offsets)
        blob, offsets = _encode_events(self.transformed)
        self._record_stream("transformed", blob, offsets)

    def _record_stream(self, kind: Any, blob: bytes, offsets: Sequence[tuple[int, float]]) -> None:
        if blob:
            times = [(offset, self._began_ms + round(at_ms)) for offset, at_ms in offsets]
            self._tracer.record(
                TraceStream(request_id=self._id, kind=kind, blob=blob, offsets=times)
            )

    def _record_end(self, response: Response | None, latency: int | None, *, failed: bool) -> None:
        if response is not None and (usage := response.usage) is not None:
            self._tracer.record(
                TraceUsage(
                    request_id=self._id,
                    input_tokens=usage.input_tokens,
                    cached_tokens=usage.input_tokens_details.cached_tokens,
                    output_tokens=usage.output_tokens,
                    reasoning_tokens=usage.output_tokens_details.reasoning_tokens,
                )
            )
        if response is not None:
            status: str = response.status
        else:
            status = "failed" if failed else "cancelled"
        answered = self._answered
        self._tracer.record(
            TraceFinish(
                request_id=self._id,
                status=status,
                duration_ms=round(self.elapsed_ms()),
                upstream_latency_ms=latency,
                events=self.transformed.event_count,
                provider=answered.provider if answered else "",
                provider_model=answered.model if answered else "",
                dialect=answered.dialect if answered else "",
                key_name=answered.key_name if answered else None,
            )
        )


def _encode_events(stage: PayloadTraceStage) -> tuple[bytes, list[tuple[int, float]]]:
    """Encode the events as the client received them, with offset and time of every batch."""
    encoder = SSEEncoder()
    pieces: list[bytes] = []
    offsets: list[tuple[int, float]] = []
    size = 0
    for at_ms, events in stage.batches:
        offsets.append((size, at_ms))
        pieces.append(encoder.feed(events))
        size += len(pieces[-1])
    return b"".join(pieces), offsets


def open_tracer(config: TraceConfig, data: Path, runtime: Runtime, redactor: Redactor) -> Tracer:
    if not config.enabled:
        return Tracer(None, runtime.now_ms)
    options = TraceOptions(
        payloads=config.payloads,
        payload_max_bytes=config.payload_max_bytes,
        max_age_s=config.max_age_s,
        max_bytes=config.max_bytes,
    )
    path = Path(config.path) if config.path else data / "trace.db"
    store = TraceStore(path, now_ms=runtime.now_ms, redactor=redactor, options=options)
    store.open()
    return Tracer(store, runtime.now_ms)
