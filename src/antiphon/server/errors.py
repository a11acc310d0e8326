"""HTTP error responses in the shape of the OpenAI API: a status, and a body with all four keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from antiphon.core.client_profile import Profile, error_as_400
from antiphon.core.diagnostic import diagnostics_header
from antiphon.core.faults.fault import FaultType, ProviderFault, internal_fault, is_permanent
from antiphon.core.faults.kinds import FaultKind
from antiphon.core.faults.messages import describe
from antiphon.errors import InvalidRequest, LimitExceeded, StoreUnavailable
from antiphon.server.http import HTTPRequest, HTTPResponse, json_response


def error_response(
    status: int,
    message: str,
    *,
    kind: str = "invalid_request_error",
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> HTTPResponse:
    error = {"message": message, "type": kind, "param": param, "code": code}
    return json_response({"error": error}, status=status, headers=headers)


def invalid_request_response(error: InvalidRequest) -> HTTPResponse:
    return error_response(
        error.status, error.message, kind=error.kind, param=error.param, code=error.wire_code
    )


def limit_exceeded_response(error: LimitExceeded, profile: Profile) -> HTTPResponse:
    """A limit of the client key. The status of a permanent one is 400 for clients that would retry
    until the end of the month."""
    response = invalid_request_response(error)
    response.headers.update(error.headers)
    adapt_status(response, profile, permanent=error.permanent)
    return response


def no_route_response(http: HTTPRequest) -> HTTPResponse:
    return error_response(404, f"No route for {http.method} {http.path}.", code="not_found")


def method_not_allowed_response(http: HTTPRequest, allowed: Iterable[str]) -> HTTPResponse:
    methods = ", ".join(sorted(allowed))
    return error_response(
        405,
        f"{http.method} is not allowed for {http.path}; use {methods}.",
        code="method_not_allowed",
        headers={"allow": methods},
    )


def internal_error_response(error: Exception, locale: str) -> HTTPResponse:
    """A failure of the gateway itself. The cause may name files: it is logged, not sent."""
    if isinstance(error, StoreUnavailable):
        return error_response(
            503,
            "The database of the gateway cannot be used now. Send the request again later.",
            kind="server_error",
            code="store_unavailable",
            headers={"retry-after": "1"},
        )
    message = describe(internal_fault(error), locale)
    return error_response(500, message, kind="server_error", code="server_error")


def fault_response(fault: ProviderFault, profile: Profile, description: str) -> HTTPResponse:
    """A fault of the provider before the first byte of the response was sent."""
    headers = {}
    if fault.retry_after_s is not None:
        headers["retry-after"] = str(max(1, math.ceil(fault.retry_after_s)))
        headers["retry-after-ms"] = str(round(fault.retry_after_s * 1000))
    response = error_response(
        fault.http_status,
        description,
        kind=_error_type(fault),
        param="model" if fault.type is FaultType.model_error else None,
        code=_CODES.get(fault.type, _KINDS.get(fault.code, fault.public_code)),
        headers=headers,
    )
    adapt_status(response, profile, permanent=is_permanent(fault))
    return response


def adapt_status(response: HTTPResponse, profile: Profile, *, permanent: bool = False) -> None:
    """Replace the status of a permanent error by 400 for clients that retry all other statuses."""
    status = profile.status(response.status, permanent=permanent)
    if status != response.status:
        diagnostic = error_as_400(profile, response.status)
        response.headers["antiphon-diagnostics"] = diagnostics_header([diagnostic])
        response.status = status


def body_timeout(limit_s: float) -> InvalidRequest:
    return InvalidRequest(
        f"The request body did not arrive within {limit_s:g} seconds. Send it faster, or raise"
        " `body_timeout_s` in [server].",
        code="request_timeout",
        status=408,
    )


def head_timeout_response(limit_s: float) -> HTTPResponse:
    message = (
        f"The request line and headers did not arrive within {limit_s:g} seconds. Send them faster,"
        " or raise `header_timeout_s` in [server]."
    )
    return error_response(408, message, code="request_timeout")


def too_many_connections_response(address: str, limit: int) -> HTTPResponse:
    message = (
        f"{address} has more than {limit} open connections. Close some, or raise"
        " `max_connections_per_address` in [server]."
    )
    return error_response(429, message, kind="rate_limit_error", code="too_many_connections")


def header_too_large_response(limit: int) -> HTTPResponse:
    message = f"The request line or a header is too long; the limit is {limit} bytes."
    return error_response(431, message, code="header_too_large")


def malformed_request_response(problem: str) -> HTTPResponse:
    """A request that the HTTP parser rejects. Its own message may repeat what was sent."""
    return error_response(400, f"The request is not valid HTTP/1.1: {problem}.", code="bad_request")


_CODES: Mapping[FaultType, str] = {
    FaultType.model_error: "model_not_found",
    FaultType.context_length: "context_length_exceeded",
    FaultType.billing: "insufficient_quota",
    FaultType.rate_limit: "rate_limit_exceeded",
}
# Only an overload has a code of its own: with it, clients give up on the model, but they retry
# after every other failure of a server.
_KINDS: Mapping[str, str] = {FaultKind.OVERLOADED: "server_is_overloaded"}


def _error_type(fault: ProviderFault) -> str:
    if fault.type is FaultType.rate_limit:
        return "rate_limit_error"
    if fault.type is FaultType.billing:
        return "insufficient_quota"
    return "invalid_request_error" if fault.http_status < 500 else "server_error"
