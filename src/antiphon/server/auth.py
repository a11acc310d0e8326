"""Authentication: named API keys compared in constant time; without keys, loopback only."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from functools import lru_cache

from antiphon.config import ServerConfig
from antiphon.errors import ConfigError, InvalidRequest
from antiphon.server.http import HTTPRequest


class Authenticator:
    """Identifies the client that sent a request."""

    def __init__(self, api_keys: Mapping[str, str]) -> None:
        self._keys = {name: key.encode() for name, key in api_keys.items()}

    def authenticate(self, http: HTTPRequest) -> str:
        """Return the name of the client's key; raises `InvalidRequest` with status 401 or 403."""
        if not self._keys:
            return self._authenticate_loopback(http)
        # The server decodes headers with surrogateescape: this restores the bytes as sent.
        key = _read_key(http.headers).encode("utf-8", "surrogateescape")
        client = ""
        for name, known in self._keys.items():  # always all of them: constant time
            if hmac.compare_digest(key, known):
                client = name
        if not client:
            raise InvalidRequest(
                "Incorrect API key: `Authorization` must have one of the gateway's own keys."
                if key
                else "An API key is required: send `Authorization: Bearer KEY`.",
                code="invalid_api_key",
                status=401,
            )
        return client

    def _authenticate_loopback(self, http: HTTPRequest) -> str:
        """Without keys, accept only local clients that address this machine by a local name.

        The Host header keeps web pages out whose DNS name was rebound to 127.0.0.1.
        """
        host = http.headers.get("host", "")
        if not is_loopback(http.remote) or not is_loopback(host_name(host)):
            raise InvalidRequest(
                "Without API keys only requests from this machine are accepted;"
                " set [server] api_keys.",
                code="forbidden",
                status=403,
            )
        return "local"


def _read_key(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return headers.get("x-api-key", "")


def host_name(host: str) -> str:
    """Remove the port from a Host header."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def keeps_client(before: ServerConfig, after: ServerConfig, client: str) -> bool:
    """Whether a client that was authenticated by one configuration has the same key in another."""
    same_key = before.api_keys.get(client) == after.api_keys.get(client)
    return same_key and bool(before.api_keys) == bool(after.api_keys)


def reject_open_bind(host: str, api_keys: Mapping[str, str]) -> None:
    """Raise `ConfigError` for an address that others can reach without an API key."""
    if not api_keys and not is_loopback(host):
        raise ConfigError(
            f"server.host is {host!r}, which others can reach, but there are no [server] api_keys:"
            ' add one (api_keys = { me = "${MY_KEY}" }), or bind to 127.0.0.1.'
        )
    for name, key in api_keys.items():
        if not key.strip():
            raise ConfigError(f"server.api_keys.{name}: must not be empty")
