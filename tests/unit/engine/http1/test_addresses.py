"""Addresses of hosts: literals, names that are kept, lookups that are shared."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from antiphon.engine.http1.addresses import KEPT_S, MAX_KEPT, Addresses
from antiphon.errors import ConnectionFailure
from tests.simulation.virtual_loop import VirtualLoop

FIRST = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 80, 0, 0))
SECOND = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))


class NamingLoop(VirtualLoop):
    """An event loop whose system knows one name."""

    def __init__(self) -> None:
        super().__init__(limit_s=1000.0)
        self.lookups = 0

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        self.lookups += 1
        await asyncio.sleep(1.0)
        if host != "known.example":
            raise socket.gaierror(-2, "Name or service not known")
        return [FIRST, SECOND]


def simulate(scenario: Any) -> int:
    """Run a scenario; return the number of lookups."""
    loop = NamingLoop()

    async def run() -> None:
        addresses = Addresses()
        await scenario(addresses)
        await addresses.close()

    try:
        loop.run_until_complete(run())
        assert loop.unhandled == []
        return loop.lookups
    finally:
        loop.close()


def test_an_address_needs_no_lookup() -> None:
    async def scenario(addresses: Addresses) -> None:
        assert await addresses.find("127.0.0.1", 80) == [
            (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80))
        ]
        assert await addresses.find("::1", 80) == [
            (socket.AF_INET6, socket.SOCK_STREAM, 0, "", ("::1", 80, 0, 0))
        ]

    assert simulate(scenario) == 0


def test_a_name_is_kept_for_a_while_and_its_addresses_take_turns() -> None:
    async def scenario(addresses: Addresses) -> None:
        assert await addresses.find("known.example", 80) == [FIRST, SECOND]
        assert await addresses.find("known.example", 80) == [SECOND, FIRST]
        await asyncio.sleep(KEPT_S + 1)
        assert await addresses.find("known.example", 80) == [FIRST, SECOND]

    assert simulate(scenario) == 2


def test_requests_share_a_lookup_and_one_that_is_cancelled_does_not_end_it() -> None:
    async def scenario(addresses: Addresses) -> None:
        waiting = [asyncio.ensure_future(addresses.find("known.example", 80)) for _ in range(3)]
        await asyncio.sleep(0.5)
        waiting[0].cancel()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        assert found[1:] == [[FIRST, SECOND], [SECOND, FIRST]]

    assert simulate(scenario) == 1


def test_a_name_that_is_not_known_is_asked_for_again() -> None:
    async def scenario(addresses: Addresses) -> None:
        for _ in range(2):
            with pytest.raises(socket.gaierror):
                await addresses.find("unknown.example", 80)

    assert simulate(scenario) == 2


def test_a_lookup_without_a_request_ends_quietly() -> None:
    async def scenario(addresses: Addresses) -> None:
        for host, wait_s in (("unknown.example", 2.0), ("known.example", 0.1)):
            waiting = asyncio.ensure_future(addresses.find(host, 80))
            await asyncio.sleep(0.1)
            waiting.cancel()
            await asyncio.sleep(wait_s)

    assert simulate(scenario) == 2


def test_a_request_that_waits_for_a_lookup_fails_when_all_are_ended() -> None:
    async def scenario(addresses: Addresses) -> None:
        waiting = asyncio.ensure_future(addresses.find("known.example", 80))
        await asyncio.sleep(0.1)
        await addresses.close()
        with pytest.raises(ConnectionFailure, match="closing its connections"):
            await waiting

    assert simulate(scenario) == 1


def test_the_oldest_of_many_names_is_forgotten() -> None:
    async def scenario(addresses: Addresses) -> None:
        ports = range(1, MAX_KEPT + 2)
        await asyncio.gather(*(addresses.find("known.example", port) for port in ports))
        await addresses.find("known.example", MAX_KEPT + 1)
        await addresses.find("known.example", 1)

    assert simulate(scenario) == MAX_KEPT + 2
