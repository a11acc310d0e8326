"""A fault: what a provider's failure means, in words that do not depend on the provider.

1. The integer HTTP status speaks first, the provider's own code second, its wording last, and the
   last two only refine. A number in a message is never a status.
2. Classification is total: any status, any headers, any bytes give a complete fault.
3. `code` is always one of ours, or shaped like one. The provider's own words are kept apart, for
   logs; what people may read comes from `core.locale`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from antiphon.core.faults.body import (
    TEXT_LIMIT,
    Reading,
    carries_error,
    read_body,
    read_document,
    retry_after_s,
)
from antiphon.core.faults.kinds import (
    ERROR_CODES,
    FIRM_STATUSES,
    QUOTED_CODES,
    ROWS,
    STATUSES,
    FaultType,
    Kind,
    Scope,
)
from antiphon.core.faults.vendor_codes import CAUSES, ECHOES, PHRASES, VAGUE, WORD, kinds_of

__all__ = [
    "ERROR_CODES",
    "FaultType",
    "ProviderFault",
    "Scope",
    "Upstream",
    "blocked_fault",
    "cancelled_fault",
    "classify",
    "classify_document",
    "connection_fault",
    "cooldown_s",
    "internal_fault",
    "is_permanent",
    "normalize_code",
    "protocol_fault",
    "shutdown_fault",
    "timeout_fault",
]


class Upstream(Struct, frozen=True, kw_only=True):
    """The provider's own names for what happened. For logs: any of them may be any text."""

    type: str | None = None
    code: str | None = None
    param: str | None = None
    request_id: str | None = None


