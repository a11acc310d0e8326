"""The HTTP application without a web framework: authentication, routing and error responses."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache

from antiphon.core.faults.messages import negotiate_locale
from antiphon.dialects.client_dialect import ClientDialect
from antiphon.dialects.responses.client import RESPONSES
from antiphon.engine.services import Caller
from antiphon.errors import Refused
from antiphon.server.errors import error_response, method_not_allowed, no_route
from antiphon.server.exchange import Endpoint, Exchange
from antiphon.server.gateway import GatewayProcess
from antiphon.server.http import HTTPRequest, HTTPResponse
from antiphon.server.routes import EXACT_MATCHES, PUBLIC, SHARED_DIALECTS, Match, find_route
from antiphon.server.ui.page import is_page, respond_page
from antiphon.server.ui.static_files import add_security_headers

_SESSION_HEADERS = (
    "x-claude-code-session-id",
    "session-id",  # Codex; the next one until 0.139
    "session_id",
    "x-session-id",  # opencode
    "x-session-affinity",
)
_MAX_SESSION = 200  # characters
_MAX_LANGUAGES = 256  # characters of an Accept-Language header that are read


class Application:
    """All endpoints of a process behind one function from an HTTP request to an HTTP response."""

    def __init__(self, process: GatewayProcess) -> None:
        self.process = process

    async def handle(self, http: HTTPRequest) -> HTTPResponse:
        """Respond to a request; every error has the shape of the API.

        Returns as soon as the response may begin. A streaming body must be closed by the caller.
        """
        process = self.process
        match = EXACT_MATCHES.get(http.path) or find_route(http.path)
        exchange = _begin(process, http, match)
        for_page = match is None and is_page(http)
        try:
            endpoint = respond_page if for_page else _find_endpoint(exchange, match)
            response = await endpoint(exchange)
        except Exception as error:
            if isinstance(error, ConnectionError) and exchange.document is None:
                raise  # the client is gone: its body has not arrived
            problem = exchange.fail(error, is_recorded=_is_recorded(exchange))
            response = error_response(problem, exchange.dialect)
            response.close_connection = isinstance(error, Refused) and error.close_connection
        if process.is_retiring:
            response.close_connection = True
        if for_page:
            add_security_headers(response)
        response.headers["x-request-id"] = exchange.caller.request_id
        response.headers[exchange.dialect.id_header] = exchange.caller.request_id
        runtime = exchange.setup.engine.services.runtime
        response.headers["date"] = _format_date(int(runtime.epoch_s()))
        return response


def _begin(process: GatewayProcess, http: HTTPRequest, match: Match | None) -> Exchange:
    """Begin the exchange of a request. It keeps the setup in effect now to its last event."""
    setup = process.setup
    headers = http.headers
    languages = headers.get("accept-language", "")[:_MAX_LANGUAGES]
    session = read_session(headers)
    dialect = RESPONSES if match is None else match.route.dialect
    caller = Caller(
        "",  # until it is authenticated
        setup.engine.services.runtime.new_id("req"),
        setup.resolve_profile(headers.get("originator", ""), headers.get("user-agent", "")),
        negotiate_locale(languages, setup.server.locale),
        (headers.get("traceparent", ""), headers.get("tracestate", "")),
        languages,
        session,
        None if dialect is RESPONSES else dialect,
    )
    if match is None or match.route.is_shared:
        dialect = _shared_dialect(headers)
    ids = {} if match is None else match.ids
    return Exchange(process, setup, http, caller, dialect=dialect, ids=ids)


def _shared_dialect(headers: Mapping[str, str]) -> ClientDialect:
    """The format of a client that uses a path which no format has for itself."""
    found = (dialect for header, dialect in SHARED_DIALECTS.items() if header in headers)
    return next(found, RESPONSES)


def read_session(headers: Mapping[str, str]) -> str:
    """Return the session that a client's headers name; empty if they name none."""
    for header in _SESSION_HEADERS:
        if name := headers.get(header):
            return "".join(filter(str.isprintable, name))[:_MAX_SESSION]
    return ""


def _find_endpoint(exchange: Exchange, match: Match | None) -> Endpoint:
    """Return what serves a request, once its sender is known; raises `InvalidRequest` for one that
    nothing serves."""
    http = exchange.http
    if http.path not in PUBLIC:
        exchange.identify(exchange.setup.authenticator.authenticate(http))
    if match is None:
        raise no_route(http)
    endpoint = match.route.methods.get(http.method)
    if endpoint is None:
        raise method_not_allowed(http, match.route.methods)
    return endpoint


def _is_recorded(exchange: Exchange) -> bool:
    """Whether a rejected request has a row in the trace. Of the page only those have one that ask
    a model."""
    if exchange.http.path in PUBLIC:
        return False
    return bool(exchange.caller.client) or not is_page(exchange.http)


@lru_cache(maxsize=1)
def _format_date(now: int) -> str:
    """Format the time of a response, once for all responses of a second."""
    return formatdate(now, usegmt=True)
