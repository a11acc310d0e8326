"""Wake-ups of tails by NOTIFY."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.store.postgres.address import parse_address
from antiphon.store.postgres.wakeups import Wakeups
from antiphon.store.run_log import LoggedBatch, RunStart
from tests.support.postgres_proxy import PostgresProxy
from tests.support.turns import turn
from tests.support.waiting import LIMIT_S
from tests.unit.store.postgres.conftest import OpenStore

pytestmark = pytest.mark.anyio

RUNNING = RunStart(holder="p1", is_background=True, is_streamed=True)


async def test_events_of_another_process_wake_a_tail(
    open_store: OpenStore, proxy: PostgresProxy
) -> None:
    store = await open_store()
    wakeups = Wakeups(parse_address(proxy.url), poll_s=600)
    watch = wakeups.watch("r1")
    await watch.wait()  # it listens: before, anything may have happened
    token = await store.runs.begin(turn("r1", status="in_progress"), RUNNING)
    for number in range(3):
        await store.runs.append("r1", token, [LoggedBatch(number, number, b"x\n\n")])
        await watch.wait()
    proxy.cut_all()
    await watch.wait()  # it listens again
    await store.runs.finish(turn("r1"), token, [LoggedBatch(3, 3, b"x\n\n")])
    async with asyncio.timeout(LIMIT_S):
        await watch.wait()
    assert (await store.runs.read_events("r1", 2)) is not None
    watch.close()
    await wakeups.close()


async def test_a_connection_that_is_lost_without_a_word_is_replaced(proxy: PostgresProxy) -> None:
    address = parse_address(f"{proxy.url}&connect_timeout=0.2")
    wakeups = Wakeups(address, poll_s=600, check_s=0.01)
    watch = wakeups.watch("r1")
    await watch.wait()  # it listens
    proxy.silence_all()
    async with asyncio.timeout(10):
        await watch.wait()  # it listens again
    assert not watch.woken.is_set()
    watch.close()
    await wakeups.close()


async def test_a_tail_looks_for_events_without_a_notification(proxy: PostgresProxy) -> None:
    proxy.is_away = True
    wakeups = Wakeups(parse_address(proxy.url), poll_s=0.01)
    watch = wakeups.watch("r1")
    await watch.wait()
    assert not watch.woken.is_set()
    watch.close()
    await wakeups.close()
    await asyncio.sleep(0)
