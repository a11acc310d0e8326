"""Addresses of hosts: looked up in a thread, kept for a minute."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections import deque
from typing import NamedTuple

from aiohappyeyeballs import AddrInfoType

from antiphon.errors import ConnectionFailure

KEPT_S = 60.0
MAX_KEPT = 1000


class _Found(NamedTuple):
    at: float
    addresses: deque[AddrInfoType]


class Addresses:
    """The addresses of hosts; each lookup of a name serves every request that waits for it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._found: dict[tuple[str, int], _Found] = {}
        self._lookups: dict[tuple[str, int], asyncio.Task[_Found]] = {}

    async def find(self, host: str, port: int) -> list[AddrInfoType]:
        """Return the addresses of a host, each time beginning with the next; raise `OSError`."""
        if (literal := _read_literal(host, port)) is not None:
            return [literal]
        found = self._found.get((host, port))
        if found is None or self._loop.time() - found.at > KEPT_S:
            found = await self._share_lookup(host, port)
        addresses = [*found.addresses]
        found.addresses.rotate(-1)
        return addresses

    async def close(self) -> None:
        """End every lookup."""
        lookups = [*self._lookups.values()]
        for lookup in lookups:
            lookup.cancel()
        await asyncio.gather(*lookups, return_exceptions=True)

    async def _share_lookup(self, host: str, port: int) -> _Found:
        """Wait for a lookup; if this is cancelled, others may still wait for it."""
        lookup = self._lookups.get((host, port))
        if lookup is None:
            lookup = self._loop.create_task(self._look_up(host, port))
            self._lookups[host, port] = lookup
            lookup.add_done_callback(_ignore_failure)
        await asyncio.wait((lookup,))
        if lookup.cancelled():
            raise ConnectionFailure("the gateway is closing its connections")
        return lookup.result()

    async def _look_up(self, host: str, port: int) -> _Found:
        try:
            found = await self._loop.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
            )
        finally:
            del self._lookups[host, port]
        if len(self._found) >= MAX_KEPT:
            del self._found[next(iter(self._found))]
        kept = _Found(self._loop.time(), deque(found))
        self._found[host, port] = kept
        return kept


def _ignore_failure(lookup: asyncio.Task[_Found]) -> None:
    """Note that a failure was seen, even if no request waits for the lookup any more."""
    if not lookup.cancelled():
        lookup.exception()


def _read_literal(host: str, port: int) -> AddrInfoType | None:
    """Read an address that is written as such."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if address.version == 4:
        return socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port)
    return socket.AF_INET6, socket.SOCK_STREAM, 0, "", (host, port, 0, 0)
