"""Errors of requests: an exception becomes a problem, which the client dialect renders.

HTTP and WebSocket use the same ladder, `describe_error`: an error has the same status, code and
headers on both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import structs

from antiphon.core.client_profile import Profile, error_as_400
from antiphon.core.diagnostic import diagnostics_header
from antiphon.core.faults.fault import internal_fault, shutdown_fault
from antiphon.core.faults.messages import describe
from antiphon.dialects.client_dialect import (
    ClientDialect,
    Problem,
    fault_problem,
    request_problem,
)
from antiphon.engine.services import Caller
from antiphon.errors import InvalidRequest, Refused, StoreUnavailable, UpstreamError
from antiphon.server.http import HTTPRequest, HTTPResponse


def describe_error(error: Exception, caller: Caller) -> Problem:
    """The problem of a request that ends with this error, as its client is told."""
    if isinstance(error, InvalidRequest):
        problem = request_problem(error)
    elif isinstance(error, UpstreamError):
        problem = fault_problem(error.fault, error.description)
    else:
        problem = _internal_problem(error, caller.locale)
    problem = structs.replace(problem, request_id=caller.request_id)
    return _adapt_status(problem, caller.profile)


def is_expected(error: Exception) -> bool:
    """Whether an error is the client's or the provider's: a failure of the gateway is logged."""
    return isinstance(error, InvalidRequest | UpstreamError)


def error_response(problem: Problem, dialect: ClientDialect) -> HTTPResponse:
    """Render a problem in the format of the client."""
    reply = dialect.error(problem)
    return HTTPResponse(reply.status, dict(reply.headers), reply.body)


def _adapt_status(problem: Problem, profile: Profile) -> Problem:
    """Replace the status of a permanent error by 400 for clients that retry all other statuses."""
    status = profile.status(problem.status, permanent=problem.is_permanent)
    if status == problem.status:
        return problem
    diagnostic = error_as_400(profile, problem.status)
    headers = {**problem.headers, "antiphon-diagnostics": diagnostics_header([diagnostic])}
    return structs.replace(problem, status=status, headers=headers)


def _internal_problem(error: Exception, locale: str) -> Problem:
    """A failure of the gateway itself. The cause may name files: it is logged, not sent."""
    if isinstance(error, StoreUnavailable):
        return Problem(
            status=503,
            message="The database of the gateway cannot be used now. Send the request again later.",
            kind="server_error",
            code="store_unavailable",
            headers={"retry-after": "1"},
        )
    fault = internal_fault(error)
    return Problem(
        status=fault.http_status,
        message=describe(fault, locale),
        kind="server_error",
        code="server_error",
        headers={"retry-after": "1"} if fault.retryable else {},
    )


def no_route(http: HTTPRequest) -> Refused:
    """No such path: name those that exist, and say how to point a client at them."""
    hints = (hint for pattern, hint in _HINTS if re.search(pattern, http.path))
    message = f"No route for {http.method} {http.path}. {next(hints)}"
    return Refused(message, status=404, code="not_found")


_BASE_URLS = (
    "Set the base URL of an OpenAI client to this gateway's address with /v1 at the end, and that"
    " of an Anthropic client to the address without /v1."
)
_HINTS = (
    (r"/embeddings$", "This gateway serves no embeddings: call the provider for them."),
    (
        r"(?<!chat)/completions$",
        "This gateway serves POST /v1/chat/completions, and not the older completions of a prompt:"
        " send `messages`.",
    ),
    (
        r"^/api/",
        "This is a path of Ollama. This gateway serves POST /v1/chat/completions: choose the type"
        " OpenAI in your client, with this gateway's address and /v1 as the base URL.",
    ),
    (
        r":(streamG|g)enerateContent$",
        "This is a path of Gemini's API. This gateway serves POST /v1/responses,"
        f" /v1/chat/completions and /v1/messages. {_BASE_URLS}",
    ),
    (
        "",
        "This gateway serves POST /v1/responses, /v1/chat/completions and /v1/messages, and"
        f" GET /v1/models; its page is /ui. {_BASE_URLS}",
    ),
)
"""What to tell a client, by what its path looks like; the last one fits every path."""


def method_not_allowed(http: HTTPRequest, allowed: Iterable[str]) -> Refused:
    methods = ", ".join(sorted(allowed))
    return Refused(
        f"{http.method} is not allowed for {http.path}; use {methods}.",
        status=405,
        code="method_not_allowed",
        headers={"allow": methods},
    )


def shutting_down(caller: Caller) -> Refused:
    """New responses are not accepted; the connection is closed, so that the client connects
    elsewhere."""
    fault = shutdown_fault()
    return Refused(
        describe(fault, caller.locale),
        status=fault.http_status,
        kind="server_error",
        code="server_error",
        close_connection=True,
    )


def body_timeout(limit_s: float) -> InvalidRequest:
    return InvalidRequest(
        f"The request body did not arrive within {limit_s:g} seconds. Send it faster, or raise"
        " `body_timeout_s` in [server].",
        code="request_timeout",
        status=408,
    )


def head_timeout(limit_s: float) -> Refused:
    message = (
        f"The request line and headers did not arrive within {limit_s:g} seconds. Send them faster,"
        " or raise `header_timeout_s` in [server]."
    )
    return Refused(message, status=408, code="request_timeout")


def too_many_connections(address: str, limit: int) -> Refused:
    message = (
        f"{address} has more than {limit} open connections. Close some, or raise"
        " `max_connections_per_address` in [server]."
    )
    return Refused(message, status=429, kind="rate_limit_error", code="too_many_connections")


def header_too_large(limit: int) -> Refused:
    message = f"The request line or a header is too long; the limit is {limit} bytes."
    return Refused(message, status=431, code="header_too_large")


def malformed_request(problem: str) -> Refused:
    """A request that the HTTP parser rejects. Its own message may repeat what was sent."""
    message = f"The request is not valid HTTP/1.1: {problem}."
    return Refused(message, status=400, code="bad_request")
