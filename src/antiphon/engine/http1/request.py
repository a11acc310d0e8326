"""Plain requests: which ones this client sends, and their heads.

The bytes are those of aiohttp, header by header.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from yarl import URL

_NOT_PLAIN = frozenset(
    """
    accept-encoding connection content-encoding content-length cookie expect host keep-alive te
    trailer transfer-encoding upgrade
    """.split()
)
"""Headers that concern framing, connection or compression: aiohttp sends those requests."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HOST_NAME = re.compile(r"[a-z0-9_.-]*[a-z][a-z0-9_-]*\.?", re.IGNORECASE)
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
_ACCEPT = "Accept: */*\r\n"
_ENCODINGS = "Accept-Encoding: gzip, deflate\r\n"


class Origin(NamedTuple):
    """Requests to the same origin share connections."""

    host: str
    port: int
    is_tls: bool


class Target(NamedTuple):
    """Where a request goes to."""

    origin: Origin
    start: str
    """The request line and the header `Host`."""


def find_target(url: str, headers: Mapping[str, str]) -> Target | None:
    """Return the target of a plain request: to a name or an address, without a password in the URL,
    with headers that concern neither framing nor connection. None: aiohttp has to send it."""
    return _read_url(url) if _list_further_headers(tuple(headers)) is not None else None


def encode_head(target: Target, headers: Mapping[str, str], length: int) -> bytes:
    """Encode the head of a request with a body of this length."""
    for value in headers.values():
        if not value.isprintable() and _CONTROL.search(value):
            raise ValueError("A header of the request contains a control character.")
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    further = _list_further_headers(tuple(headers))
    return f"{target.start}{fields}{further}Content-Length: {length}\r\n\r\n".encode()


@lru_cache(maxsize=256)
def _list_further_headers(names: tuple[str, ...]) -> str | None:
    """Return the headers that are added to those with these names; None if they are not plain."""
    known = {name.lower() for name in names}
    if len(known) < len(names) or known & _NOT_PLAIN:
        return None
    if not all(_TOKEN.fullmatch(name) for name in names):
        return None
    return _ENCODINGS if "accept" in known else _ACCEPT + _ENCODINGS


@lru_cache(maxsize=1024)
def _read_url(url: str) -> Target | None:
    try:
        read = URL(url)
        port, host = read.port, read.raw_host
    except ValueError:
        return None
    if read.scheme not in ("http", "https") or not host or port is None:
        return None
    if read.raw_user or read.raw_password or not _is_plain_host(host):
        return None
    origin = Origin(host, port, read.scheme == "https")
    line = f"POST {read.raw_path_qs} HTTP/1.1\r\nHost: {read.host_port_subcomponent}\r\n"
    return Target(origin, line)


def _is_plain_host(host: str) -> bool:
    """Whether a host is a name or an address; not a number that only looks like a name."""
    if _HOST_NAME.fullmatch(host) and ".." not in host:
        return True
    try:
        return "%" not in host and str(ipaddress.ip_address(host)) == host
    except ValueError:
        return False
