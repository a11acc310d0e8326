"""The page: which requests it answers, its access rules, its files and its API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from msgspec import structs

from antiphon import __version__
from antiphon.dialects.client_dialect import ClientDialect
from antiphon.server.create import create
from antiphon.server.errors import method_not_allowed, no_route
from antiphon.server.exchange import Exchange
from antiphon.server.http import HTTPRequest, HTTPResponse, json_response
from antiphon.server.routes import EXACT
from antiphon.server.ui import catalog, keys, live, now, requests, sessions, settings, usage
from antiphon.server.ui.access import PageAccess
from antiphon.server.ui.page_request import PageEndpoint, PageRequest
from antiphon.server.ui.static_files import file_response, shell_response

ADMIN = "admin"
"""The client name of requests that are made on the page."""
_SESSION = "/ui/api/session"
_ADDRESSES = {"/": "ui", "/v1": "ui", "/v1/": "../ui"}
"""Addresses that people open in a browser, and the page as seen from there."""
_VIEWS = re.compile(
    r"/ui(/(now|requests(/[^/]+)?|sessions(/[^/]+)?|usage|models|providers|playground|configuration)?)?"
)


def _create_with(dialect: ClientDialect) -> PageEndpoint:
    """Make an endpoint that creates a response as the client `admin`: the playground, "send again"
    and "try on this model", in the format of the request."""

    async def create_response(request: PageRequest) -> HTTPResponse:
        exchange = request.exchange
        if exchange.setup.server.api_keys:  # else everybody on this machine may send requests
            _make_access(request).check_change(exchange.http)
        exchange.identify(ADMIN)
        document = await exchange.read_document()
        is_default = dialect is exchange.dialect
        return await create(
            Exchange(
                exchange.process,
                exchange.setup,
                exchange.http,
                structs.replace(exchange.caller, dialect=None if is_default else dialect),
                dialect=dialect,
                document=document,
                is_large=exchange.is_large,
            )
        )

    return create_response


def _for_owner(endpoint: PageEndpoint) -> PageEndpoint:
    """Make an endpoint that changes something: for those who have the admin key or the token."""

    async def check_and_respond(request: PageRequest) -> HTTPResponse:
        _make_access(request).check_change(request.exchange.http)
        return await endpoint(request)

    return check_and_respond


_API: tuple[tuple[str, Mapping[str, PageEndpoint]], ...] = (
    ("/ui/api/now", {"GET": now.show_now}),
    ("/ui/api/live", {"GET": live.stream_changes}),
    ("/ui/api/requests", {"GET": requests.list_page}),
    ("/ui/api/requests/([^/]+)", {"GET": requests.show_request}),
    ("/ui/api/requests/([^/]+)/result", {"GET": requests.show_result}),
    ("/ui/api/requests/([^/]+)/streams", {"GET": requests.show_streams}),
    ("/ui/api/payloads", {"POST": _for_owner(requests.keep_payloads)}),
    ("/ui/api/sessions", {"GET": sessions.list_page}),
    ("/ui/api/sessions/([^/]+)", {"GET": sessions.show_session}),
    ("/ui/api/totals", {"GET": requests.show_totals}),
    ("/ui/api/choices", {"GET": requests.show_choices}),
    ("/ui/api/usage", {"GET": usage.show_usage}),
    ("/ui/api/models", {"GET": catalog.list_models}),
    ("/ui/api/providers", {"GET": catalog.list_providers}),
    ("/ui/api/keys", {"GET": keys.list_keys, "POST": _for_owner(keys.make_client_key)}),
    ("/ui/api/keys/([^/]+)", {"DELETE": _for_owner(keys.revoke_client_key)}),
    ("/ui/api/provider-keys", {"POST": _for_owner(keys.add_provider_key)}),
    ("/ui/api/default-model", {"POST": _for_owner(keys.choose_default_model)}),
    ("/ui/api/config", {"GET": settings.show_settings}),
    ("/ui/api/config/check", {"POST": settings.check_file}),
    ("/ui/api/config/reload", {"POST": _for_owner(settings.reload_file)}),
    *(
        (f"/ui/api/{path}", {"POST": _create_with(EXACT[f"/v1/{path}"].dialect)})
        for path in ("responses", "chat/completions", "messages")
    ),
)
_COMPILED = [(re.compile(path), methods) for path, methods in _API]


def is_page(http: HTTPRequest) -> bool:
    """Whether a request is for the page: below `/ui`, or for the address of the gateway or of its
    API by a browser."""
    path = http.path
    if path in _ADDRESSES:
        return http.method in ("GET", "HEAD") and "text/html" in http.headers.get("accept", "")
    return path == "/ui" or path.startswith("/ui/")


async def respond_page(exchange: Exchange) -> HTTPResponse:
    """Answer a request for the page; raises as endpoints do."""
    request = PageRequest(exchange)
    http = exchange.http
    path = http.path
    if path.startswith("/ui/api/"):
        return await _answer_session(request) or await _answer_api(request)
    _make_access(request).check_page(http)
    if http.method not in ("GET", "HEAD"):
        raise method_not_allowed(http, ["GET", "HEAD"])
    if path in _ADDRESSES:
        return HTTPResponse(302, {"location": _ADDRESSES[path]})
    if _VIEWS.fullmatch(path):
        return shell_response(path)
    if not path.startswith("/ui/static/") and "text/html" in http.headers.get("accept", ""):
        return shell_response(path, status=404)
    found = file_response(http, path.removeprefix("/ui/static/"))
    if found is None:
        raise no_route(http)
    return found


async def _answer_session(request: PageRequest) -> HTTPResponse | None:
    """Sign in and out; None for every other path."""
    http = request.exchange.http
    access = _make_access(request)
    if http.path != _SESSION:
        return None
    access.check_page(http)
    access.check_origin(http)
    if http.method == "POST":
        cookie = access.sign_in(http, str((await request.read_json()).get("key", "")))
        return HTTPResponse(204, {"set-cookie": cookie})
    if http.method == "DELETE":
        return HTTPResponse(204, {"set-cookie": access.sign_out(http)})
    signed_in = not access.needs_key or access.is_signed_in(http)
    session = {
        "needs_key": access.needs_key,
        "signed_in": signed_in,
        "may_change": access.may_change(http),
    }
    return json_response({**session, "version": __version__ if signed_in else None})


async def _answer_api(request: PageRequest) -> HTTPResponse:
    http = request.exchange.http
    _make_access(request).check_api(http)
    for pattern, methods in _COMPILED:
        if found := pattern.fullmatch(http.path):
            endpoint = methods.get("GET" if http.method == "HEAD" else http.method)
            if endpoint is None:
                raise method_not_allowed(http, methods)
            return await endpoint(replace(request, id="".join(found.groups())))
    raise no_route(http)


def _make_access(request: PageRequest) -> PageAccess:
    """Make the rules of the configuration that the request began with."""
    runtime = request.exchange.services.runtime
    page = request.process.page
    admin_key = request.exchange.setup.server.admin_key
    return PageAccess(
        admin_key,
        runtime.now,
        page.attempts,
        page.ended_sessions,
        runtime.new_nonce,
        token="" if admin_key else page.token,
    )
