"""The HTTP application without a web framework: authentication, routing and error responses."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache, partial

from antiphon.config import Config
from antiphon.core.client_profile import Profile
from antiphon.core.faults.messages import negotiate_locale
from antiphon.engine.engine import Engine
from antiphon.engine.services import Caller
from antiphon.errors import InvalidRequest, UpstreamError
from antiphon.server.auth import Authenticator
from antiphon.server.clients import make_profile_resolver
from antiphon.server.endpoints import health, models, responses
from antiphon.server.endpoints.context import Context, Endpoint, Received, Service
from antiphon.server.errors import (
    adapt_status,
    fault_response,
    internal_error_response,
    invalid_request_response,
    method_not_allowed_response,
    no_route_response,
)
from antiphon.server.http import HTTPRequest, HTTPResponse
from antiphon.server.rejections import record_rejection

_ROUTES: Mapping[str, Mapping[str, Endpoint]] = {
    "/v1/responses": {
        "POST": responses.create,
        "GET": responses.reject_get,
        "HEAD": responses.reject_get,
    },
    "/v1/models": {"GET": models.list_models, "HEAD": models.list_models},
    "/health": {"GET": health.live, "HEAD": health.live},
    "/health/live": {"GET": health.live, "HEAD": health.live},
    "/health/ready": {"GET": health.ready, "HEAD": health.ready},
}
"""Endpoints by path and method. A HEAD request is a GET whose body the server leaves out."""

_PUBLIC_PATHS = frozenset(path for path in _ROUTES if path.startswith("/health"))
"""Paths that need no authentication."""


class Application:
    """All endpoints behind one function from an HTTP request to an HTTP response."""

    def __init__(self, engine: Engine, config: Config) -> None:
        self._service = Service(engine, config.server)
        self.body_timeout_s = config.server.body_timeout_s
        self.new_request_id = partial(engine.services.runtime.new_id, "req")
        self._authenticator = Authenticator(config.server.api_keys)
        self._profile = make_profile_resolver(config)

    def stop_accepting(self) -> None:
        """Reject new responses from now on; those that have begun go on."""
        self._service.ready = False

    async def handle(self, http: HTTPRequest) -> HTTPResponse:
        """Answer a request; every error has the shape of the API.

        Returns as soon as the answer may begin. A streaming body must be closed by the caller.
        """
        runtime = self._service.engine.services.runtime
        request_id = self.new_request_id()
        headers, received = http.headers, Received()
        profile = self._profile(headers.get("originator", ""), headers.get("user-agent", ""))
        locale = self._negotiate_locale(http.headers)
        has_run = False
        try:
            response = await self._respond(http, request_id, profile, locale, received)
        except InvalidRequest as error:
            response = invalid_request_response(error)
        except UpstreamError as error:
            has_run = True
            response = fault_response(error.fault, profile, error.description)
        except ConnectionError:
            raise  # the client is gone: there is nobody to answer
        except Exception as error:
            self._service.report_failure(error, request_id, received)
            response = internal_error_response(error, locale)
        if response.status >= 400:
            adapt_status(response, profile)
            if not has_run and http.path not in _PUBLIC_PATHS:
                record_rejection(self._service.engine.services, request_id, received, response)
        response.headers["x-request-id"] = request_id
        response.headers["date"] = _format_date(int(runtime.epoch_s()))
        return response

    async def _respond(
        self, http: HTTPRequest, request_id: str, profile: Profile, locale: str, received: Received
    ) -> HTTPResponse:
        is_public = http.path in _PUBLIC_PATHS
        client = received.client = "" if is_public else self._authenticator.authenticate(http)
        methods = _ROUTES.get(http.path)
        if methods is None:
            return no_route_response(http)
        endpoint = methods.get(http.method)
        if endpoint is None:
            return method_not_allowed_response(http, methods)
        caller = Caller(client, request_id, profile, locale)
        return await endpoint(Context(self._service, http, caller, received))

    def _negotiate_locale(self, headers: Mapping[str, str]) -> str:
        """Choose the language of fault descriptions: Accept-Language, else `[server] locale`."""
        return negotiate_locale(headers.get("accept-language", ""), self._service.config.locale)


@lru_cache(maxsize=1)
def _format_date(now: int) -> str:
    """Format the time of a response, once for all responses of a second."""
    return formatdate(now, usegmt=True)
