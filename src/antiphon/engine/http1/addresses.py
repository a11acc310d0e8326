"""Addresses of hosts: looked up in a thread, kept for a minute."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections import deque
from typing import NamedTuple

from aiohappyeyeballs import AddrInfoType

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
        self._lookups: dict[tuple[str, int], asyncio.Task[list[AddrInfoType]]] = {}

    async def find(self, host: str, port: int) -> list[AddrInfoType]:
        """Return the addresses of a host, each time beginning with the next; raise `OSError`."""
        if (literal := _read_literal(host, port)) is not None:
            return [literal]
        key = host, port
        found = self._found.get(key)
        if found is None or self._loop.time() - found.at > KEPT_S:
            await self._look_up(key)
            found = self._found[key]
        addresses = [*found.addresses]
        found.addresses.rotate(-1)
        return addresses

    def close(self) -> None:
        for lookup in self._lookups.values():
            lookup.cancel()

    async def _look_up(self, key: tuple[str, int]) -> None:
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._loop.create_task(self._ask_system(*key))
            self._lookups[key] = lookup
            lookup.add_done_callback(lambda done: self._end_lookup(key, done))
        await asyncio.shield(lookup)  # others may wait for the same lookup

    def _end_lookup(self, key: tuple[str, int], done: asyncio.Task[list[AddrInfoType]]) -> None:
        del self._lookups[key]
        if done.cancelled() or done.exception() is not None:
            return
        if len(self._found) >= MAX_KEPT:
            del self._found[next(iter(self._found))]
        self._found[key] = _Found(self._loop.time(), deque(done.result()))

    async def _ask_system(self, host: str, port: int) -> list[AddrInfoType]:
        return [
            *await self._loop.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
            )
        ]


def _read_literal(host: str, port: int) -> AddrInfoType | None:
    """Read an address that is written as such."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if address.version == 4:
        return socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port)
    return socket.AF_INET6, socket.SOCK_STREAM, 0, "", (host, port, 0, 0)
