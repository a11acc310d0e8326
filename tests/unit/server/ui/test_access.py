"""Access to the page: this machine only, or the admin key; forwarding, Host, Origin, sessions."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from antiphon.errors import InvalidRequest
from antiphon.server.http import HTTPRequest
from antiphon.server.ui.access import SESSION_S, PageAccess

KEY = "an admin key"
NOW = 1_700_000_000
LOCAL = {"host": "localhost:8484"}


def http(headers: Mapping[str, str] = LOCAL, remote: str = "127.0.0.1") -> HTTPRequest:
    return HTTPRequest.with_body("GET", "/ui/api/now", headers, remote=remote)


def access(key: str = "", now: int = NOW) -> PageAccess:
    return PageAccess(key, lambda: now)


@pytest.mark.parametrize(
    ("headers", "remote"),
    [
        (LOCAL, "127.0.0.1"),
        ({"host": "127.0.0.1"}, "127.0.0.1"),
        ({"host": "[::1]:8484"}, "::1"),
        ({**LOCAL, "origin": "http://localhost:8484"}, "127.0.0.1"),
        ({**LOCAL, "sec-fetch-site": "same-origin"}, "127.0.0.1"),
    ],
)
def test_without_a_key_this_machine_has_access(headers: dict[str, str], remote: str) -> None:
    assert not access().needs_key
    access().check_api(http(headers, remote))


@pytest.mark.parametrize(
    ("headers", "remote"),
    [
        (LOCAL, "192.168.1.7"),
        ({"host": "gateway.example"}, "127.0.0.1"),
        ({}, "127.0.0.1"),
        ({**LOCAL, "x-forwarded-for": "203.0.113.9"}, "127.0.0.1"),
        ({**LOCAL, "forwarded": "for=203.0.113.9"}, "127.0.0.1"),
        ({**LOCAL, "x-real-ip": "127.0.0.1"}, "127.0.0.1"),
        ({**LOCAL, "via": "1.1 proxy"}, "127.0.0.1"),
        ({**LOCAL, "x-forwarded-proto": ""}, "127.0.0.1"),
    ],
)
def test_without_a_key_nothing_else_has_access(headers: dict[str, str], remote: str) -> None:
    with pytest.raises(InvalidRequest, match="this machine only") as caught:
        access().check_page(http(headers, remote))
    assert caught.value.status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
@pytest.mark.parametrize("key", ["", KEY])
def test_pages_of_other_origins_have_no_access(headers: dict[str, str], key: str) -> None:
    given = {**LOCAL, "authorization": f"Bearer {KEY}", **headers}
    with pytest.raises(InvalidRequest, match="other web pages") as caught:
        access(key).check_api(http(given))
    assert caught.value.status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer schl\udcfcssel"},
        {"authorization": f"Basic {KEY}"},
        {"cookie": "antiphon_session=1.2"},
        {"cookie": "antiphon_session=99999999999."},
        {"cookie": '\x00;=;"'},
        {"cookie": 'antiphon_session="99999999999.\udcff"'},
        {"cookie": 'antiphon_session="\udcff.2"'},
    ],
)
def test_with_a_key_nobody_has_access_without_it(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match="needs the admin key") as caught:
        access(KEY).check_api(http({**LOCAL, **headers}))
    assert caught.value.status == 401


def test_with_a_key_the_page_itself_may_be_opened_from_anywhere() -> None:
    access(KEY).check_page(http({"host": "gateway.example"}, "203.0.113.9"))
    bearer = {"host": "gateway.example", "authorization": f"bearer {KEY}"}
    access(KEY).check_api(http(bearer, "203.0.113.9"))


def test_signing_in_gives_a_cookie_that_expires() -> None:
    cookie = access(KEY).sign_in(KEY)
    assert "HttpOnly; SameSite=Strict" in cookie
    assert KEY not in cookie
    signed_in = http({**LOCAL, "cookie": f"a=b; {cookie.partition(';')[0]}"})
    access(KEY).check_api(signed_in)
    assert access(KEY, NOW + SESSION_S - 1).is_signed_in(signed_in)
    assert not access(KEY, NOW + SESSION_S).is_signed_in(signed_in)
    assert not access("another key").is_signed_in(signed_in)


@pytest.mark.parametrize(("configured", "given"), [(KEY, "wrong"), (KEY, ""), ("", ""), ("", "x")])
def test_a_wrong_key_does_not_sign_in(configured: str, given: str) -> None:
    with pytest.raises(InvalidRequest, match="Incorrect admin key"):
        access(configured).sign_in(given)


def test_signing_out_removes_the_cookie() -> None:
    assert "Max-Age=0" in access(KEY).sign_out()
