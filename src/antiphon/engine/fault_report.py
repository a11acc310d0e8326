"""Fault report: what an operator reads of a failure in log and trace.

A provider's words, and the text of an unexpected exception, may quote the request, the response or
a secret. They are kept without those, and cut to 2 kB, whether payloads are kept or not. Our own
messages name fields, tools and models: only secrets are removed from them. An error of the network
is explained with the error number of the operating system.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import aiohttp
from msgspec import Struct, structs

from antiphon.core.faults.body import TEXT_LIMIT
from antiphon.core.faults.fault import ProviderFault, StreamProgress
from antiphon.core.faults.kinds import FaultKind, FaultType
from antiphon.errors import ConnectionFailure
from antiphon.providers.registry import Provider
from antiphon.store.quoted_text import RequestTexts, remove_quotes
from antiphon.store.redact import Redactor

MAX_BYTES = 2048
_MARGIN = 512  # of a text that was cut before: a secret or a quote at its end is not recognised


class ProviderWords(Struct, frozen=True, kw_only=True):
    """What a provider said of a failure besides its message, as log and trace keep it."""

    type: str | None = None
    code: str | None = None
    param: str | None = None
    request_id: str | None = None
    """The provider's own id of the request, which its support asks for."""
    body: str | None = None
    """The body of its error; None if that is the message and nothing else."""


class FaultReport(Struct, frozen=True, kw_only=True):
    """A failure as log and trace keep it."""

    code: str
    reason: str | None = None
    """The provider's words, or what the gateway itself found."""
    message: str = ""
    """What the client is told."""
    words: ProviderWords = ProviderWords()
    progress: StreamProgress | None = None
    """Of a stream that the provider cut."""
    facts: Mapping[str, Any] = {}
    """The fields of the log entry."""


def clean_text(text: str, redactor: Redactor, texts: RequestTexts) -> str:
    """Return what a provider wrote without secrets and quotes of the request, cut to 2 kB."""
    was_cut = len(text) >= TEXT_LIMIT
    cleaned = redactor.redact_text(remove_quotes(text[:TEXT_LIMIT], texts))
    if was_cut:
        cleaned = cleaned[: max(0, len(cleaned) - _MARGIN)]
    return _cut(cleaned)


def clean_own_text(text: str, redactor: Redactor) -> str:
    """Return a message of the gateway without secrets, cut to 2 kB. It is not searched for quotes:
    the names that it repeats are what it is about."""
    return _cut(redactor.redact_text(text))


def _cut(text: str) -> str:
    return text.encode("utf-8", "replace")[:MAX_BYTES].decode("utf-8", "ignore").strip()


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
    if fault.code == FaultKind.MCP_LIST:  # such a server has got no text of the request
        texts = RequestTexts()
    reason = (
        clean_own_text(text, redactor)
        if _is_of_network(fault)
        else clean_text(text, redactor, texts)
    )
    said = {**structs.asdict(fault.upstream), "body": fault.original}
    cleaned = {name: clean_text(text, redactor, texts) for name, text in said.items() if text}
    if cleaned.get("body") == reason:
        del cleaned["body"]
    words = {f"upstream_{name}": text for name, text in cleaned.items()}
    return FaultReport(
        code=fault.code,
        reason=reason,
        words=ProviderWords(**cleaned),
        progress=fault.progress,
        facts={**log_fields(fault), "reason": reason, **words},
    )


def is_bug(fault: ProviderFault) -> bool:
    """Whether a fault is an unexpected exception in the gateway's own code."""
    return fault.type is FaultType.api_error and fault.code == FaultKind.INTERNAL


def _report_bug(fault: ProviderFault, redactor: Redactor, texts: RequestTexts) -> FaultReport:
    name, _, message = fault.message.partition(": ")
    message = clean_text(message, redactor, texts)
    facts = {"error": name, "message": message, "traceback": fault.original.splitlines()}
    return FaultReport(code=fault.code, reason=f"{name}: {message}", facts=facts)


# Errors of the network

_ERROR_NUMBER = re.compile(r"\[Errno (\d+)\]")


def explain_connection_error(error: Exception) -> str:
    """Explain an error of an HTTP client, without the address: `locate_fault` adds it."""
    if isinstance(error, ConnectionFailure):
        return str(error)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the host name cannot be resolved ({error.os_error.strerror})"
    if isinstance(error, aiohttp.ClientSSLError):
        return f"TLS failed ({type(error.os_error).__name__}: {error.os_error.strerror})"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the provider closed the connection without a response"
    number = _find_error_number(error)
    if number is not None:
        return f"{os.strerror(number).lower()} (errno {number})"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the provider closed the connection in the middle of its response"
    return type(error).__name__


def _find_error_number(error: BaseException) -> int | None:
    """Find the number in an error or its causes. Several addresses that fail are one text."""
    cause: BaseException | None = error
    while cause is not None:
        number = cause.errno if isinstance(cause, OSError) else None
        if number is not None and number > 0:
            return number
        if found := _ERROR_NUMBER.search(str(cause)):
            return int(found[1])
        cause = cause.__cause__
    return None


def locate_fault(fault: ProviderFault, provider: Provider) -> str:
    """Return the text of a fault; of one that the network caused, with provider and address."""
    if not _is_of_network(fault):
        return fault.message or fault.original
    if provider.spec.in_process:
        return f"{provider.name}: {fault.message}"
    return f"{provider.name}: {fault.message} at {provider.address}"


def _is_of_network(fault: ProviderFault) -> bool:
    """Whether the gateway found the fault itself, without a word of the provider."""
    return fault.type in (FaultType.connection, FaultType.timeout) and fault.status is None
