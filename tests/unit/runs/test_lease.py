"""Leases: renewed while a process has runs."""

from __future__ import annotations

from antiphon.runs.lease import ProcessLease
from antiphon.store.memory import MemoryStore
from antiphon.store.run_log import RenewedRuns, RunStart
from antiphon.store.turn import Turn
from tests.support.turns import Clock, turn
from tests.support.waiting import until

LEASE_S = 10.0


def running_turn(id: str) -> Turn:
    response = {"id": id, "object": "response", "status": "in_progress", "output": []}
    return turn(id, status="in_progress", output=(), response=response)


async def begin(store: MemoryStore, id: str, holder: str, *, is_streamed: bool = False) -> int:
    start = RunStart(holder=holder, is_background=True, is_streamed=is_streamed)
    return await store.runs.begin(running_turn(id), start)


async def test_a_process_that_was_paused_keeps_its_runs() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    lease = ProcessLease(store.runs, "me", LEASE_S, lambda requested: None)
    await lease.hold("resp_1")
    await begin(store, "resp_1", "me")
    clock.now += 11
    await lease.renew()
    assert await store.runs.claim_expired("other", 1) == []
    await lease.close()


async def test_a_lease_is_renewed_while_it_is_held() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    requested: list[RenewedRuns] = []
    lease = ProcessLease(store.runs, "me", 0.03, requested.append)
    await lease.hold("resp_1")
    await begin(store, "resp_1", "me")
    await store.runs.request_cancel("resp_1")
    await until(lambda: ("resp_1",) in [each.cancelled for each in requested], "the request")
    lease.release("resp_1")
    await lease.close()
    assert len(await store.runs.claim_expired("other", 2)) == 1


async def test_a_lease_that_was_never_held_is_closed_without_the_store() -> None:
    requested: list[RenewedRuns] = []
    lease = ProcessLease(MemoryStore(now=Clock()).runs, "me", LEASE_S, requested.append)
    await lease.close()
    assert requested == []
