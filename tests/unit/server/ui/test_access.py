"""Access to the page: this machine only, or the admin key; forwarding, Host, Origin, sessions."""

from __future__ import annotations

import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from antiphon.errors import InvalidRequest, LimitExceeded
from antiphon.server.auth import FailedAttempts
from antiphon.server.http import HTTPRequest
from antiphon.server.ui.access import SESSION_S, EndedSessions, PageAccess
from tests.support.tables import table

KEY = "an admin key"
NOW = 1_700_000_000
LOCAL = {"host": "localhost:8484"}


def http(headers: Mapping[str, str] = LOCAL, remote: str = "127.0.0.1") -> HTTPRequest:
    return HTTPRequest.with_body("GET", "/ui/api/now", headers, remote=remote)


def access(
    key: str = "",
    now: int = NOW,
    attempts: FailedAttempts | None = None,
    ended: Path | None = None,
    token: str = "",
) -> PageAccess:
    attempts = attempts or FailedAttempts(lambda: 0.0)
    sessions = EndedSessions(ended, lambda: now)
    return PageAccess(key, lambda: now, attempts, sessions, secrets.token_bytes, token=token)


def cookie_of(set_cookie: str) -> HTTPRequest:
    """A request with the cookie that an answer has set."""
    return http({**LOCAL, "cookie": f"a=b; {set_cookie.partition(';')[0]}"})


@table(
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


@table(
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


@table(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
@table("key", ["", KEY])
def test_pages_of_other_origins_have_no_access(headers: dict[str, str], key: str) -> None:
    given = {**LOCAL, "authorization": f"Bearer {KEY}", **headers}
    with pytest.raises(InvalidRequest, match="other web pages") as caught:
        access(key).check_api(http(given))
    assert caught.value.status == 403


@table(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer schl\udcfcssel"},
        {"authorization": f"Basic {KEY}"},
        {"cookie": "antiphon_session=1.2"},
        {"cookie": "antiphon_session=1.2.3"},
        {"cookie": "antiphon_session=99999999999."},
        {"cookie": "antiphon_session=99999999999.x."},
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
    cookie = access(KEY).sign_in(http(), KEY)
    assert "HttpOnly; SameSite=Strict" in cookie
    assert KEY not in cookie
    signed_in = cookie_of(cookie)
    access(KEY).check_api(signed_in)
    assert access(KEY, NOW + SESSION_S - 1).is_signed_in(signed_in)
    assert not access(KEY, NOW + SESSION_S).is_signed_in(signed_in)
    assert not access("another key").is_signed_in(signed_in)


@table(("configured", "given"), [(KEY, "wrong"), (KEY, "")])
def test_a_wrong_key_does_not_sign_in(configured: str, given: str) -> None:
    with pytest.raises(InvalidRequest, match="Incorrect admin key"):
        access(configured, token="a token").sign_in(http(), given)


@table(("token", "given"), [("", ""), ("", "x"), ("a token", "wrong"), ("a token", "")])
def test_a_wrong_token_does_not_sign_in(token: str, given: str) -> None:
    with pytest.raises(InvalidRequest, match="Incorrect token"):
        access(token=token).sign_in(http(), given)


def test_without_a_key_changes_need_the_token() -> None:
    own = access(token="a token")
    for refused in (http(), http({**LOCAL, "authorization": "Bearer wrong"})):
        own.check_api(refused)
        with pytest.raises(InvalidRequest, match="antiphon serve") as caught:
            own.check_change(refused)
        assert (caught.value.status, caught.value.code) == (403, "page_token_required")
    own.check_change(cookie_of(own.sign_in(http(), "a token")))
    own.check_change(http({**LOCAL, "authorization": "Bearer a token"}))


def test_without_a_key_and_a_token_nothing_is_changed() -> None:
    for headers in (LOCAL, {**LOCAL, "authorization": "Bearer x"}):
        with pytest.raises(InvalidRequest, match="admin_key"):
            access().check_change(http(headers))


def test_the_admin_key_takes_the_place_of_the_token() -> None:
    own = access(KEY, token="a token")
    own.check_change(http({**LOCAL, "authorization": f"Bearer {KEY}"}))
    assert not own.may_change(http({**LOCAL, "authorization": "Bearer a token"}))


def test_wrong_tokens_do_not_lock_out_the_owner_who_has_the_same_address() -> None:
    own = access(token="a token", attempts=FailedAttempts(lambda: 0.0, limit=3))
    for _ in range(5):
        assert not own.may_change(http({**LOCAL, "authorization": "Bearer wrong"}))
    assert own.may_change(http({**LOCAL, "authorization": "Bearer a token"}))


def test_signing_out_removes_the_cookie_and_ends_its_session(tmp_path: Path) -> None:
    own = access(KEY)
    first, second = (cookie_of(own.sign_in(http(), KEY)) for _ in range(2))
    assert "Max-Age=0" in own.sign_out(first)
    assert not own.is_signed_in(first)
    assert own.is_signed_in(second)


def test_a_session_that_was_ended_is_ended_in_every_process_and_after_a_restart(
    tmp_path: Path,
) -> None:
    path = tmp_path / "antiphon" / "ended"
    here, elsewhere = access(KEY, ended=path), access(KEY, ended=path)
    session, other = (cookie_of(here.sign_in(http(), KEY)) for _ in range(2))
    assert elsewhere.is_signed_in(session)
    here.sign_out(session)
    assert not elsewhere.is_signed_in(session)
    assert elsewhere.is_signed_in(other)
    assert not access(KEY, ended=path).is_signed_in(session)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_expired_sessions_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "ended"
    now = NOW
    for _ in range(300):
        day = access(KEY, now=now, ended=path)
        day.sign_out(cookie_of(day.sign_in(http(), KEY)))
        now += SESSION_S
    assert len(path.read_text().splitlines()) <= 100


def test_a_session_is_ended_here_where_no_file_can_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    own = access(KEY, ended=blocked / "ended")
    session = cookie_of(own.sign_in(http(), KEY))
    own.sign_out(session)
    assert not own.is_signed_in(session)


def test_a_cookie_that_is_none_of_ours_ends_no_session(tmp_path: Path) -> None:
    path = tmp_path / "ended"
    own = access(KEY, ended=path)
    for cookie in ("", "antiphon_session=1.2.3", "antiphon_session=99999999999.x.y"):
        assert "Max-Age=0" in own.sign_out(http({**LOCAL, "cookie": cookie}))
    assert not path.exists()


def test_wrong_keys_of_an_address_are_limited_wherever_they_are_sent() -> None:
    attempts = FailedAttempts(lambda: 0.0, limit=3)
    own = access(KEY, attempts=attempts)
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="Incorrect admin key"):
            own.sign_in(http(), "wrong")
    assert not own.is_signed_in(http({**LOCAL, "authorization": "Bearer wrong"}))
    right = http({**LOCAL, "authorization": f"Bearer {KEY}"})
    for guess in (lambda: own.sign_in(http(), KEY), lambda: own.check_api(right)):
        with pytest.raises(LimitExceeded) as caught:
            guess()
        assert (caught.value.status, caught.value.code) == (429, "too_many_attempts")
        assert caught.value.headers["retry-after"] == "60"
    own.sign_in(http(remote="192.0.2.7"), KEY)


def test_a_session_goes_on_while_its_address_may_try_no_more_keys() -> None:
    attempts = FailedAttempts(lambda: 0.0, limit=1)
    own = access(KEY, attempts=attempts)
    session = cookie_of(own.sign_in(http(), KEY))
    assert not own.is_signed_in(http({**LOCAL, "authorization": "Bearer wrong"}))
    own.check_api(session)
