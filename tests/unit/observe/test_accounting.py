"""Accounting of an engine: limits from the configuration, usage in the store, costs remembered."""

from __future__ import annotations

import pytest

from antiphon.config import ClientLimitConfig, Config, LimitConfig
from antiphon.engine.accounting import DOLLAR
from antiphon.engine.runtime import Runtime
from antiphon.errors import LimitExceeded, StoreError
from antiphon.observe.accounting import make_counters, reload_costs, start_accounting
from antiphon.observe.counters import MemoryLimitCounters
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.usage.usage_table import COUNTS, UsageKey, UsageTable
from tests.support.stores import OpenMemory, UnreadableUsage

pytestmark = pytest.mark.anyio

NOW = 1_794_830_400.0  # 2026-11-16T12 UTC


async def test_without_limits_there_is_no_limiter(open_memory: OpenMemory) -> None:
    store = await open_memory(now=lambda: 0)
    recorder = await start_accounting(Config(), store, Runtime(), lambda entry: None)
    assert recorder.accounting.limiter is None
    assert recorder.accounting.queue_observers
    await recorder.close()


async def test_a_restart_does_not_forget_what_was_spent(open_memory: OpenMemory) -> None:
    store = await open_memory(now=lambda: 0)
    counts = tuple(DOLLAR if name == "cost" else 0 for name in COUNTS)
    await store.usage.add({UsageKey(int(NOW) // 3600 - 2, "me", "m", "up"): counts})
    limits = LimitConfig(clients={"*": ClientLimitConfig(cost_per_day=1.0)})
    runtime = Runtime(epoch_s=lambda: NOW)
    recorder = await start_accounting(Config(limits=limits), store, runtime, lambda entry: None)
    limiter = recorder.accounting.limiter
    assert limiter is not None
    with pytest.raises(LimitExceeded):
        await limiter.admit("me", "r1")
    await limiter.admit("you", "r2")
    await recorder.close()


SPENT = tuple(DOLLAR if name == "cost" else 0 for name in COUNTS)


async def spend_and_reload(
    limits: ClientLimitConfig, store: SQLiteStore, usage: UsageTable
) -> MemoryLimitCounters:
    """Spend a dollar without limits, and then use a configuration that has some."""
    runtime = Runtime(epoch_s=lambda: NOW)
    await store.usage.add({UsageKey(int(NOW) // 3600, "me", "m", "up"): SPENT})
    store.usage = usage
    counters = make_counters(Config(), runtime, lambda entry: None)
    assert isinstance(counters, MemoryLimitCounters)
    recorder = await start_accounting(Config(), store, runtime, lambda entry: None, counters)
    config = Config(limits=LimitConfig(clients={"me": limits}))
    await reload_costs(config, recorder, store, counters, NOW)
    await recorder.close()
    return counters


async def test_a_reload_that_limits_cost_reads_what_was_spent(open_memory: OpenMemory) -> None:
    store = await open_memory()
    counters = await spend_and_reload(ClientLimitConfig(cost_per_day=1.0), store, store.usage)
    assert counters.spent("me") == (DOLLAR, DOLLAR)


async def test_a_reload_without_limits_of_cost_reads_nothing(open_memory: OpenMemory) -> None:
    store = await open_memory()
    counters = await spend_and_reload(ClientLimitConfig(max_streams=1), store, UnreadableUsage())
    assert counters.spent("me") == (0, 0)


async def test_a_store_that_cannot_be_read_is_reported_to_the_caller(
    open_memory: OpenMemory,
) -> None:
    store = await open_memory()
    with pytest.raises(StoreError):
        await spend_and_reload(ClientLimitConfig(cost_per_day=1.0), store, UnreadableUsage())
