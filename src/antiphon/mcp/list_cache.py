"""Lists of tools, remembered for a while by server and credential."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from antiphon.core.mcp.values import McpToolList
from antiphon.mcp.policy import Endpoint

MAX_ENTRIES = 1000
MAX_BYTES = 64 * 1024 * 1024


class _Entry(msgspec.Struct, frozen=True):
    tools: McpToolList
    size: int
    expires_at: float


class ListCache:
    """Keeps the tools of servers; the least recently listed ones make room for others.

    A key is a keyed hash of URL and headers: credentials are not kept, and cannot be guessed from
    the keys.
    """

    def __init__(self, ttl_s: float, monotonic: Callable[[], float]) -> None:
        self._ttl_s = ttl_s
        self._monotonic = monotonic
        self._secret = secrets.token_bytes(32)
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._size = 0

    def make_key(self, endpoint: Endpoint) -> bytes:
        text = msgspec.json.encode((endpoint.location.url, sorted(endpoint.headers.items())))
        return hmac.digest(self._secret, text, hashlib.sha256)

    def get(self, key: bytes) -> McpToolList | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.expires_at <= self._monotonic():
            self.forget(key)
            return None
        return entry.tools

    def add(self, key: bytes, tools: McpToolList, size: int) -> None:
        self.forget(key)
        self._entries[key] = _Entry(tools, size, self._monotonic() + self._ttl_s)
        self._size += size
        while len(self._entries) > MAX_ENTRIES or self._size > MAX_BYTES:
            self.forget(next(iter(self._entries)))

    def forget(self, key: bytes) -> None:
        """Forget a list, because it has expired or the server says that it has changed."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._size -= entry.size
