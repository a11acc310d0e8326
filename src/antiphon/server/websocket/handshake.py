"""GET /v1/responses: the handshake of a WebSocket, if its web page may open one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from antiphon.errors import Refused
from antiphon.server.create import check_ready
from antiphon.server.errors import method_not_allowed
from antiphon.server.exchange import Exchange
from antiphon.server.http import HTTPResponse
from antiphon.server.websocket.session import Session

_DEFAULT_PORTS = {"http": ":80", "ws": ":80", "https": ":443", "wss": ":443"}


async def connect(exchange: Exchange) -> HTTPResponse:
    """Accept a WebSocket. Where they are switched off, 426 makes clients fall back to HTTP at once:
    after 404 or 405 Codex tries six times."""
    http = exchange.http
    server = exchange.setup.server
    if http.headers.get("upgrade", "").lower() != "websocket":
        raise method_not_allowed(http, ["POST"])
    if not server.websocket:
        message = "WebSockets are switched off; use POST /v1/responses with `stream`: true."
        raise Refused(message, status=426)
    if not is_allowed(http.headers, server.allowed_origins):
        message = (
            "Web pages of this origin may not open a WebSocket; add it to `allowed_origins` in"
            " [server]."
        )
        raise Refused(message, status=403, code="forbidden")
    check_ready(exchange)
    return HTTPResponse(101, session=Session(exchange))


def is_allowed(headers: Mapping[str, str], allowed: Collection[str]) -> bool:
    """Whether a client without a web page, or a page of this origin, may open a WebSocket.

    Browsers let every page open one to this machine, and without keys it could spend money."""
    origin = headers.get("origin", "").lower()
    if not origin or "*" in allowed or origin in map(str.lower, allowed):
        return True
    try:
        scheme, authority = urlsplit(origin)[:2]
    except ValueError:  # such as `http://[::1`
        return False
    default_port = _DEFAULT_PORTS.get(scheme, "")
    host = headers.get("host", "").lower().removesuffix(default_port)
    return bool(authority) and authority.removesuffix(default_port) == host
