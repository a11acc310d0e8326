"""Unit tests of the application host."""

from __future__ import annotations

import asyncio

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
