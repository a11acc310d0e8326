"""What a trace is made of: small frozen facts, each about one request.

A stream is one blob with the offsets and arrival times of its chunks, written once; events are
derived from it when somebody looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

StreamKind: TypeAlias = Literal["request", "outbound", "raw", "transformed"]
"""What the client asked, what was asked upstream, what came back, what the client was sent."""


class _Row(Struct, frozen=True, kw_only=True, tag_field="row", omit_defaults=True):
    request_id: str


class TraceRequest(_Row, frozen=True, kw_only=True, tag="request"):
    """A request, as soon as it is known where it goes."""

    response_id: str | None = None
    received_at_ms: int
    client: str | None = None
    """The name of the client's key, never the key."""
    model: str
    provider: str = ""
    provider_model: str = ""
    stream: bool = False
    previous_response_id: str | None = None


class TraceAttempt(_Row, frozen=True, kw_only=True, tag="attempt"):
    """One try at one upstream with one key."""

    number: int
    provider: str
    model: str
    key_name: str | None = None
    status: int | None = None
    """The upstream's HTTP status; None when there was no answer."""
    fault_type: str | None = None
    fault_code: str | None = None
    latency_ms: int | None = None


class TraceStream(_Row, frozen=True, kw_only=True, tag="stream"):
    """All bytes of one side, with where each chunk began and when it came (ms since the epoch)."""

    kind: StreamKind
    blob: bytes = b""
    offsets: Sequence[tuple[int, int]] = ()
    size: int = 0
    """Bytes there were. These three are set by the trace, which may keep less, or nothing."""
    chunks: int = 0
    truncated: bool = False

    def pieces(self) -> list[tuple[int, bytes]]:
        """What is kept of each chunk, with its time."""
        edges = pairwise([*self.offsets, (len(self.blob), 0)])
        return [(at_ms, self.blob[start:end]) for (start, at_ms), (end, _) in edges]


class TraceUsage(_Row, frozen=True, kw_only=True, tag="usage"):
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0


class TraceError(_Row, frozen=True, kw_only=True, tag="error"):
    code: str
    message: str
    stage: str | None = None


class TraceDiagnostic(_Row, frozen=True, kw_only=True, tag="diagnostic"):
    code: str
    decision: str
    param: str
    message: str


class TraceFinish(_Row, frozen=True, kw_only=True, tag="finish"):
    """How it ended. `http_status` is ours, `status` that of the response."""

    status: str
    http_status: int | None = None
    duration_ms: int
    upstream_latency_ms: int | None = None
    events: int = 0


class TraceLoss(_Row, frozen=True, kw_only=True, tag="loss"):
    """What one flush could not keep. It belongs to no request."""

    request_id: str = ""
    low: int = 0
    """Streams that gave way to other rows."""
    high: int = 0
    failed: int = 0
    """Rows that could not be written."""

    @property
    def total(self) -> int:
        return self.low + self.high + self.failed

    def __add__(self, other: TraceLoss) -> TraceLoss:
        return TraceLoss(
            low=self.low + other.low,
            high=self.high + other.high,
            failed=self.failed + other.failed,
        )


TraceRow: TypeAlias = (
    TraceRequest
    | TraceAttempt
    | TraceStream
    | TraceUsage
    | TraceError
    | TraceDiagnostic
    | TraceFinish
    | TraceLoss
)

decode_row = msgspec.json.Decoder(TraceRow).decode
"""A row from its JSON."""
