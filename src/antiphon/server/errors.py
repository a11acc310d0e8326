"""Failures as OpenAI's clients expect them: a status, and a body with all four keys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from antiphon.core.client_profile import Profile, error_as_400
from antiphon.core.diagnostic import diagnostics_header
from antiphon.core.faults.fault import FaultType, ProviderFault, is_permanent
from antiphon.core.faults.kinds import FaultKind
from antiphon.core.faults.messages import describe
from antiphon.errors import InvalidRequest


def error_response(
    status: int,
    message: str,
    *,
    kind: str = "invalid_request_error",
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    error = {"message": message, "type": kind, "param": param, "code": code}
    return json_response({"error": error}, status=status, headers=headers)


def json_response(
    document: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    body = msgspec.json.encode(document)
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)


def refused(error: InvalidRequest) -> web.Response:
    return error_response(
        error.status, error.message, kind=error.kind, param=error.param, code=error.wire_code
    )


def faulted(fault: ProviderFault, profile: Profile, locale: str = "en") -> web.Response:
    """A provider's fault, told before anything else was."""
    headers = {}
    if fault.retry_after_s is not None:
        headers["retry-after"] = str(max(1, math.ceil(fault.retry_after_s)))
        headers["retry-after-ms"] = str(round(fault.retry_after_s * 1000))
    response = error_response(
        fault.http_status,
        describe(fault, locale),
        kind=_kind(fault),
        param="model" if fault.type is FaultType.model_error else None,
        code=_CODES.get(fault.type, _KINDS.get(fault.code, fault.public_code)),
        headers=headers,
    )
    fit(response, profile, permanent=is_permanent(fault))
    return response


def fit(response: web.StreamResponse, profile: Profile, *, permanent: bool = False) -> None:
    """Tell a failure with the status that keeps this client from asking again in vain."""
    status = response.status
    told = profile.status(status, permanent=permanent)
    if told != status and not response.prepared:
        response.set_status(told)
        note = diagnostics_header([error_as_400(profile, status)])
        response.headers["antiphon-diagnostics"] = note


_CODES: Mapping[FaultType, str] = {
    FaultType.model_error: "model_not_found",
    FaultType.context_length: "context_length_exceeded",
    FaultType.billing: "insufficient_quota",
    FaultType.rate_limit: "rate_limit_exceeded",
}
# Only an overload: clients give up on a model without capacity, and try one that failed again.
_KINDS: Mapping[str, str] = {FaultKind.OVERLOADED: "server_is_overloaded"}


def _kind(fault: ProviderFault) -> str:
    if fault.type is FaultType.rate_limit:
        return "rate_limit_error"
    if fault.type is FaultType.billing:
        return "insufficient_quota"
    return "invalid_request_error" if fault.http_status < 500 else "server_error"
