"""Connection errors in words: what failed, with the error number of the operating system."""

from __future__ import annotations

import os
import re

import aiohttp

from antiphon.core.faults.fault import FaultType, ProviderFault
from antiphon.providers.registry import Provider

_ERROR_NUMBER = re.compile(r"\[Errno (\d+)\]")


def explain_connection_error(error: Exception) -> str:
    """Explain an error of the HTTP library, without the address: `locate_fault` adds it."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the host name cannot be resolved ({error.os_error.strerror})"
    if isinstance(error, aiohttp.ClientSSLError):
        return f"TLS failed ({type(error.os_error).__name__}: {error.os_error.strerror})"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the provider closed the connection without an answer"
    number = _find_error_number(error)
    if number is not None:
        return f"{os.strerror(number).lower()} (errno {number})"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the provider closed the connection in the middle of its answer"
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
    if fault.type not in (FaultType.connection, FaultType.timeout) or fault.status is not None:
        return fault.message or fault.original
    if provider.spec.in_process:
        return f"{provider.name}: {fault.message}"
    return f"{provider.name}: {fault.message} at {provider.address}"
