"""Error classification: the fault behind an HTTP status, headers and a body, or a stream chunk.

1. The integer HTTP status decides first, the provider's own code second, its wording last; the
   last two only refine. A number in a message is never a status.
2. Classification is total: any status, any headers, any bytes give a complete fault.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from antiphon.core.faults.body import (
    TEXT_LIMIT,
    ErrorReading,
    carries_error,
    read_body,
    read_document,
    read_retry_delay,
)
from antiphon.core.faults.fault import ProviderFault, UpstreamDetails, fault_of_kind
from antiphon.core.faults.kinds import (
    KIND_BY_STATUS,
    PASSED_THROUGH_CODES,
    UNAMBIGUOUS_STATUSES,
    FaultKind,
)
from antiphon.core.faults.vendor_codes import (
    CAUSES,
    PHRASES,
    STATUS_NAMES,
    VAGUE,
    find_kinds,
)


def classify(
    status: int | None, headers: Mapping[str, str], body: bytes, *, now: float | None = None
) -> ProviderFault:
    """The fault behind an HTTP response. `now`, in Unix time, resolves a `Retry-After` date."""
    lower = {name.lower(): value for name, value in headers.items()}
    reading = read_body(body)
    reading.add_headers(lower)
    delay_s = read_retry_delay(lower, reading, now)
    original = body[:TEXT_LIMIT].decode("utf-8", "replace")
    fault = _make_fault(status, reading, delay_s, original)
    if lower.get("x-should-retry") == "false":
        return msgspec.structs.replace(fault, retryable=False)
    return fault


def classify_document(
    document: Mapping[str, object], status: int | None = None
) -> ProviderFault | None:
    """The fault in a chunk of a stream or in the body of a 200; None if there is none."""
    if not carries_error(document):
        return None
    reading = read_document(document)
    return _make_fault(status, reading, read_retry_delay({}, reading), _encode_document(document))


def _encode_document(document: Mapping[str, object]) -> str:
    try:
        encoded = msgspec.json.encode(document, enc_hook=repr)
    except (TypeError, ValueError, RecursionError):  # not from JSON, so not from a provider
        return ""
    return encoded[:TEXT_LIMIT].decode("utf-8", "replace")


def _make_fault(
    status: int | None, reading: ErrorReading, delay_s: float | None, original: str
) -> ProviderFault:
    if status is None or not 300 <= status <= 599:
        status = reading.status
    kind = _decide_kind(status, reading, has_delay=delay_s is not None)
    code = str(status) if kind is FaultKind.API_ERROR else kind
    if original.strip():
        fault = fault_of_kind(kind, reading.text, code)
    else:
        fault = fault_of_kind(kind, f"HTTP {status}, without a body", code)
    return msgspec.structs.replace(
        fault,
        public_code=reading.code if reading.code in PASSED_THROUGH_CODES else fault.public_code,
        status=status,
        retry_after_s=delay_s,
        upstream=UpstreamDetails(
            type=reading.type,
            code=reading.code,
            param=reading.param,
            request_id=reading.request_id,
        ),
        original=original,
    )


def _decide_kind(status: int | None, reading: ErrorReading, *, has_delay: bool) -> FaultKind:
    cause = next(find_kinds(CAUSES, reading.codes), None)
    if status in UNAMBIGUOUS_STATUSES:
        # Perplexity and OpenCode reject the key of a used-up account, which works again later.
        is_used_up = (status, cause) == (401, FaultKind.BILLING)
        return FaultKind.BILLING if is_used_up else KIND_BY_STATUS[status]
    if cause not in (None, FaultKind.BILLING):
        return cause
    first = cause or _kind_from_status(status, reading)
    text = reading.text
    phrases = (p.kind for p in PHRASES if p.matches(first, text, has_delay=has_delay))
    return next(phrases, first)


_KIND_BY_FAMILY = {3: FaultKind.REDIRECTED, 4: FaultKind.API_ERROR, 5: FaultKind.SERVER_ERROR}
_REFINED_BY_CODE = frozenset(
    {
        FaultKind.INVALID_REQUEST,
        FaultKind.API_ERROR,
        FaultKind.PERMISSION,
        FaultKind.NOT_FOUND,
    }
)


def _kind_from_status(status: int | None, reading: ErrorReading) -> FaultKind:
    """The kind that the status stands for, or the codes that name one in its place."""
    named = list(find_kinds(STATUS_NAMES, reading.codes))
    if status is None:
        return next(iter(named), FaultKind.UNKNOWN)
    kind = KIND_BY_STATUS.get(status) or _KIND_BY_FAMILY[status // 100]
    if kind is FaultKind.OVERLOADED and reading.code == FaultKind.SERVER_ERROR:
        return FaultKind.SERVER_ERROR  # so a gateway of this kind reports it, with status 503
    if kind not in _REFINED_BY_CODE:
        return kind
    # Many servers answer 400 to everything that is not their own fault.
    return next((name for name in named if name not in VAGUE), kind)
