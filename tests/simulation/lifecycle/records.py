"""Records of the lifecycle of responses: what its actors did, for its oracles."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from antiphon.store.run_log import UNFINISHED
from tests.simulation.bounds.records import BackgroundQueue, LongThread
from tests.simulation.records import Document, Exchange

if TYPE_CHECKING:
    from tests.simulation.gateways import SimulatedGateway
    from tests.simulation.world import World

_UNFINISHED_RUNS = """
    SELECT turn.id FROM run JOIN turn ON turn.seq = run.turn
    WHERE run.status IN ('queued', 'in_progress') AND (? IS NULL OR run.holder = ?)
"""
_ORPHANS = {
    "events without a run": "SELECT turn FROM event_batch WHERE turn NOT IN (SELECT turn FROM run)",
    "runs without a response": "SELECT turn FROM run WHERE turn NOT IN (SELECT seq FROM turn)",
}


def has_ended(response: Document) -> bool:
    return response.get("status", "queued") not in UNFINISHED


@dataclass
class BackgroundResponse:
    """A background response whose id the client has received."""

    id: str
    exchange: Exchange
    """The request that it was accepted with."""
    visits: list[Exchange] = field(default_factory=list)
    cancels: list[Exchange] = field(default_factory=list)
    foreign_visits: list[Exchange] = field(default_factory=list)
    """Requests of another client with its id."""
    delete: Exchange | None = None
    """The first deletion that was answered."""
    delete_began: float | None = None
    audits: list[Exchange] = field(default_factory=list)
    """Requests at the end of the world, when everything works."""

    @property
    def streams(self) -> list[Exchange]:
        """Everything that has read its events."""
        visits = (*self.visits, *self.audits)
        found = [self.exchange] if self.exchange.is_stream else []
        return [*found, *(each for each in visits if each.is_stream and each.status == 200)]

    @property
    def last_seen(self) -> int:
        numbers = [event["sequence_number"] for each in self.streams for event in each.events]
        return max(numbers, default=-1)


@dataclass
class Retry:
    """A request that was sent again after its connection was lost."""

    first: Exchange
    again: Exchange

    @property
    def is_copy(self) -> bool:
        """Whether another client has sent it."""
        return self.first.tenant != self.again.tenant


@dataclass
class Conversation:
    id: str
    tenant: str
    turns: list[Exchange] = field(default_factory=list)
    audit: Exchange | None = None
    """The list of its items at the end of the world."""


@dataclass
class Reload:
    """A configuration that a process was told to read."""

    process: str
    provider: str
    """To which it gives the moving model; empty: the file is wrong."""
    began: float
    ended: float = math.inf


@dataclass
class Lifecycle:
    """Everything that the oracles of the lifecycle read."""

    background: dict[str, BackgroundResponse] = field(default_factory=dict)
    retries: list[Retry] = field(default_factory=list)
    conversations: list[Conversation] = field(default_factory=list)
    reloads: list[Reload] = field(default_factory=list)
    long_threads: list[LongThread] = field(default_factory=list)
    queues: list[BackgroundQueue] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Violations that were noticed while the world ran."""
    deleted: set[str] = field(default_factory=set)
    """Ids of responses whose deletion was requested."""

    def note_kill(self, world: World, gateway: SimulatedGateway) -> None:
        """Look at the runs of a process that is going to be killed once their lease is over."""
        plan = world.plan
        if plan.disk in ("good", "slow") and gateway.is_started and plan.stall_at_s is None:
            ids = list_unfinished(world, gateway.holder)
            wait_s = 2 * world.config.background.lease_s + (4 + len(ids)) * world.longest_save_s
            restart_s = 0.0 if plan.processes == 2 else 20.0
            check = (world, ids, gateway.holder)
            world.loop.call_later(wait_s + restart_s + 3.0, self._check_ended, *check)

    def _check_ended(self, world: World, ids: list[str], holder: str) -> None:
        late = {*ids} & {*list_unfinished(world, holder)}
        self.problems += [f"{each} is in progress after the lease of its process" for each in late]

    async def find_busy(self, world: World, rng: random.Random) -> SimulatedGateway:
        """Find a process that generates a background response, if there is one soon."""
        for _ in range(100):
            busy = [
                gateway
                for gateway in world.running.values()
                if gateway.is_started and list_unfinished(world, gateway.holder)
            ]
            if busy:
                return rng.choice(busy)
            await asyncio.sleep(0.1)
        return rng.choice([*world.running.values()])

    def find_end(self, exchange: Exchange) -> float | None:
        """When the client of a background response has cancelled or deleted it, if it has."""
        times: list[float] = []
        for response in self.background.values():
            if response.exchange is exchange:
                times += [each.began for each in response.cancels]
                times += [] if response.delete_began is None else [response.delete_began]
        return min(times, default=None)

    def find_leaks(self, world: World) -> list[str]:
        """Find what must not be in the store once everything has ended."""
        found = [f"{each} has not ended" for each in list_unfinished(world)]
        for what, query in _ORPHANS.items():
            if rows := world.disk.query(query):
                found.append(f"{what}: {len(rows)}")
        return found


def list_unfinished(world: World, holder: str | None = None) -> list[str]:
    """The ids of stored responses that have not ended; of one process, or of all."""
    return [id for (id,) in world.disk.query(_UNFINISHED_RUNS, holder, holder)]


def read_log(world: World, response_id: str) -> list[bytes]:
    """The event frames in the store, in order."""
    rows = world.disk.query(
        "SELECT frames FROM event_batch JOIN turn ON turn.seq = event_batch.turn"
        " WHERE turn.id = ? ORDER BY last_seq",
        response_id,
    )
    return [frame for (frames,) in rows for frame in frames.split(b"\n\n")[:-1]]
