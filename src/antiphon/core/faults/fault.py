"""Provider faults: one type for the failures of every provider, and constructors for our own.

`code` is always one of Antiphon's, or shaped like one. The provider's own text is kept apart, for
logs; what clients may read comes from `core.faults.messages`.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec
from msgspec import Struct

from antiphon.core.faults.body import TEXT_LIMIT
from antiphon.core.faults.kinds import ERROR_CODES, FAULT_KINDS, FaultKind, FaultType, Scope

__all__ = [
    "ERROR_CODES",
    "FaultType",
    "ProviderFault",
    "Scope",
    "StreamProgress",
    "UpstreamDetails",
    "blocked_fault",
    "cancelled_fault",
    "connection_fault",
    "cooldown_s",
    "cut_fault",
    "fault_of_kind",
    "internal_fault",
    "is_permanent",
    "list_frames",
    "mcp_fault",
    "normalize_code",
    "out_of_files_fault",
    "protocol_fault",
    "shutdown_fault",
    "timeout_fault",
]


class UpstreamDetails(Struct, frozen=True, kw_only=True):
    """The provider's own type, code, parameter and request id. For logs: each may be any text."""

    type: str | None = None
    code: str | None = None
    param: str | None = None
    request_id: str | None = None


class StreamProgress(Struct, frozen=True):
    """How far a stream had come when it was cut."""

    chunks: int
    seconds: float
    """Since the request was sent."""


class ProviderFault(Struct, frozen=True, kw_only=True):
    """A normalized failure of a provider.

    `message` and `original` are the provider's text and may hold secrets and content: they are for
    log and trace, which keep them without either.
    `public_code` is the `error.code` of a failed response, `http_status` the gateway's status for
    a client that has received nothing yet.
    """

    type: FaultType
    code: str
    message: str
    retryable: bool
    scope: Scope
    public_code: str
    http_status: int
    status: int | None = None
    retry_after_s: float | None = None
    progress: StreamProgress | None = None
    """Of a stream that was cut."""
    upstream: UpstreamDetails = UpstreamDetails()
    original: str = ""


def normalize_code(code: str | None) -> str:
    """Return an `error.code` that clients know; anything else becomes `server_error`."""
    return code if code is not None and code in ERROR_CODES else "server_error"


_NEEDS_OPERATOR = frozenset({FaultKind.AUTH, FaultKind.PERMISSION, FaultKind.REDIRECTED})
_TEMPORARY_STATUSES = frozenset({408, 425, 426, 429})


def is_permanent(fault: ProviderFault) -> bool:
    """Whether the same request fails until its sender or the operator changes something."""
    if fault.http_status < 500:
        return fault.http_status not in _TEMPORARY_STATUSES
    return fault.code in _NEEDS_OPERATOR or _is_said_to_be_final(fault)


def _is_said_to_be_final(fault: ProviderFault) -> bool:
    """Whether the server itself says that a retry is in vain, of a fault that may pass elsewhere:
    so does a gateway about a key of its own."""
    row = FAULT_KINDS.get(fault.code)
    return row is not None and row.retryable and not fault.retryable


def cooldown_s(fault: ProviderFault) -> float | None:
    """How long the fault's scope must not be used: the longer of our delay and the provider's."""
    row = FAULT_KINDS.get(fault.code)
    if row is None or row.cooldown_s is None:
        return None
    return max(row.cooldown_s, fault.retry_after_s or 0.0)


# Constructors for failures that the gateway detects itself


def protocol_fault(message: str, code: str = FaultKind.INVALID_CHUNK) -> ProviderFault:
    """The provider broke its own protocol, or its response exceeds a limit."""
    is_too_large = code == FaultKind.RESPONSE_TOO_LARGE
    kind = FaultKind.RESPONSE_TOO_LARGE if is_too_large else FaultKind.INVALID_CHUNK
    return fault_of_kind(kind, message, code)


def timeout_fault(kind: Literal["connect", "first_token", "idle", "total"]) -> ProviderFault:
    """One of the gateway's timeouts expired."""
    return fault_of_kind(FaultKind(f"{kind}_timeout"), f"the {kind} timeout expired")


def connection_fault(message: str) -> ProviderFault:
    """The provider could not be reached, or the connection broke before any output."""
    return fault_of_kind(FaultKind.CONNECTION_FAILED, message)


def cut_fault(message: str, progress: StreamProgress) -> ProviderFault:
    """The provider closed the connection in the middle of its stream."""
    chunks = "1 chunk" if progress.chunks == 1 else f"{progress.chunks} chunks"
    counted = f"{message}, after {chunks} in {progress.seconds:.1f} s"
    fault = fault_of_kind(FaultKind.STREAM_CUT, counted)
    return msgspec.structs.replace(fault, progress=progress)


def cancelled_fault() -> ProviderFault:
    """The client disconnected."""
    return fault_of_kind(FaultKind.CANCELLED, "the client disconnected")


def blocked_fault(code: str) -> ProviderFault:
    """The provider withheld the response; `code` is its own name for the reason."""
    return fault_of_kind(FaultKind.CONTENT_BLOCKED, code, code)


def internal_fault(error: BaseException) -> ProviderFault:
    """An unexpected exception in the gateway; `original` is where it was raised, line by line. A
    thread that cannot be started is no defect: the system allows no more."""
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return fault_of_kind(FaultKind.OUT_OF_THREADS, OUT_OF_THREADS)
    fault = fault_of_kind(FaultKind.INTERNAL, f"{type(error).__name__}: {error}")
    return msgspec.structs.replace(fault, original="\n".join(list_frames(error)))


def list_frames(error: BaseException) -> list[str]:
    """List the places of a traceback, the innermost last: files, lines and names, no values."""
    frames: list[str] = []
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        frames.append(f"{code.co_filename}:{traceback.tb_lineno} in {code.co_qualname}")
        traceback = traceback.tb_next
    return frames[-_MAX_FRAMES:]


def mcp_fault(label: str, message: str) -> ProviderFault:
    """An MCP server did not list its tools. `label` is the client's name for it; `message` is the
    gateway's own, and may be shown."""
    fault = fault_of_kind(FaultKind.MCP_LIST, message)
    return msgspec.structs.replace(fault, upstream=UpstreamDetails(param=label))


def shutdown_fault() -> ProviderFault:
    """The gateway process is shutting down."""
    return fault_of_kind(FaultKind.SHUTDOWN, "the gateway is shutting down")


def out_of_files_fault(message: str) -> ProviderFault:
    """The gateway has no file descriptor left for a connection to the provider."""
    return fault_of_kind(FaultKind.OUT_OF_FILES, message)


_MAX_FRAMES = 40
_NO_THREAD = "can't start new thread"  # the text of Python's own error
OUT_OF_THREADS = (
    "no further thread can be started; raise the limit of the system (`ulimit -u`, `TasksMax` of"
    " systemd, `pids` of a container)"
)
_CODE_SHAPED = re.compile("[A-Za-z][A-Za-z0-9_]{0,63}|[0-9]{3}")


def fault_of_kind(kind: FaultKind, message: str, code: str = "") -> ProviderFault:
    """Make a fault from its kind's row. A `code` that is not shaped like a code is not used."""
    row = FAULT_KINDS[kind]
    return ProviderFault(
        type=row.type,
        code=str(code if _CODE_SHAPED.fullmatch(code) else kind),
        message=message[:TEXT_LIMIT],
        retryable=row.retryable,
        scope=row.scope,
        public_code=row.public_code,
        http_status=row.http_status,
    )
