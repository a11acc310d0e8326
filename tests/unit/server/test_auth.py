"""Authentication by API key, or by loopback address if there are no keys."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from antiphon.config import ServerConfig
from antiphon.errors import ConfigError, InvalidRequest
from antiphon.server.auth import Authenticator, is_loopback, keeps_client, reject_open_bind
from antiphon.server.http import HTTPRequest

KEYS = {"alice": "sk-alice", "bob": "sk-bob", "umlaut": "schlüssel"}


def authenticate(
    keys: Mapping[str, str], headers: Mapping[str, str], remote: str = "127.0.0.1"
) -> str:
    return Authenticator(keys).authenticate(
        HTTPRequest.with_body("GET", "/v1/models", headers, remote=remote)
    )


INCORRECT = "Incorrect API key: `Authorization` must have one of the gateway's own keys."


@pytest.mark.parametrize(
    ("headers", "client"),
    [
        ({"authorization": "Bearer sk-alice"}, "alice"),
        ({"authorization": "bearer  sk-bob "}, "bob"),
        ({"x-api-key": "sk-bob"}, "bob"),
        ({"authorization": "Basic eDp5", "x-api-key": "sk-bob"}, "bob"),
        ({"authorization": "Bearer schlüssel"}, "umlaut"),
    ],
)
def test_a_key_identifies_its_client_from_any_address(
    headers: Mapping[str, str], client: str
) -> None:
    assert authenticate(KEYS, headers, remote="203.0.113.5") == client


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "An API key is required: send `Authorization: Bearer KEY`."),
        ({"authorization": "Bearer "}, "An API key is required: send `Authorization: Bearer KEY`."),
        ({"authorization": "Bearer sk-eve"}, INCORRECT),
        ({"authorization": "Bearer \udcff\udcfe"}, INCORRECT),
        ({"x-api-key": "alice"}, INCORRECT),
    ],
)
def test_a_missing_or_unknown_key_is_a_401(headers: Mapping[str, str], message: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        authenticate(KEYS, headers)
    error = raised.value
    assert (error.status, error.wire_code, error.message) == (401, "invalid_api_key", message)


@pytest.mark.parametrize("host", ["localhost", "localhost:8484", "127.0.0.1:1", "[::1]:8484"])
def test_without_keys_a_local_client_is_accepted(host: str) -> None:
    assert authenticate({}, {"host": host}) == "local"


@pytest.mark.parametrize(
    ("host", "remote"),
    [
        ("localhost", "203.0.113.5"),
        ("localhost", ""),
        ("rebound.example", "127.0.0.1"),
        ("", "127.0.0.1"),
    ],
)
def test_without_keys_a_remote_address_or_a_foreign_host_name_is_a_403(
    host: str, remote: str
) -> None:
    with pytest.raises(InvalidRequest, match=r"set \[server\] api_keys") as raised:
        authenticate({}, {"host": host}, remote)
    assert (raised.value.status, raised.value.wire_code) == (403, "forbidden")


@pytest.mark.parametrize(
    ("host", "expected"),
    [("LOCALHOST", True), ("127.9.9.9", True), ("::1", True), ("0.0.0.0", False), ("x", False)],
)
def test_loopback_names_and_addresses_are_recognised(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "gateway.example", ""])
def test_binding_to_a_reachable_address_needs_keys(host: str) -> None:
    reject_open_bind(host, {"alice": "secret"})
    with pytest.raises(ConfigError, match=r"server.host is '.*', which others can reach.*api_keys"):
        reject_open_bind(host, {})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_binding_to_a_loopback_address_needs_no_keys(host: str) -> None:
    assert is_loopback(host)
    reject_open_bind(host, {})


def test_an_empty_key_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"server.api_keys.alice: must not be empty"):
        reject_open_bind("127.0.0.1", {"alice": " "})


def test_a_client_is_kept_with_its_key() -> None:
    keyless, one = ServerConfig(), ServerConfig(api_keys={"me": "1"})
    two = ServerConfig(api_keys={"me": "1", "you": "2"})
    assert keeps_client(one, two, "me")
    assert not keeps_client(two, one, "you")
    assert not keeps_client(one, ServerConfig(api_keys={"me": "3"}), "me")
    assert keeps_client(keyless, keyless, "local")
    assert not keeps_client(keyless, one, "local")
    assert not keeps_client(one, keyless, "local")
