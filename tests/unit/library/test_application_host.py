"""Unit tests of the application host."""

from __future__ import annotations

import asyncio
import gc

import aiohttp

from antiphon.config import Config
from antiphon.library.application_host import ApplicationHost


async def test_the_application_is_opened_once() -> None:
    host = ApplicationHost()
    first, second = await asyncio.gather(host.open(), host.open())
    assert first is second
    await host.close()


async def test_it_can_be_opened_again() -> None:
    host = ApplicationHost()
    first = await host.open()
    await host.close()
    assert await host.open() is not first
    await host.close()


def count_open_sessions() -> int:
    """HTTP clients that were opened and not closed; each application has one."""
    found = [each for each in gc.get_objects() if type(each) is aiohttp.ClientSession]
    return sum(not session.closed for session in found)


async def test_a_first_request_that_is_cancelled_leaves_nothing_open() -> None:
    before = count_open_sessions()
    for passes in range(1000):
        host = ApplicationHost(Config(default_provider="echo"))
        opening = asyncio.ensure_future(host.open())
        for _ in range(passes):
            await asyncio.sleep(0)
        if opening.done():
            break
        opening.cancel()
        await asyncio.wait((opening,))
        assert count_open_sessions() == before, f"cancelled after {passes} passes of the loop"
    assert passes > 1
    await host.close()
