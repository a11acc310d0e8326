"""Trace rows: small frozen records, each about one request. Every request makes four of them, with
positional arguments: a keyword argument takes six times as long as a positional one.

A stream is one blob with the offsets and arrival times of its chunks, written once; events are
parsed from it when the trace is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, fields, replace

StreamKind: TypeAlias = Literal["request", "outbound", "raw", "transformed", "client"]
"""The client's request, the request to the provider, its raw response, the events of the response;
and the response as the client got it, if its format has no such events."""


class _RequestRow(Struct, frozen=True, tag_field="row", omit_defaults=True):
    request_id: str


class TraceRequest(_RequestRow, frozen=True, tag="request"):
    """A request, recorded once its provider and model are known."""

    received_at_ms: int
    model: str
    response_id: str | None = None
    client: str | None = None
    """The name of the client's key, never the key."""
    software: str = ""
    """The name and version of the client's software, as its headers have them."""
    format: str = ""
    """The name of the client dialect: `responses`, `chat` or `messages`."""
    provider: str = ""
    provider_model: str = ""
    stream: bool = False
    session: str | None = None
    """The thread that the request belongs to."""
    previous_response_id: str | None = None


class TraceAttempt(_RequestRow, frozen=True, tag="attempt"):
    """One attempt at one provider with one key."""

    number: int
    provider: str
    model: str
    key_name: str | None = None
    status: int | None = None
    """The provider's HTTP status; None if there was no response."""
    latency_ms: int | None = None
    fault_type: str | None = None
    fault_code: str | None = None
    reason: str | None = None
    """The provider's own words, without secrets and quotes of the request."""
    upstream_type: str | None = None
    upstream_code: str | None = None
    upstream_param: str | None = None
    upstream_request_id: str | None = None
    """The provider's own id of the request."""
    upstream_body: str | None = None
    """The body of its error, in the same way, cut to 2 kB."""


class TraceStream(_RequestRow, frozen=True, kw_only=True, tag="stream"):
    """All bytes of one side, with the offset and arrival time (ms since the epoch) of chunks."""

    kind: StreamKind
    attempt: int = 0
    """The number of the attempt that failed and sent this; 0: of those that the response is of."""
    blob: bytes = b""
    offsets: Sequence[tuple[int, int]] = ()
    rounds: Sequence[int] = ()
    """How many chunks there are before each of the later rounds."""
    size: int = 0
    """Bytes of the whole stream; the blob may hold fewer. Set by the trace, as the next two."""
    chunks: int = 0
    truncated: bool = False

    def split_chunks(self) -> list[tuple[int, bytes]]:
        """Return the stored part of each chunk with its arrival time."""
        ranges = pairwise([*self.offsets, (len(self.blob), 0)])
        return [(at_ms, self.blob[start:end]) for (start, at_ms), (end, _) in ranges]


class TraceUsage(_RequestRow, frozen=True, tag="usage"):
    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False
    """The provider sent no counts: these are estimated by length."""
    cost: float | None = None
    """In US dollars; None: the price of the model is unknown."""


class TraceSkip(_RequestRow, frozen=True, kw_only=True, tag="skip"):
    """A target that was not tried, and why."""

    provider: str
    model: str
    reason: str


class TraceServerCall(_RequestRow, frozen=True, kw_only=True, tag="server_call"):
    """One call of an MCP server: a list of its tools, or a call of one."""

    server: str
    """The label of the server."""
    tool: str | None = None
    """None: a list of the server's tools."""
    item_id: str
    """The item of the response, which has arguments and result."""
    error: str | None = None
    """The type of the error; None: there was none."""
    reason: str | None = None
    """Why the server could not be used, in the gateway's own words."""
    result_bytes: int = 0
    """Size of the result; of a list, the number of tools."""
    duration_ms: int = 0


class TraceError(_RequestRow, frozen=True, kw_only=True, tag="error"):
    """Why a request failed or was rejected."""

    code: str
    message: str
    """What its client was told."""
    reason: str | None = None
    """The provider's own words, without secrets and quotes of the request."""
    param: str | None = None
    provider: str = ""
    model: str = ""
    stage: str | None = None
    chunks: int | None = None
    """Chunks of a stream that the provider cut."""
    stream_ms: int | None = None
    """From the request to the provider until it cut its stream."""


class TraceDiagnostic(_RequestRow, frozen=True, kw_only=True, tag="diagnostic"):
    code: str
    decision: str
    param: str
    message: str


class TraceFinish(_RequestRow, frozen=True, tag="finish"):
    """The end of a request. `http_status` is the gateway's, `status` that of the response.

    Provider, model, dialect and key are those of the attempt that answered, or of the last one.
    """

    status: str
    duration_ms: int
    finish_reason: str | None = None
    """Why the model stopped, in the provider's own word."""
    upstream_latency_ms: int | None = None
    first_event_ms: int | None = None
    """From the request to the first output."""
    events: int = 0
    provider: str = ""
    provider_model: str = ""
    dialect: str = ""
    key_name: str | None = None
    """The number of the key in the configuration, never the key."""
    http_status: int | None = None


class TraceLoss(_RequestRow, frozen=True, kw_only=True, tag="loss"):
    """Rows lost before one flush. Belongs to no request."""

    request_id: str = ""
    low: int = 0
    """Streams dropped because the queue was full."""
    high: int = 0
    """Other rows dropped because the queue was full."""
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
    | TraceSkip
    | TraceServerCall
    | TraceStream
    | TraceUsage
    | TraceError
    | TraceDiagnostic
    | TraceFinish
    | TraceLoss
)

decode_row = msgspec.json.Decoder(TraceRow).decode
"""Decode a row from its JSON."""

KINDS: dict[type[TraceRow], str] = {
    kind: str(kind.__struct_config__.tag) for kind in get_args(TraceRow)
}
"""The tag of each type of row."""


def _list_texts(kind: type[Struct]) -> list[str]:
    return [field.name for field in fields(kind) if field.type in (str, str | None)]


_TEXTS: dict[type[TraceRow], list[str]] = {kind: _list_texts(kind) for kind in KINDS}

_ONLY_ID = frozenset({TraceStream, TraceUsage})
"""Rows whose only text, but for a payload, is the id of the request."""


def collect_texts(rows: Iterable[TraceRow]) -> set[str]:
    """Return every text in rows but the payloads, each once."""
    values: set[Any] = set()
    for row in rows:
        if type(row) in _ONLY_ID:
            values.add(row.request_id)
        else:
            values.update(astuple(row))
    return {value for value in values if type(value) is str}


def replace_texts(row: TraceRow, change: Callable[[str], str]) -> TraceRow:
    """Return a row with every text but its payload changed by a function."""
    texts = {name: getattr(row, name) for name in _TEXTS[type(row)]}
    return replace(row, **{name: change(text) for name, text in texts.items() if text})
