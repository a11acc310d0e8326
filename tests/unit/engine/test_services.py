"""Services: the registry of active runs, and what of a request may be logged."""

from __future__ import annotations

import asyncio

from antiphon.core.faults.fault import ProviderFault, shutdown_fault
from antiphon.core.history.capsule import Unopened
from antiphon.core.plan.planner import PlanInputs, Planner
from antiphon.core.response import Response
from antiphon.engine.routing import Target
from antiphon.engine.services import ActiveRuns, Caller, Prepared
from tests.support.outbound_requests import configured
from tests.support.request_body import parse_body


class StoppableRun:
    def __init__(self, active: ActiveRuns) -> None:
        self._active = active
        self.fault: ProviderFault | None = None

    def stop(self, fault: ProviderFault) -> None:
        """Stop, and leave the registry at once, as a run may."""
        self.fault = fault
        self._active.discard(self)


async def test_every_active_run_is_stopped_with_the_fault() -> None:
    active = ActiveRuns()
    runs = [StoppableRun(active) for _ in range(3)]
    for run in runs:
        active.add(run)
    active.discard(runs[0])
    assert len(active) == 2
    fault = shutdown_fault()
    active.stop(fault)
    assert [run.fault for run in runs] == [None, fault, fault]
    assert not active


async def test_runs_are_stopped_in_the_order_in_which_they_were_entered() -> None:
    active = ActiveRuns()
    stopped: list[int] = []

    class NumberedRun:
        def __init__(self, number: int) -> None:
            self.number = number

        def stop(self, fault: ProviderFault) -> None:
            stopped.append(self.number)

    for number in range(50):
        active.add(NumberedRun(number))
    active.stop(shutdown_fault())
    assert stopped == [*range(50)]


async def test_waiting_ends_when_the_last_run_is_discarded() -> None:
    active = ActiveRuns()
    await active.wait_idle()
    runs = [StoppableRun(active), StoppableRun(active)]
    for run in runs:
        active.add(run)
    waiting = asyncio.create_task(active.wait_idle())
    active.discard(runs[0])
    await asyncio.sleep(0)
    assert not waiting.done()
    active.discard(runs[1])
    await waiting
    assert not active


def test_the_facts_of_a_request_are_names_and_never_content() -> None:
    secret = "a text that must not be logged"
    request = parse_body(
        b'{"model": "fast", "stream": true, "instructions": "%b", "input": "%b"}'
        % (secret.encode(), secret.encode())
    )
    target = Target(configured("deepseek"), "deepseek-chat")
    planner = Planner(request, PlanInputs())
    prepared = Prepared(
        request=request,
        caller=Caller("alice", "req_1"),
        response=Response(id="resp_1", created_at=0, model="fast"),
        targets=(target,),
        planner=planner,
        first_plan=planner.plan(target),
        unseal=lambda _: Unopened.FOREIGN,
        session="resp_1",
    )
    assert prepared.facts() == {
        "request_id": "req_1",
        "response_id": "resp_1",
        "format": "responses",
        "client": "alice",
        "model": "fast",
        "provider": "it",
        "provider_model": "deepseek-chat",
        "stream": True,
        "session": "resp_1",
    }
