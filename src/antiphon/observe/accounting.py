"""Accounting of an engine: the limits of its clients, and the recorder of their usage."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from socket import socket

from antiphon.config import Config
from antiphon.engine.accounting import Accounting
from antiphon.engine.runtime import Runtime
from antiphon.observe.counters import LimitCounters, MemoryLimitCounters, list_periods
from antiphon.observe.limits import ClientLimiter, limits_cost
from antiphon.observe.recorder import UsageRecorder
from antiphon.observe.redis_counters import RedisLimitCounters
from antiphon.observe.span_export import make_context_factory
from antiphon.observe.worker_counters import WorkerLimitCounters
from antiphon.stages.log import Entry
from antiphon.store.store import Store
from antiphon.store.usage.usage_table import COUNTS, HOUR_S

_COST = COUNTS.index("cost")
_MONTH_HOURS = 31 * 24


async def start_accounting(
    config: Config,
    store: Store,
    runtime: Runtime,
    emit: Callable[[Entry], None],
    counters: LimitCounters | None = None,
) -> UsageRecorder:
    """Apply the limits of the configuration, and count usage in an open store until the recorder
    is closed."""
    counters = counters or make_counters(config, runtime, emit)
    await counters.open()
    if config.limits.clients:
        await load_costs(store, counters, runtime.epoch_s())
    unlimited = Accounting(new_context=make_context_factory(config, runtime))
    accounting = apply_limits(unlimited, config, counters, runtime, emit)
    recorder = UsageRecorder(store.usage, accounting, emit)
    recorder.start()
    return recorder


def make_counters(
    config: Config, runtime: Runtime, emit: Callable[[Entry], None], parent: socket | None = None
) -> LimitCounters:
    """Make the counters of this process, or those that it shares: by `[shared]` with all gateways,
    else by a socket to its parent with the other workers."""
    memory = MemoryLimitCounters(runtime.monotonic, runtime.epoch_s)
    if config.shared.url:
        return RedisLimitCounters(config.shared, runtime, memory, emit)
    return memory if parent is None else WorkerLimitCounters(parent, memory)


def apply_limits(
    accounting: Accounting,
    config: Config,
    counters: LimitCounters,
    runtime: Runtime,
    emit: Callable[[Entry], None],
) -> Accounting:
    """Return an accounting with the limits of a configuration. Everything else is shared with the
    one before: counters, queue and observers."""
    limits = config.limits.clients
    limiter = ClientLimiter(limits, counters, runtime.epoch_s, emit) if limits else None
    return replace(accounting, limiter=limiter)


async def load_costs(store: Store, counters: LimitCounters, now: float) -> None:
    """Count what clients have spent this month, so that a restart does not forget it."""
    hour = int(now) // HOUR_S
    rows = await store.usage.read(hour - _MONTH_HOURS, hour)
    spent: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for key, counts in rows.items():
        for period in list_periods(key.hour * HOUR_S):
            spent[key.client][period] += counts[_COST]
    for client, periods in spent.items():
        counters.note_spent(client, periods)


async def reload_costs(
    config: Config, usage: UsageRecorder, store: Store, counters: LimitCounters, now: float
) -> None:
    """Count what clients have spent before another configuration limits it: clients without limits
    are counted in the store alone. Raises `StoreError`."""
    if any(map(limits_cost, config.limits.clients.values())):
        await usage.flush()
        await load_costs(store, counters, now)
