"""Authentication by API key, or by loopback address if there are no keys."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from antiphon.config import Config, ServerConfig
from antiphon.errors import ConfigError, InvalidRequest, LimitExceeded
from antiphon.server.auth import (
    Authenticator,
    FailedAttempts,
    check_admin,
    is_loopback,
    keeps_client,
    reject_open_bind,
)
from antiphon.server.http import HTTPRequest
from tests.support.tables import table

KEYS = {"alice": "sk-alice", "bob": "sk-bob", "umlaut": "schlüssel"}


def authenticate(
    keys: Mapping[str, str], headers: Mapping[str, str], remote: str = "127.0.0.1"
) -> str:
    return Authenticator(keys).authenticate(
        HTTPRequest.with_body("GET", "/v1/models", headers, remote=remote)
    )


REQUIRED = "An API key is required: send `Authorization: Bearer KEY`, or the key as `x-api-key`."
INCORRECT = "Incorrect API key: {} must have one of the gateway's own keys."


@table(
    ("headers", "client"),
    [
        ({"authorization": "Bearer sk-alice"}, "alice"),
        ({"authorization": "bearer  sk-bob "}, "bob"),
        ({"x-api-key": "sk-bob"}, "bob"),
        ({"authorization": "Basic eDp5", "x-api-key": "sk-bob"}, "bob"),
        ({"authorization": "Bearer of-another-server", "x-api-key": "sk-bob"}, "bob"),
        ({"authorization": "Bearer sk-alice", "x-api-key": "sk-bob"}, "alice"),
        ({"authorization": "Bearer schlüssel"}, "umlaut"),
    ],
)
def test_a_key_identifies_its_client_from_any_address(
    headers: Mapping[str, str], client: str
) -> None:
    assert authenticate(KEYS, headers, remote="203.0.113.5") == client


@table(
    ("headers", "message"),
    [
        ({}, REQUIRED),
        ({"authorization": "Bearer "}, REQUIRED),
        ({"authorization": "Bearer sk-eve"}, INCORRECT.format("`Authorization`")),
        ({"authorization": "Bearer \udcff\udcfe"}, INCORRECT.format("`Authorization`")),
        ({"x-api-key": "alice"}, INCORRECT.format("`x-api-key`")),
        (
            {"authorization": "Bearer sk-eve", "x-api-key": "alice"},
            INCORRECT.format("`Authorization` or `x-api-key`"),
        ),
    ],
)
def test_a_missing_or_unknown_key_is_a_401(headers: Mapping[str, str], message: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        authenticate(KEYS, headers)
    error = raised.value
    assert (error.status, error.wire_code, error.message) == (401, "invalid_api_key", message)


@table("host", ["localhost", "localhost:8484", "127.0.0.1:1", "[::1]:8484"])
def test_without_keys_a_local_client_is_accepted(host: str) -> None:
    assert authenticate({}, {"host": host}) == "local"


@table(
    ("host", "remote", "reason"),
    [
        ("localhost", "203.0.113.5", "this request is from another one"),
        ("localhost", "", "this request is from another one"),
        ("rebound.example", "127.0.0.1", "this request is addressed to 'rebound.example'"),
        ("", "127.0.0.1", "this request is addressed to ''"),
    ],
)
def test_without_keys_a_remote_address_or_a_foreign_host_name_is_a_403(
    host: str, remote: str, reason: str
) -> None:
    with pytest.raises(InvalidRequest, match=reason) as raised:
        authenticate({}, {"host": host}, remote)
    assert raised.value.message.endswith("Set [server] api_keys.")
    assert (raised.value.status, raised.value.wire_code) == (403, "forbidden")


@table(
    ("host", "expected"),
    [("LOCALHOST", True), ("127.9.9.9", True), ("::1", True), ("0.0.0.0", False), ("x", False)],
)
def test_loopback_names_and_addresses_are_recognised(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def bound(host: str, api_keys: dict[str, str]) -> Config:
    return Config(server=ServerConfig(host=host, api_keys=api_keys))


@table("host", ["0.0.0.0", "::", "192.0.2.7", "gateway.example", ""])
def test_binding_to_a_reachable_address_needs_keys(host: str) -> None:
    reject_open_bind(bound(host, {"alice": "0123456789abcdef"}))
    with pytest.raises(ConfigError, match=r"server.host: others can reach '.*', but.* api_keys"):
        reject_open_bind(bound(host, {}))


@table("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_binding_to_a_loopback_address_needs_no_keys(host: str) -> None:
    assert is_loopback(host)
    reject_open_bind(bound(host, {}))


@table("host", ["0.0.0.0", "gateway.example"])
@table("key", ["x", "0123456789abcde", "x              x"])
def test_a_short_key_is_rejected_where_others_can_guess_it(host: str, key: str) -> None:
    keys = {"bob": "0123456789abcdef", "alice": key}
    with pytest.raises(ConfigError, match=r"server.api_keys.alice: has \d+ characters") as caught:
        reject_open_bind(bound(host, keys))
    assert "at least 16" in caught.value.message
    assert "0123456789" not in caught.value.message
    reject_open_bind(bound("127.0.0.1", keys))


def test_an_empty_key_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"server.api_keys.alice: must not be empty"):
        reject_open_bind(bound("127.0.0.1", {"alice": " "}))


def test_a_client_is_kept_with_its_key() -> None:
    keyless, one = ServerConfig(), ServerConfig(api_keys={"me": "1"})
    two = ServerConfig(api_keys={"me": "1", "you": "2"})
    assert keeps_client(one, two, "me")
    assert not keeps_client(two, one, "you")
    assert not keeps_client(one, ServerConfig(api_keys={"me": "3"}), "me")
    assert keeps_client(keyless, keyless, "local")
    assert not keeps_client(keyless, one, "local")
    assert not keeps_client(one, keyless, "local")


# Operators

ADMIN_KEY = "key of the operator"


def check(http: HTTPRequest, admin_key: str, attempts: FailedAttempts | None = None) -> None:
    check_admin(http, admin_key, attempts or FailedAttempts(lambda: 0.0))


def admin_request(remote: str = "127.0.0.1", **headers: str) -> HTTPRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HTTPRequest.with_body("GET", "/metrics", {"host": "localhost", **named}, b"", remote)


@table("host", ["localhost", "localhost:8484", "127.0.0.1:8484", "[::1]:8484"])
def test_without_an_admin_key_this_machine_has_access(host: str) -> None:
    check(admin_request(host=host), "")


@table(
    "other",
    [
        admin_request(remote="10.0.0.7"),
        admin_request(host="gateway.example"),
        admin_request(x_forwarded_for="10.0.0.7"),
        admin_request(forwarded="for=10.0.0.7"),
        admin_request(authorization=f"Bearer {ADMIN_KEY}", remote="10.0.0.7"),
    ],
)
def test_without_an_admin_key_no_other_machine_has_access(other: HTTPRequest) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(other, "")
    assert caught.value.status == 403


def test_the_admin_key_gives_access_from_everywhere() -> None:
    check(admin_request(remote="10.0.0.7", authorization=f"Bearer {ADMIN_KEY}"), ADMIN_KEY)


@table("authorization", ["", "Bearer wrong", f"Basic {ADMIN_KEY}", "Bearer \udcff"])
def test_without_the_configured_key_this_machine_has_no_access_either(authorization: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(admin_request(authorization=authorization), ADMIN_KEY)
    assert caught.value.status == 401


class Wrong:
    """Requests with a wrong admin key, at a time of our own."""

    def __init__(self) -> None:
        self.now = 100.0
        self.attempts = FailedAttempts(lambda: self.now, limit=2, window_s=60.0)

    def status(self, remote: str, key: str = "wrong") -> int:
        request = admin_request(remote=remote, authorization=f"Bearer {key}")
        try:
            check(request, ADMIN_KEY, self.attempts)
        except InvalidRequest as error:
            return error.status
        return 200


def test_an_address_may_try_again_when_its_first_failure_is_old_enough() -> None:
    wrong = Wrong()
    assert [wrong.status("192.0.2.1") for _ in range(3)] == [401, 401, 429]
    wrong.now = 159.9
    assert wrong.status("192.0.2.1", ADMIN_KEY) == 429
    wrong.now = 160.0
    assert wrong.status("192.0.2.1", ADMIN_KEY) == 200


def test_a_refused_address_is_told_how_long_it_has_to_wait() -> None:
    wrong = Wrong()
    wrong.status("192.0.2.1")
    wrong.now = 110.5
    wrong.status("192.0.2.1")
    with pytest.raises(LimitExceeded) as caught:
        check(
            admin_request(remote="192.0.2.1", authorization="Bearer x"), ADMIN_KEY, wrong.attempts
        )
    assert caught.value.headers == {"retry-after": "50"}


@table(
    ("first", "second", "is_same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("", "192.0.2.2", False),
    ],
)
def test_addresses_of_one_ipv6_network_count_as_one(first: str, second: str, is_same: bool) -> None:
    wrong = Wrong()
    assert [wrong.status(first) for _ in range(3)] == [401, 401, 429]
    assert wrong.status(second) == (429 if is_same else 401)


def test_a_request_without_a_key_is_no_attempt() -> None:
    wrong = Wrong()
    for _ in range(5):
        with pytest.raises(InvalidRequest, match="needs the admin key"):
            check(admin_request(), ADMIN_KEY, wrong.attempts)
    assert wrong.status("127.0.0.1", ADMIN_KEY) == 200


def test_the_addresses_that_are_remembered_are_limited() -> None:
    wrong = Wrong()
    for number in range(5000):
        wrong.status(f"10.0.{number // 256}.{number % 256}")
    assert wrong.attempts.addresses == 4096