class ProviderFault(Struct, frozen=True, kw_only=True):
    """A normalized failure of an upstream.

    `message` and `original` are the provider's words and may hold secrets: they are for logs.
    `public_code` is the `error.code` of a failed response, `http_status` our own answer to a client
    that has seen nothing yet.
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
    upstream: Upstream = Upstream()
    original: str = ""


def normalize_code(code: str | None) -> str:
    """An `error.code` that clients know; anything else is a `server_error`."""
    return code if code is not None and code in ERROR_CODES else "server_error"


_UNMENDED = frozenset({Kind.AUTH, Kind.PERMISSION, Kind.REDIRECTED})
_PASSING = frozenset({408, 425, 426, 429})


def is_permanent(fault: ProviderFault) -> bool:
    """Whether somebody has to mend something before it makes sense to ask again."""
    refused = 400 <= fault.http_status < 500 and fault.http_status not in _PASSING
    return refused or fault.code in _UNMENDED


def cooldown_s(fault: ProviderFault) -> float | None:
    """How long the fault's scope should rest: our time, or the provider's if that is longer."""
    row = ROWS.get(fault.code)
    if row is None or row.cooldown_s is None:
        return None
    return max(row.cooldown_s, fault.retry_after_s or 0.0)


# What a provider said


def classify(
    status: int | None, headers: Mapping[str, str], body: bytes, *, now: float | None = None
) -> ProviderFault:
    """The fault behind an HTTP answer. `now`, in Unix time, resolves a `Retry-After` date."""
    known = {name.lower(): value for name, value in headers.items()}
    reading = read_body(body)
    if declared := known.get("x-amzn-errortype"):
        reading.codes.insert(0, (WORD, declared))
        reading.type = reading.type or declared.partition(":")[0]
    for name in ("x-request-id", "request-id", "x-amzn-requestid"):
        reading.request_id = reading.request_id or known.get(name)
    delay_s = retry_after_s(known, reading, now)
    return _judge(status, reading, delay_s, body[:TEXT_LIMIT].decode("utf-8", "replace"))


def classify_document(
    document: Mapping[str, object], status: int | None = None
) -> ProviderFault | None:
    """The fault in a chunk of a healthy stream or in the body of a 200; None if there is none."""
    if not carries_error(document):
        return None
    reading = read_document(document)
    return _judge(status, reading, retry_after_s({}, reading), _encoded(document))


def _encoded(document: Mapping[str, object]) -> str:
    try:
        encoded = msgspec.json.encode(document, enc_hook=repr)
    except (TypeError, ValueError, RecursionError):  # not from JSON, so not from a provider
        return ""
    return encoded[:TEXT_LIMIT].decode("utf-8", "replace")


def _judge(
    status: int | None, reading: Reading, delay_s: float | None, original: str
) -> ProviderFault:
    if status is None or not 300 <= status <= 599:
        status = reading.status
    kind = _kind(status, reading, delayed=delay_s is not None)
    fault = _fault(kind, reading.text, code=str(status) if kind is Kind.API_ERROR else kind)
    return msgspec.structs.replace(
        fault,
        public_code=reading.code if reading.code in QUOTED_CODES else fault.public_code,
        status=status,
        retry_after_s=delay_s,
        upstream=Upstream(
            type=reading.type,
            code=reading.code,
            param=reading.param,
            request_id=reading.request_id,
        ),
        original=original,
    )


def _kind(status: int | None, reading: Reading, *, delayed: bool) -> Kind:
    if status in FIRM_STATUSES:
        return STATUSES[status]
    first = _first_kind(status, reading)
    cause = next(kinds_of(CAUSES, reading.codes), None)
    if cause is not None:
        return cause
    text = reading.text
    phrases = (p.kind for p in PHRASES if p.fits(first, text, delayed=delayed))
    return next(phrases, first)


_FAMILIES = {3: Kind.REDIRECTED, 4: Kind.API_ERROR, 5: Kind.SERVER_ERROR}
_LOOSE = frozenset({Kind.INVALID_REQUEST, Kind.API_ERROR, Kind.PERMISSION, Kind.NOT_FOUND})


def _first_kind(status: int | None, reading: Reading) -> Kind:
    """What the status says, or the codes that stand in for one."""
    echoes = list(kinds_of(ECHOES, reading.codes))
    if status is None:
        return next(iter(echoes), Kind.UNKNOWN)
    kind = STATUSES.get(status) or _FAMILIES[status // 100]
    if kind not in _LOOSE:
        return kind
    # Many servers answer 400 to everything that is not their own fault.
    return next((echo for echo in echoes if echo not in VAGUE), kind)


# What we saw ourselves


def protocol_fault(message: str, code: str = Kind.INVALID_CHUNK) -> ProviderFault:
    """The provider broke its own protocol."""
    return _fault(Kind.INVALID_CHUNK, message, code)


def timeout_fault(kind: Literal["connect", "first_token", "idle", "total"]) -> ProviderFault:
    """A time of ours ran out."""
    return _fault(Kind(f"{kind}_timeout"), f"{kind} timeout")


def connection_fault(message: str) -> ProviderFault:
    """The provider could not be reached, or the line broke before it said anything."""
    return _fault(Kind.CONNECTION_FAILED, message)


def cancelled_fault() -> ProviderFault:
    """The client has gone."""
    return _fault(Kind.CANCELLED, "the client has gone")


def blocked_fault(code: str) -> ProviderFault:
    """The provider withheld the answer; `code` is its own word for the reason."""
    return _fault(Kind.CONTENT_BLOCKED, code, code)


def internal_fault(error: BaseException) -> ProviderFault:
    """A bug of ours."""
    return _fault(Kind.INTERNAL, f"{type(error).__name__}: {error}")


def shutdown_fault() -> ProviderFault:
    """This process is going down."""
    return _fault(Kind.SHUTDOWN, "shutting down")


_CODE_SHAPED = re.compile("[A-Za-z][A-Za-z0-9_]{0,63}|[0-9]{3}")


def _fault(kind: Kind, message: str, code: str = "") -> ProviderFault:
    """A fault as its row describes it. A code of another shape than ours is not used."""
    row = ROWS[kind]
    return ProviderFault(
        type=row.type,
        code=str(code if _CODE_SHAPED.fullmatch(code) else kind),
        message=message[:TEXT_LIMIT],
        retryable=row.retryable,
        scope=row.scope,
        public_code=row.public_code,
        http_status=row.http_status,
    )
