"""Fault report: what an operator reads of a failure in log and trace.

A provider's words, and the text of an unexpected exception, may quote the request, the answer or a
secret. They are kept without those, and cut to 2 kB, whether payloads are kept or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from antiphon.core.faults.body import TEXT_LIMIT
from antiphon.core.faults.fault import ProviderFault
from antiphon.core.faults.kinds import FaultKind, FaultType
from antiphon.engine.connection_errors import locate_fault
from antiphon.providers.registry import Provider
from antiphon.store.quoted_text import RequestTexts, remove_quotes
from antiphon.store.redact import Redactor

MAX_BYTES = 2048
_MARGIN = 512  # of a text that was cut before: a secret or a quote at its end is not recognised


class FaultReport(Struct, frozen=True, kw_only=True):
    """A failure as log and trace keep it."""

    code: str
    reason: str
    """The provider's words, or what the gateway itself found."""
    facts: Mapping[str, Any] = {}
    """The fields of the log entry."""


def clean_text(text: str, redactor: Redactor, texts: RequestTexts) -> str:
    """Return a text without secrets and quotes of the request, cut to 2 kB."""
    was_cut = len(text) >= TEXT_LIMIT
    cleaned = redactor.redact_text(remove_quotes(text[:TEXT_LIMIT], texts))
    if was_cut:
        cleaned = cleaned[: max(0, len(cleaned) - _MARGIN)]
    return cleaned.encode("utf-8", "replace")[:MAX_BYTES].decode("utf-8", "ignore").strip()


def log_fields(fault: ProviderFault) -> dict[str, Any]:
    """Return our own codes of a fault."""
    return {
        "fault": fault.type,
        "code": fault.code,
        "status": fault.status,
        "retry_after_s": fault.retry_after_s,
    }


def report_fault(
    fault: ProviderFault, redactor: Redactor, texts: RequestTexts, provider: Provider | None = None
) -> FaultReport:
    """Report a fault: of the provider, or of the gateway itself (`is_bug`)."""
    if is_bug(fault):
        return _report_bug(fault, redactor, texts)
    text = locate_fault(fault, provider) if provider else fault.message or fault.original
    reason = clean_text(text, redactor, texts)
    upstream = {
        "upstream_code": fault.upstream.code,
        "upstream_request_id": fault.upstream.request_id,
    }
    facts = {name: clean_text(text, redactor, texts) for name, text in upstream.items() if text}
    return FaultReport(
        code=fault.code, reason=reason, facts={**log_fields(fault), "reason": reason, **facts}
    )


def is_bug(fault: ProviderFault) -> bool:
    """Whether a fault is an unexpected exception in the gateway's own code."""
    return fault.type is FaultType.api_error and fault.code == FaultKind.INTERNAL


def _report_bug(fault: ProviderFault, redactor: Redactor, texts: RequestTexts) -> FaultReport:
    name, _, message = fault.message.partition(": ")
    message = clean_text(message, redactor, texts)
    facts = {"error": name, "message": message, "traceback": fault.original.splitlines()}
    return FaultReport(code=fault.code, reason=f"{name}: {message}", facts=facts)
