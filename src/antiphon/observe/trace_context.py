"""W3C trace context: the ids of a request in a distributed trace, taken over and passed on.

traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
             version, trace id, id of the span that sent the request, flags (01: sampled)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from antiphon.engine.accounting import TraceHeaders

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MAX_STATE = 512  # characters of `tracestate` that are passed on
_SAMPLED = 1
_TRACE_ID_BYTES = 16
_SPAN_ID_BYTES = 8

RandomBytes = Callable[[int], bytes]


@dataclass
class SpanContext:
    """Ids of one request: its trace, the span that sent it, its own span, and its attempt."""

    trace_id: int
    parent_id: int | None
    """The span of the client; None: the trace begins here."""
    span_id: int
    is_sampled: bool
    state: str
    new_bytes: RandomBytes
    _attempt_id: int | None = field(default=None, init=False)

    def begin_attempt(self) -> Mapping[str, str]:
        """Return the headers that an attempt sends to its provider."""
        self._attempt_id = self.new_span_id()
        ids = f"{self.trace_id:032x}-{self._attempt_id:016x}"
        headers = {"traceparent": f"00-{ids}-{self.is_sampled:02x}"}
        return {**headers, "tracestate": self.state} if self.state else headers

    def end_attempt(self) -> int:
        """Return the span id of the attempt that was begun last, or a new one."""
        span_id, self._attempt_id = self._attempt_id, None
        return self.new_span_id() if span_id is None else span_id

    def new_span_id(self) -> int:
        return _new_id(self.new_bytes, _SPAN_ID_BYTES)


def take_over(headers: TraceHeaders, new_bytes: RandomBytes) -> SpanContext:
    """Continue the trace of a request; without a valid `traceparent`, begin a new one."""
    traceparent, state = headers
    parent = _parse(traceparent)
    span_id = _new_id(new_bytes, _SPAN_ID_BYTES)
    if parent is None:
        trace_id = _new_id(new_bytes, _TRACE_ID_BYTES)
        return SpanContext(trace_id, None, span_id, is_sampled=True, state="", new_bytes=new_bytes)
    trace_id, parent_id, flags = parent
    state = state if len(state) <= _MAX_STATE and state.isprintable() else ""
    is_sampled = bool(flags & _SAMPLED)
    return SpanContext(trace_id, parent_id, span_id, is_sampled, state, new_bytes)


def _parse(traceparent: str) -> tuple[int, int, int] | None:
    """Read trace id, parent id and flags. Later versions may have further fields."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
        return None
    trace_id, parent_id, flags = (int(found[number], 16) for number in (2, 3, 4))
    return (trace_id, parent_id, flags) if trace_id and parent_id else None


def _new_id(new_bytes: RandomBytes, size: int) -> int:
    return int.from_bytes(new_bytes(size)) or 1  # zero is not an id
