"""Who may come in: named keys, compared in constant time; without keys, only this machine."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from functools import lru_cache

from aiohttp import web

from antiphon.errors import ConfigError, InvalidRequest


class Authenticator:
    def __init__(self, api_keys: Mapping[str, str]) -> None:
        self._keys = {name: key.encode() for name, key in api_keys.items()}

    def admit(self, request: web.Request) -> str:
        """The client's name, or a refusal."""
        if not self._keys:
            return self._admit_loopback(request)
        given = _presented(request).encode("utf-8", "surrogateescape")  # the bytes as they came
        found = ""
        for name, key in self._keys.items():  # all of them, always: time must not tell
            if hmac.compare_digest(given, key):
                found = name
        if not found:
            raise InvalidRequest(
                "Incorrect API key." if given else "An API key is needed: Authorization: Bearer …",
                code="invalid_api_key",
                status=401,
            )
        return found

    def _admit_loopback(self, request: web.Request) -> str:
        """No key guards us, so neither a neighbour nor a web page may get in."""
        if not is_loopback(request.remote or "") or not is_loopback(_host_name(request.host)):
            raise InvalidRequest(
                "Without API keys only this machine is served; set [server] api_keys.",
                code="forbidden",
                status=403,
            )
        return "local"


def _presented(request: web.Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return request.headers.get("x-api-key", "")


def _host_name(host: str) -> str:
    """The name in a Host header, without its port."""
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


def refuse_open_door(host: str, api_keys: Mapping[str, str]) -> None:
    """Binding where others can reach us, with nothing to keep them out, is a mistake."""
    if not api_keys and not is_loopback(host):
        raise ConfigError(
            f"server.host is {host!r}, which others can reach, but there are no [server] api_keys:"
            ' add one (api_keys = { me = "${MY_KEY}" }), or bind to 127.0.0.1.'
        )
    for name, key in api_keys.items():
        if not key.strip():
            raise ConfigError(f"server.api_keys.{name}: is empty")
