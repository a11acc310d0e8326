"""Live runs: the responses that this process generates, for those who retrieve or cancel them, and
the recovery of runs whose process is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from antiphon.config import BackgroundConfig
from antiphon.engine.engine import Engine
from antiphon.engine.run import Run
from antiphon.engine.services import Prepared, Services
from antiphon.errors import StoreError
from antiphon.runs.background import BackgroundRuns
from antiphon.runs.event_log import EventLog
from antiphon.runs.lease import ProcessLease
from antiphon.runs.live_run import ForegroundTurn, LiveRun, register
from antiphon.runs.recovery import AbandonedRuns, StartedTurns
from antiphon.stages.log import Entry
from antiphon.store.run_log import RenewedRuns

RECOVER_EVERY_S = 1.0
"""Longest time between two recoveries."""


class LiveRuns:
    """Every run of this process by response id, its lease, and its background responses."""

    def __init__(self, engine: Engine, config: BackgroundConfig) -> None:
        services = engine.services
        self.runs: dict[str, LiveRun] = {}
        self.store = services.store
        self._config = config
        self._emit = services.emit
        holder = services.runtime.new_id("proc")
        self.lease = ProcessLease(self.store.runs, holder, config.lease_s, self._on_request)
        self._abandoned = AbandonedRuns(self.store, self.lease)
        self._started_turns = StartedTurns(self.store, self.lease, self._abandoned, self._emit)
        self.background = BackgroundRuns(
            engine, config.max_running, self.lease, self._abandoned, self.runs
        )
        self._watching: asyncio.Task[None] | None = None

    def create(
        self,
        services: Services,
        prepared: Prepared,
        *,
        log: EventLog | None = None,
        on_reader_lost: Callable[[LiveRun], None] | None = None,
    ) -> LiveRun:
        """Make the run of a foreground response, which has not begun. Without a log that keeps
        them, its events are for its first reader alone. `on_reader_lost`: see `LiveRun`."""
        turn = ForegroundTurn(self._started_turns, services.store, prepared)
        run = Run(services, prepared, save=turn)
        log = log or EventLog(keeps_events=False)
        live = LiveRun(run, log, turn=turn, on_reader_lost=on_reader_lost)
        register(self.runs, live, turn)
        return live

    def find(self, response_id: str, client: str) -> LiveRun | None:
        """Return the run of a stored response that is being generated here for this client."""
        live = self.runs.get(response_id)
        if live is None or live.is_deleted:
            return None
        prepared = live.run.prepared
        is_found = prepared.caller.client == client and prepared.request.store
        return live if is_found else None

    def find_log(self, response_id: str, client: str) -> EventLog | None:
        """Return the log of a background response that is being generated here."""
        live = self.find(response_id, client)
        if live is None or not live.run.prepared.request.background:
            return None
        return live.log

    async def start(self) -> None:
        """End what other processes have left behind, and generate the queued responses."""
        await self.recover()
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def close(self) -> None:
        """Stop all tasks. Runs that have not ended are cancelled."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait((self._watching,))
        await self.background.close()
        await self._cancel_rest()
        await self._started_turns.close()
        await self.lease.close()

    async def _cancel_rest(self) -> None:
        """Cancel foreground runs that wait for their client to come back."""
        tasks = []
        for live in tuple(self.runs.values()):
            live.cancel()
            if live.task is not None:
                tasks.append(live.task)
        if tasks:
            await asyncio.wait(tasks)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(recovery_interval(self._config.lease_s))
            await self.recover()

    async def recover(self) -> None:
        """End the runs of lost processes, begin queued responses, and delete those whose end could
        not be stored."""
        try:
            await self.lease.renew()  # after a pause of this process its own runs look abandoned
            ended = await self._abandoned.end_expired()
        except StoreError as error:
            self._emit(Entry("runs.recovery_failed", "error", {"reason": error.message}))
            return
        except Exception as error:  # a bug, or no thread: queued responses do not wait for it
            facts = {"reason": type(error).__name__}
            self._emit(Entry("runs.recovery_failed", "error", facts))
            ended = 0
        if ended:
            self._emit(Entry("runs.recovered", "warning", {"responses": ended}))
        await self.background.take_queued()
        await self._started_turns.delete_unfinished()

    def _on_request(self, requested: RenewedRuns) -> None:
        for response_id in requested.cancelled:
            if (live := self.runs.get(response_id)) is not None:
                live.cancel()
        for response_id in requested.deleted:
            if (live := self.runs.get(response_id)) is not None:
                live.delete()


def recovery_interval(lease_s: float) -> float:
    """Return the seconds between two recoveries: a response ends this long after its lease."""
    return min(lease_s, RECOVER_EVERY_S)
