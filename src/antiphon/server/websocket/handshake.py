"""GET /v1/responses: the handshake of a WebSocket, if its web page may open one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from antiphon.core.faults.fault import shutdown_fault
from antiphon.core.faults.messages import describe
from antiphon.errors import UpstreamError
from antiphon.server.endpoints.context import Context
from antiphon.server.errors import error_response, method_not_allowed_response
from antiphon.server.http import HTTPResponse
from antiphon.server.websocket.session import Session

_DEFAULT_PORTS = {"http": ":80", "ws": ":80", "https": ":443", "wss": ":443"}


async def connect(context: Context) -> HTTPResponse:
    """Accept a WebSocket. Where they are switched off, 426 makes clients fall back to HTTP at once:
    after 404 or 405 Codex tries six times."""
    http, service, caller = context.http, context.service, context.caller
    if http.headers.get("upgrade", "").lower() != "websocket":
        return method_not_allowed_response(http, ["POST"])
    if not service.config.websocket:
        message = "WebSockets are switched off; use POST /v1/responses with `stream`: true."
        return error_response(426, message)
    if not is_allowed(http.headers, service.config.allowed_origins):
        message = (
            "Web pages of this origin may not open a WebSocket; add it to `allowed_origins` in"
            " [server]."
        )
        return error_response(403, message, code="forbidden")
    if not service.state.ready:
        fault = shutdown_fault()
        raise UpstreamError(fault, describe(fault, caller.locale))
    return HTTPResponse(101, session=Session(service, caller))


def is_allowed(headers: Mapping[str, str], allowed: Collection[str]) -> bool:
    """Whether a client without a web page, or a page of this origin, may open a WebSocket.

    Browsers let every page open one to this machine, and without keys it could spend money."""
    origin = headers.get("origin", "").lower()
    if not origin or "*" in allowed or origin in map(str.lower, allowed):
        return True
    scheme, authority = urlsplit(origin)[:2]
    default_port = _DEFAULT_PORTS.get(scheme, "")
    host = headers.get("host", "").lower().removesuffix(default_port)
    return bool(authority) and authority.removesuffix(default_port) == host
