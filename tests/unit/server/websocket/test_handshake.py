"""The handshake: who may open a WebSocket, and what others are answered."""

from __future__ import annotations

import pytest

from antiphon.server.websocket.handshake import is_allowed
from tests.support.applications import LOCAL, echo_config, error_of, open_application
from tests.support.tables import table
from tests.support.web_sockets import UPGRADE


async def test_a_handshake_is_accepted() -> None:
    async with open_application() as opened:
        response = await opened.request("GET", "/v1/responses", headers=UPGRADE)
    assert response.status == 101
    assert response.session is not None
    assert response.session.max_message_bytes == 64 * 1024 * 1024
    assert response.headers["x-request-id"].startswith("req_")


async def test_other_gets_are_not_allowed() -> None:
    async with open_application() as opened:
        response = await opened.request("GET", "/v1/responses", headers=LOCAL)
    assert (response.status, response.headers["allow"]) == (405, "POST")


async def test_websockets_can_be_switched_off() -> None:
    async with open_application(echo_config(websocket=False)) as opened:
        response = await opened.request("GET", "/v1/responses", headers=UPGRADE)
    assert response.status == 426
    assert "POST /v1/responses" in error_of(response)["message"]


async def test_a_key_is_required_as_for_any_request() -> None:
    async with open_application(echo_config(api_keys={"a": "secret"})) as opened:
        refused = await opened.request("GET", "/v1/responses", headers=UPGRADE)
        headers = {**UPGRADE, "authorization": "Bearer secret"}
        accepted = await opened.request("GET", "/v1/responses", headers=headers)
    assert (refused.status, accepted.status) == (401, 101)


async def test_a_foreign_web_page_is_refused() -> None:
    headers = {**UPGRADE, "origin": "https://evil.example"}
    async with open_application() as opened:
        response = await opened.request("GET", "/v1/responses", headers=headers)
    assert (response.status, error_of(response)["code"]) == (403, "forbidden")
    assert response.session is None


@pytest.mark.parametrize("origin", ["http://[::1", "http://[", "http://]", "//[v1.x]:0:0"])
async def test_an_origin_that_is_no_address_is_refused(origin: str) -> None:
    headers = {**UPGRADE, "origin": origin}
    async with open_application() as opened:
        response = await opened.request("GET", "/v1/responses", headers=headers)
    assert (response.status, error_of(response)["code"]) == (403, "forbidden")
    assert [entry.event for entry in opened.log] == ["request.rejected"]


async def test_no_connection_begins_during_a_shutdown() -> None:
    async with open_application() as opened:
        opened.application.process.stop_accepting()
        response = await opened.request("GET", "/v1/responses", headers=UPGRADE)
    assert response.status == 503


@table(
    ("origin", "host"),
    [
        ("", "localhost:8484"),
        ("http://localhost:8484", "localhost:8484"),
        ("HTTPS://Gateway.Example", "gateway.example"),
        ("https://gateway.example:443", "gateway.example"),
        ("https://gateway.example", "gateway.example:443"),
        ("https://pages.example", "gateway.example"),
    ],
)
def test_its_own_and_allowed_origins_pass(origin: str, host: str) -> None:
    assert is_allowed({"origin": origin, "host": host}, ["https://Pages.example"])


@table("origin", ["null", "http://localhost:3000", "http://localhost", "file://", "localhost:8484"])
def test_other_origins_are_refused(origin: str) -> None:
    headers = {"origin": origin, "host": "localhost:8484"}
    assert not is_allowed(headers, ["http://other.example"])
    assert is_allowed(headers, ["*"])
