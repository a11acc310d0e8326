"""Leases: renewed while a process has runs."""

from __future__ import annotations

import asyncio

from antiphon.errors import StoreUnavailable
from antiphon.runs.lease import ProcessLease
from antiphon.store.run_log import RenewedRuns, RunStart
from antiphon.store.sqlite.memory import MemoryAccess
from antiphon.store.sqlite.runs import SQLiteRuns
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.sqlite.writer import Job
from antiphon.store.turn import StoreLimits, Turn
from tests.support.stores import OpenMemory
from tests.support.turns import Clock, turn
from tests.support.waiting import until

LEASE_S = 10.0


def running_turn(id: str) -> Turn:
    response = {"id": id, "object": "response", "status": "in_progress", "output": []}
    return turn(id, status="in_progress", output=(), response=response)


async def begin(store: SQLiteStore, id: str, holder: str, *, is_streamed: bool = False) -> int:
    start = RunStart(holder=holder, is_background=True, is_streamed=is_streamed)
    return await store.runs.begin(running_turn(id), start)


async def test_a_process_that_was_paused_keeps_its_runs(open_memory: OpenMemory) -> None:
    clock = Clock()
    store = await open_memory(now=clock)
    lease = ProcessLease(store.runs, "me", LEASE_S, lambda requested: None)
    await lease.hold("resp_1")
    await begin(store, "resp_1", "me")
    clock.now += 11
    await lease.renew()
    assert await store.runs.claim_expired("other", 1) == []
    await lease.close()


async def test_a_lease_is_renewed_while_it_is_held(open_memory: OpenMemory) -> None:
    clock = Clock()
    store = await open_memory(now=clock)
    requested: list[RenewedRuns] = []
    lease = ProcessLease(store.runs, "me", 0.03, requested.append)
    await lease.hold("resp_1")
    await begin(store, "resp_1", "me")
    await store.runs.request_cancel("resp_1")
    await until(lambda: ("resp_1",) in [each.cancelled for each in requested], "the request")
    lease.release("resp_1")
    await lease.close()
    assert len(await store.runs.claim_expired("other", 2)) == 1


class CountedRuns(SQLiteRuns):
    """Runs whose renewals are counted, in a store that may be away."""

    renewals = 0
    is_away = False

    async def renew(self, holder: str, lease_s: float) -> RenewedRuns:
        self.renewals += 1
        await asyncio.sleep(0)
        if self.is_away:
            raise StoreUnavailable("the database is away")
        return RenewedRuns((), ())


def counted_lease() -> tuple[CountedRuns, ProcessLease]:
    access = MemoryAccess(lambda connection: False)
    clock = Clock()

    def refuse(*arguments: object) -> Job[None]:
        raise AssertionError("nothing is saved")

    limits = StoreLimits()
    runs = CountedRuns(access, refuse, refuse, now=clock, lease_now=clock, limits=limits)
    return runs, ProcessLease(runs, "me", LEASE_S, lambda requested: None)


async def test_runs_that_begin_together_or_soon_after_renew_the_lease_once() -> None:
    runs, lease = counted_lease()
    await asyncio.gather(*(lease.hold(f"resp_{number}") for number in range(20)))
    for number in range(20):
        lease.release(f"resp_{number}")
        await lease.hold(f"resp_{20 + number}")
    assert runs.renewals == 1
    await lease.close()


async def test_no_run_begins_while_the_lease_cannot_be_renewed() -> None:
    runs, lease = counted_lease()
    runs.is_away = True
    holds = (lease.hold(f"resp_{number}") for number in range(3))
    errors = await asyncio.gather(*holds, return_exceptions=True)
    assert [type(error) for error in errors] == [StoreUnavailable] * 3
    assert runs.renewals == 1
    runs.is_away = False
    await lease.hold("resp_3")
    await lease.close()


async def test_a_lease_that_was_never_held_is_closed_without_the_store(
    open_memory: OpenMemory,
) -> None:
    requested: list[RenewedRuns] = []
    lease = ProcessLease((await open_memory(now=Clock())).runs, "me", LEASE_S, requested.append)
    await lease.close()
    assert requested == []
