"""The HTTP application without a web framework: authentication, routing and error responses."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache, partial

from msgspec import structs

from antiphon.config import Config, ServerConfig
from antiphon.core.faults.messages import negotiate_locale
from antiphon.engine.engine import Engine
from antiphon.engine.services import Caller
from antiphon.errors import InvalidRequest, LimitExceeded, UpstreamError
from antiphon.server.auth import keeps_client
from antiphon.server.endpoints.context import (
    Context,
    MetricsSource,
    ProcessState,
    Received,
    Service,
)
from antiphon.server.errors import (
    adapt_status,
    fault_response,
    internal_error_response,
    invalid_request_response,
    limit_exceeded_response,
    method_not_allowed_response,
    no_route_response,
)
from antiphon.server.http import HTTPRequest, HTTPResponse
from antiphon.server.rejections import record_rejection
from antiphon.server.routes import EXACT, PUBLIC, match_template
from antiphon.server.ui.page import Page, is_page
from antiphon.server.ui.static_files import add_security_headers


class Application:
    """All endpoints behind one function from an HTTP request to an HTTP response."""

    def __init__(
        self, engine: Engine, config: Config, environment: Mapping[str, str] | None = None
    ) -> None:
        self.state = ProcessState(engine, config)
        self.live = self.state.live
        self.service = self.state.current = Service(engine, config, self.state)
        self._page = Page(self.state, environment)
        self._has_metrics = config.metrics.enabled
        self.body_timeout_s = config.server.body_timeout_s
        self.new_request_id = partial(engine.services.runtime.new_id, "req")

    def reconfigure(self, config: Config) -> None:
        """Serve new requests by another configuration; those that have begun keep theirs.

        Raises `ConfigError`, and then nothing has changed."""
        before = self.service
        assert before.engine.reconfigure is not None
        engine = before.engine.reconfigure(config)
        service = Service(engine, config, self.state)
        self.service = self.state.current = service
        self.body_timeout_s = config.server.body_timeout_s
        self.live.background.engine = engine
        if self.state.metrics is not None:
            self.state.metrics.engine = engine
        self._revoke(before.config, config.server)

    def _revoke(self, before: ServerConfig, after: ServerConfig) -> None:
        """End what was begun with keys that no longer exist."""
        if before.admin_key != after.admin_key:
            self._page.revoke()
        for session in self.service.sessions:
            if not keeps_client(before, after, session.client):
                session.revoke()

    async def start(self) -> None:
        """Count requests; take over what earlier processes have left in the store."""
        if self._has_metrics:
            self.state.metrics = _start_metrics(self.service.engine)
        await self.live.start()

    async def close(self) -> None:
        """Stop the tasks behind the endpoints, before the engine is closed."""
        await self.live.close()
        if self.state.metrics is not None:
            self.state.metrics.close()

    def retire(self) -> None:
        """Have every connection closed with its next answer, so that clients open new ones."""
        self.state.is_retiring = True

    def stop_accepting(self) -> None:
        """Reject new responses from now on; those that have begun go on."""
        self.state.ready = False
        for session in self.service.sessions:
            session.stop()
        self._page.stop()

    async def handle(self, http: HTTPRequest) -> HTTPResponse:
        """Answer a request; every error has the shape of the API.

        Returns as soon as the answer may begin. A streaming body must be closed by the caller.
        """
        service = self.service  # read once: another configuration may replace it meanwhile
        request_id = self.new_request_id()
        headers, received = http.headers, Received()
        profile = service.resolve_profile(
            headers.get("originator", ""), headers.get("user-agent", "")
        )
        locale = negotiate_locale(headers.get("accept-language", ""), service.config.locale)
        has_run, caller = False, Caller("", request_id, profile, locale)
        try:
            response = await self._respond(service, http, caller, received)
        except LimitExceeded as error:
            response = limit_exceeded_response(error, profile)
        except InvalidRequest as error:
            response = invalid_request_response(error)
        except UpstreamError as error:
            has_run = True
            response = fault_response(error.fault, profile, error.description)
        except ConnectionError:
            raise  # the client is gone: there is nobody to answer
        except Exception as error:
            service.report_failure(error, request_id, received)
            response = internal_error_response(error, locale)
        if response.status >= 400:
            adapt_status(response, profile)
            if not has_run and _is_recorded(http, received):
                record_rejection(service.engine.services, caller, received, response)
        if self.state.is_retiring:
            response.close_connection = True
        if http.path not in EXACT and is_page(http):
            add_security_headers(response)
        response.headers["x-request-id"] = request_id
        response.headers["date"] = _format_date(int(service.engine.services.runtime.epoch_s()))
        return response

    async def _respond(
        self, service: Service, http: HTTPRequest, caller: Caller, received: Received
    ) -> HTTPResponse:
        if http.path not in EXACT and is_page(http):
            return await self._page.respond(service, http, caller, received)
        if http.path not in PUBLIC:
            received.client = service.authenticator.authenticate(http)
        methods = EXACT.get(http.path)
        ids: Mapping[str, str] = {}
        if methods is None:
            if (match := match_template(http.path)) is None:
                return no_route_response(http)
            methods, ids = match
        endpoint = methods.get(http.method)
        if endpoint is None:
            return method_not_allowed_response(http, methods)
        trace_headers = http.headers.get("traceparent", ""), http.headers.get("tracestate", "")
        caller = structs.replace(caller, client=received.client, trace_headers=trace_headers)
        return await endpoint(Context(service, http, caller, received, ids))


def _is_recorded(http: HTTPRequest, received: Received) -> bool:
    """Whether a rejected request has a row in the trace. Of the page only those have one that ask
    a model."""
    if http.path in PUBLIC:
        return False
    return bool(received.client) or not is_page(http)


def _start_metrics(engine: Engine) -> MetricsSource:
    # Imported late: the library of metrics takes a tenth of a second to load.
    from antiphon.observe.engine_metrics import EngineMetrics

    metrics = EngineMetrics(engine)
    metrics.start()
    return metrics


@lru_cache(maxsize=1)
def _format_date(now: int) -> str:
    """Format the time of a response, once for all responses of a second."""
    return formatdate(now, usegmt=True)
