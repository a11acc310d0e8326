"""A network in which servers of a test have public names, addresses and certificates."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any

import httpcore2

from antiphon.mcp.addresses import Network


class PublicNames:
    """A resolver that gives each list of addresses once, and the last one for ever."""

    def __init__(self, *found: Sequence[str]) -> None:
        self.asked: list[str] = []
        self._found = [*found]

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self._found.pop(0) if len(self._found) > 1 else self._found[0]


class Loopback(httpcore2.AsyncNetworkBackend):
    """Connects to this machine, whatever the address; notes where connections should go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of the package
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.asked.append(host)
        return await self._backend.connect_tcp("127.0.0.1", port, timeout)


def public_network(names: PublicNames, loopback: Loopback, tls: ssl.SSLContext) -> Network:
    return Network(names, loopback, tls)
