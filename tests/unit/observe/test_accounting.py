"""Accounting of an engine: limits from the configuration, usage in the store, costs remembered."""

from __future__ import annotations

import pytest

from antiphon.config import ClientLimitConfig, Config, LimitConfig
from antiphon.engine.runtime import Runtime
from antiphon.engine.tracing import DOLLAR
from antiphon.errors import LimitExceeded
from antiphon.observe.accounting import start_accounting
from antiphon.store.memory import MemoryStore
from antiphon.store.usage.usage_table import COUNTS, UsageKey

pytestmark = pytest.mark.anyio

NOW = 1_794_830_400.0  # 2026-11-16T12 UTC


async def test_without_limits_there_is_no_limiter() -> None:
    store = MemoryStore(now=lambda: 0)
    recorder = await start_accounting(Config(), store, Runtime(), lambda entry: None)
    assert recorder.accounting.limiter is None
    assert recorder.accounting.on_queued is not None
    await recorder.close()


async def test_a_restart_does_not_forget_what_was_spent() -> None:
    store = MemoryStore(now=lambda: 0)
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
