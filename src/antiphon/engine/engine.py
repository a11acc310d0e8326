"""Engine: what serves requests by one configuration. A request uses the engine that it began with.

It prepares requests (`prepare.py`) and makes their runs (`run.py`), which are inert until they are
entered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import structs

from antiphon.core.compaction.request_summary import with_trigger
from antiphon.core.faults.fault import shutdown_fault
from antiphon.core.items import Document
from antiphon.core.request import Request
from antiphon.engine.prepare import Preparer
from antiphon.engine.routing import Router
from antiphon.engine.run import Run
from antiphon.engine.services import ActiveRuns, Caller, Prepared, Services
from antiphon.store.chain import TurnSource


@dataclass
class Engine:
    """Creates runs."""

    services: Services
    preparer: Preparer

    @property
    def router(self) -> Router:
        return self.preparer.router

    @property
    def active(self) -> ActiveRuns:
        return self.services.active

    async def create(self, request: Request, caller: Caller) -> Run:
        """Decide everything about a request and return its run, which has not begun."""
        return Run(self.services, await self.prepare(request, caller))

    async def prepare(
        self,
        request: Request,
        caller: Caller,
        turns: TurnSource | None = None,
        *,
        response_id: str | None = None,
        created_at: int | None = None,
    ) -> Prepared:
        """Decide everything about a request, see `Preparer.prepare`."""
        return await self.preparer.prepare(
            request, caller, turns, response_id=response_id, created_at=created_at
        )

    async def create_compaction(
        self, request: Request, caller: Caller
    ) -> tuple[Run, Sequence[Document]]:
        """Return the run that compacts the history of a request, and the items of this history."""
        truncated = structs.replace(request, truncation="auto")  # a summary of the newest part
        request, history = await self.preparer.load_history(truncated, caller)
        summary = with_trigger(request, history.items)
        return await self.create(summary, caller), summary.input[:-1]

    def stop_all(self) -> None:
        """End every active run with a terminal event: the process is shutting down."""
        self.active.stop(shutdown_fault())
