"""Metrics of a running engine: counts what its requests report, and answers scrapes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from antiphon.engine.engine import Engine
from antiphon.observe.gauges import read_engine
from antiphon.observe.metrics import Metrics

REFRESH_S = 5.0
"""How often a process shows its gauges to the others that share its figures."""


class EngineMetrics:
    """Counts the requests of an engine from `start` on."""

    def __init__(self, find_engine: Callable[[], Engine], refresh_s: float = REFRESH_S) -> None:
        """`find_engine` returns that of the configuration in effect: its gauges are shown."""
        self._find_engine = find_engine
        self._refresh_s = refresh_s
        self._accounting = find_engine().services.accounting
        self._metrics = Metrics()
        self._refreshing: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._accounting.observers.append(self._metrics.count)
        self._accounting.rejection_observers.append(self._metrics.count_rejection)
        if self._metrics.is_shared:
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())

    async def scrape(self) -> bytes:
        """Return all series, up to date. A thread writes them: there may be thousands."""
        self._update()
        return await asyncio.to_thread(self._metrics.render)

    def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
        self._accounting.drain()
        self._metrics.close()

    def _update(self) -> None:
        values = read_engine(self._find_engine())
        self._accounting.drain()
        self._metrics.set_gauges(values)

    async def _refresh(self) -> None:
        while True:
            self._update()
            await asyncio.sleep(self._refresh_s)
