"""The page: which requests it answers, its access rules, its files and its API."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace

from msgspec import structs

from antiphon import __version__
from antiphon.engine.services import Caller
from antiphon.server.endpoints import responses
from antiphon.server.endpoints.context import Context, ProcessState, Received, Service
from antiphon.server.errors import method_not_allowed_response, no_route_response
from antiphon.server.http import HTTPRequest, HTTPResponse, json_response
from antiphon.server.ui import catalog, live, now, requests, settings, usage
from antiphon.server.ui.access import PageAccess
from antiphon.server.ui.page_request import PageEndpoint, PageRequest, PageService
from antiphon.server.ui.static_files import file_response, shell_response

ADMIN = "admin"
"""The client name of requests that are made on the page."""
_SESSION = "/ui/api/session"
_VIEWS = re.compile(
    r"/ui(/(now|requests(/[^/]+)?|usage|models|providers|playground|configuration)?)?"
)


async def create_response(request: PageRequest) -> HTTPResponse:
    """Create a response as the client `admin`: the playground, and "send again"."""
    request.received.client = ADMIN
    caller = structs.replace(request.caller, client=ADMIN)
    return await responses.create(Context(request.service, request.http, caller, request.received))


_API: tuple[tuple[str, Mapping[str, PageEndpoint]], ...] = (
    ("/ui/api/now", {"GET": now.show_now}),
    ("/ui/api/live", {"GET": live.stream_changes}),
    ("/ui/api/requests", {"GET": requests.list_page}),
    ("/ui/api/requests/([^/]+)", {"GET": requests.show_request}),
    ("/ui/api/requests/([^/]+)/streams", {"GET": requests.show_streams}),
    ("/ui/api/choices", {"GET": requests.show_choices}),
    ("/ui/api/usage", {"GET": usage.show_usage}),
    ("/ui/api/models", {"GET": catalog.list_models}),
    ("/ui/api/providers", {"GET": catalog.list_providers}),
    ("/ui/api/config", {"GET": settings.show_settings}),
    ("/ui/api/config/check", {"POST": settings.check_file}),
    ("/ui/api/config/reload", {"POST": settings.reload_file}),
    ("/ui/api/responses", {"POST": create_response}),
)
_COMPILED = [(re.compile(path), methods) for path, methods in _API]


def is_page(http: HTTPRequest) -> bool:
    """Whether a request is for the page: below `/ui`, or for `/` by a browser."""
    path = http.path
    if path == "/":
        return http.method in ("GET", "HEAD") and "text/html" in http.headers.get("accept", "")
    return path == "/ui" or path.startswith("/ui/")


class Page:
    """Answers the requests for the page."""

    def __init__(self, state: ProcessState, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is that of the process, to check a configuration file with."""
        now_ms = state.current.engine.services.runtime.now_ms()
        self._service = PageService(state, environment or {}, now_ms, asyncio.Event())

    def stop(self) -> None:
        """End the live updates: the process is shutting down."""
        self._service.stopping.set()

    def revoke(self) -> None:
        """End the live updates of those who had access until now: the admin key has changed."""
        self.stop()
        self._service = replace(self._service, stopping=asyncio.Event())

    async def respond(
        self, service: Service, http: HTTPRequest, caller: Caller, received: Received
    ) -> HTTPResponse:
        """Answer a request; raises as endpoints do."""
        request = PageRequest(self._service, service, http, caller, received)
        path = http.path
        if path.startswith("/ui/api/"):
            return await _answer_session(request) or await _answer_api(request)
        _make_access(request).check_page(http)
        if http.method not in ("GET", "HEAD"):
            return method_not_allowed_response(http, ["GET", "HEAD"])
        if path == "/":
            return HTTPResponse(302, {"location": "ui"})
        if _VIEWS.fullmatch(path):
            return shell_response(path)
        return file_response(http, path.removeprefix("/ui/static/")) or no_route_response(http)


async def _answer_session(request: PageRequest) -> HTTPResponse | None:
    """Sign in and out; None for every other path."""
    http, access = request.http, _make_access(request)
    if http.path != _SESSION:
        return None
    access.check_page(http)
    access.check_origin(http)
    if http.method == "POST":
        cookie = access.sign_in(str((await request.read_json()).get("key", "")))
        return HTTPResponse(204, {"set-cookie": cookie})
    if http.method == "DELETE":
        return HTTPResponse(204, {"set-cookie": access.sign_out()})
    signed_in = not access.needs_key or access.is_signed_in(http)
    session = {"needs_key": access.needs_key, "signed_in": signed_in}
    return json_response({**session, "version": __version__ if signed_in else None})


async def _answer_api(request: PageRequest) -> HTTPResponse:
    http = request.http
    _make_access(request).check_api(http)
    for pattern, methods in _COMPILED:
        if found := pattern.fullmatch(http.path):
            endpoint = methods.get("GET" if http.method == "HEAD" else http.method)
            if endpoint is None:
                return method_not_allowed_response(http, methods)
            return await endpoint(replace(request, id="".join(found.groups())))
    return no_route_response(http)


def _make_access(request: PageRequest) -> PageAccess:
    """Make the rules of the configuration that the request began with."""
    service = request.service
    return PageAccess(service.config.admin_key, service.engine.services.runtime.now)
