"""URLs of MCP servers: read strictly, so that no other URL is called than the one checked."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_PORTS = {"http": 80, "https": 443}
_CHARACTERS = re.compile(r"[!-~]+")  # no space, no control character, nothing beyond ASCII
_SEPARATORS = re.compile(r"[/\\;\0]")  # some servers cut a segment at the last two
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")


class Location(NamedTuple):
    """The parts of a URL, each in its canonical form."""

    scheme: str
    host: str
    """In lower case, an IPv6 address without brackets."""
    port: int
    path: str
    query: str

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        query = f"?{self.query}" if self.query else ""
        return f"{self.scheme}://{host}{port}{self.path}{query}"

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    def is_below(self, other: Location) -> bool:
        """Whether it has the origin of another location, and its path or one below it."""
        path = other.path.rstrip("/") + "/"
        below = self.path == other.path or self.path.startswith(path)
        return self.origin == other.origin and below


def read_url(url: str) -> Location | None:
    """Read a URL of HTTP; None for everything that two readers might read in two ways: user names,
    backslashes, `..` in the path, characters beyond ASCII."""
    if not _CHARACTERS.fullmatch(url) or "\\" in url or "@" in url.partition("?")[0]:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    scheme = parts.scheme.lower()
    host = (parts.hostname or "").rstrip(".")
    if scheme not in _PORTS or not _HOST.fullmatch(host) or parts.fragment or port == 0:
        return None
    if not {".", ".."}.isdisjoint(_SEPARATORS.split(unquote(unquote(parts.path)))):
        return None
    return Location(scheme, host, port or _PORTS[scheme], parts.path or "/", parts.query)
