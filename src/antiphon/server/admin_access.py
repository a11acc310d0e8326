"""Access of operators: the admin key, or this machine only."""

from __future__ import annotations

import hmac

from antiphon.errors import InvalidRequest
from antiphon.server.auth import host_name, is_loopback
from antiphon.server.http import HTTPRequest

_FORWARDING = (
    *("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"),
    *("x-forwarded-server", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"),
)
"""Headers that a proxy adds: such a request comes from elsewhere, whatever its address."""


def check_admin(http: HTTPRequest, admin_key: str) -> None:
    """Raise `InvalidRequest` unless a request has the admin key or, where none is configured,
    comes from this machine."""
    if not admin_key and not is_local(http):
        raise InvalidRequest(
            f"{http.path} is for this machine only. To read it from elsewhere, set `admin_key` in"
            " [server].",
            code="forbidden",
            status=403,
        )
    if admin_key and not has_key(http, admin_key):
        raise InvalidRequest(
            f"{http.path} needs the admin key: send `Authorization: Bearer KEY` with the"
            " `admin_key` of [server].",
            code="invalid_api_key",
            status=401,
        )


def has_key(http: HTTPRequest, admin_key: str) -> bool:
    """Whether a request has the admin key as its bearer token."""
    scheme, _, token = http.headers.get("authorization", "").partition(" ")
    given = token.strip().encode("utf-8", "surrogateescape")
    return scheme.lower() == "bearer" and hmac.compare_digest(given, admin_key.encode())


def is_local(http: HTTPRequest) -> bool:
    """Whether a request comes from this machine, to a name of this machine, and not by a proxy."""
    headers = http.headers
    is_forwarded = any(headers.get(header) is not None for header in _FORWARDING)
    name = host_name(headers.get("host", ""))
    return is_loopback(http.remote) and is_loopback(name) and not is_forwarded
