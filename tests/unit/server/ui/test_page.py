"""The page: its addresses, its files, signing in, and requests as the client `admin`."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from urllib.parse import urljoin

import pytest

from antiphon.server.http import HTTPRequest, HTTPResponse
from antiphon.server.ui.page import _API, is_page
from antiphon.store.trace.reader import list_requests
from tests.support.applications import (
    document_of,
    echo_config,
    error_of,
    open_application,
    read_stream,
)
from tests.support.gateways import events_of
from tests.support.pages.api import HOST, ask, ask_json, traced_application
from tests.support.tables import table

KEY = "an admin key"
ADMIN = {**HOST, "authorization": f"Bearer {KEY}"}
BROWSER = {**HOST, "accept": "text/html,application/xhtml+xml"}


def expect_guarded(response: HTTPResponse) -> None:
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cross-origin-resource-policy"] == "same-origin"


@table(
    "path",
    [
        *("/ui", "/ui/", "/ui/now", "/ui/requests", "/ui/requests/req_1", "/ui/usage"),
        *("/ui/models", "/ui/providers", "/ui/playground", "/ui/configuration"),
    ],
)
async def test_every_view_is_an_address(path: str) -> None:
    async with open_application() as opened:
        response = await ask(opened, path)
    assert response.status == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    expect_guarded(response)


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/"])
async def test_a_browser_is_sent_to_the_page_and_others_are_not(path: str) -> None:
    async with open_application() as opened:
        browser = await ask(opened, path, headers=BROWSER)
        other = await ask(opened, path)
    assert browser.status == 302
    assert urljoin(f"http://gateway{path}", browser.headers["location"]) == "http://gateway/ui"
    assert other.status == 404
    assert error_of(other)["message"].startswith(f"No route for GET {path}. This gateway serves ")


@table(
    ("path", "expected"),
    [("/ui", True), ("/ui/x", True), ("/uix", False), ("/v1/ui", False), ("/", False)],
)
def test_only_paths_below_ui_belong_to_the_page(path: str, expected: bool) -> None:
    assert is_page(HTTPRequest.with_body("GET", path, HOST)) == expected


@table(
    ("method", "path", "status"),
    [
        ("GET", "/ui/static/main.js", 200),
        ("HEAD", "/ui/static/views/now.js", 200),
        ("GET", "/ui/static/nothing.js", 404),
        ("GET", "/ui/static/../page.py", 404),
        ("GET", "/ui/nothing", 404),
        ("GET", "/ui/requests/a/b", 404),
        ("POST", "/ui", 405),
        ("GET", "/ui/api/nothing", 404),
        ("POST", "/ui/api/now", 405),
        ("HEAD", "/ui/api/now", 200),
        ("GET", "/ui/api/responses", 405),
    ],
)
async def test_every_path_has_its_status_and_the_security_headers(
    method: str, path: str, status: int
) -> None:
    async with open_application() as opened:
        response = await ask(opened, path, method=method)
    assert response.status == status
    expect_guarded(response)


ACTIONS = [
    (method, re.sub(r"\(.*?\)", "x", path))
    for path, methods in [*_API, ("/ui/api/session", {"POST": None, "DELETE": None})]
    for method in methods
    if method != "GET"
]
"""Everything on the page that does something: an action that is added is here by itself."""
WITHOUT_TOKEN = {
    *("/ui/api/config/check", "/ui/api/session"),
    *("/ui/api/responses", "/ui/api/chat/completions", "/ui/api/messages"),
}
"""Actions that every user of this machine may take: they check the file of the owner, sign in, or
do what a client without a key may do, too."""


@table(("method", "path"), ACTIONS)
async def test_no_action_is_taken_for_a_page_of_another_origin(method: str, path: str) -> None:
    config = echo_config(admin_key=KEY)
    crossing = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    for opening, own in ((open_application(), HOST), (open_application(config), ADMIN)):
        async with opening as opened:
            response = await ask(opened, path, method=method, body={}, headers={**own, **crossing})
        assert response.status == 403
        assert "Origin" in error_of(response)["message"]


@table(("method", "path"), [each for each in ACTIONS if each[1] not in WITHOUT_TOKEN])
async def test_a_change_needs_the_token(method: str, path: str) -> None:
    async with open_application() as opened:
        response = await ask(opened, path, method=method, body={})
    assert (response.status, error_of(response)["code"]) == (403, "page_token_required")


async def test_the_page_of_another_machine_needs_a_key_in_the_configuration() -> None:
    async with open_application() as opened:
        for path in ("/ui", "/ui/static/main.js", "/ui/api/now", "/ui/api/session"):
            response = await ask(opened, path, remote="192.168.1.7")
            assert response.status == 403
            assert "admin_key" in error_of(response)["message"]
            expect_guarded(response)


async def test_a_session_begins_with_the_key_and_ends_on_request() -> None:
    async with open_application(echo_config(admin_key=KEY)) as opened:
        assert (await ask(opened, "/ui", remote="192.168.1.7")).status == 200
        assert (await ask(opened, "/ui/api/now")).status == 401
        before = document_of(await ask(opened, "/ui/api/session"))
        assert before == {
            "needs_key": True,
            "signed_in": False,
            "may_change": False,
            "version": None,
        }
        wrong = await ask(opened, "/ui/api/session", method="POST", body={"key": "x"})
        assert (wrong.status, error_of(wrong)["param"]) == (401, "key")
        signed = await ask(opened, "/ui/api/session", method="POST", body={"key": KEY})
        assert signed.status == 204
        cookie = signed.headers["set-cookie"].partition(";")[0]
        assert (await ask(opened, "/ui/api/now", headers={**HOST, "cookie": cookie})).status == 200
        with_cookie = {**HOST, "cookie": cookie}
        ended = await ask(opened, "/ui/api/session", method="DELETE", headers=with_cookie)
        assert "Max-Age=0" in ended.headers["set-cookie"]
        assert (await ask(opened, "/ui/api/now", headers=with_cookie)).status == 401


async def test_who_has_sent_ten_wrong_keys_waits_a_minute_before_the_next() -> None:
    async with open_application(echo_config(admin_key=KEY)) as opened:
        sign_in = partial(ask, opened, "/ui/api/session", method="POST")
        wrong = [(await sign_in(body={"key": "x"})).status for _ in range(11)]
        assert wrong == [*[401] * 10, 429]
        refused = await sign_in(body={"key": KEY})
        metrics = await opened.request("GET", "/metrics", headers=ADMIN)
        elsewhere = await sign_in(body={"key": KEY}, remote="192.168.1.7")
    assert (refused.status, error_of(refused)["code"]) == (429, "too_many_attempts")
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert metrics.status == 429
    assert elsewhere.status == 204


async def test_the_keys_of_clients_do_not_open_the_page() -> None:
    config = echo_config(admin_key=KEY, api_keys={"alice": "sk-alice"})
    async with open_application(config) as opened:
        headers = {**HOST, "authorization": "Bearer sk-alice"}
        assert (await ask(opened, "/ui/api/now", headers=headers)).status == 401


async def test_a_response_is_created_as_the_client_admin(tmp_path: Path) -> None:
    async with traced_application(tmp_path) as opened:
        body = {"model": "echo/echo", "input": "Hello", "stream": True}
        response = await ask(opened, "/ui/api/responses", method="POST", body=body)
        events = events_of(await read_stream(response))
        assert events[-1]["type"] == "response.completed"
        expect_guarded(response)
        bad = await ask(opened, "/ui/api/responses", method="POST", body={"model": 7})
        assert bad.status == 400
    rejected, created = list_requests(tmp_path / "trace.db")
    assert (created.request.client, created.request.model) == ("admin", "echo/echo")
    assert (rejected.request.client, rejected.is_failed) == ("admin", False)


@pytest.mark.parametrize(("model", "status"), [("echo/error-401", 502), ("echo/error-503", 503)])
async def test_a_failure_of_a_provider_has_the_security_headers_too(
    model: str, status: int
) -> None:
    async with open_application() as opened:
        body = {"model": model, "input": "Hello", "stream": True}
        response = await ask(opened, "/ui/api/responses", method="POST", body=body)
    assert response.status == status
    expect_guarded(response)


async def test_refused_requests_for_the_page_leave_no_trace(tmp_path: Path) -> None:
    async with traced_application(tmp_path) as opened:
        for path in ("/ui/api/nothing", "/ui/nothing"):
            assert (await ask(opened, path)).status == 404
        assert (await ask(opened, "/ui/api/now", remote="192.168.1.7")).status == 403
        session = await ask_json(opened, "session")
        assert session["signed_in"] is True
    assert list_requests(tmp_path / "trace.db") == []
