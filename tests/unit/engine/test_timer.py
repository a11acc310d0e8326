"""Inactivity timer: it fires after a time without activity. Time limit: it ends a step. The loop's
clock is a number here."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator

import pytest

from antiphon.engine.attempts import TimeLimit
from antiphon.engine.runtime import InactivityTimer
from tests.support.loop_clock import LoopClock, loop_clock


@pytest.fixture
async def clock() -> AsyncIterator[LoopClock]:
    with loop_clock() as clock:
        yield clock


async def test_it_fires_once_after_the_limit(clock: LoopClock) -> None:
    fired: list[float] = []
    InactivityTimer(5, lambda: fired.append(clock.now))
    await clock.advance(4.9)
    assert fired == []
    await clock.advance(0.2)
    await clock.advance(60)
    assert len(fired) == 1


async def test_activity_moves_the_deadline(clock: LoopClock) -> None:
    fired: list[float] = []
    timer = InactivityTimer(5, lambda: fired.append(clock.now))
    await clock.advance(4)
    timer.touch()
    await clock.advance(4.9)
    assert fired == []
    await clock.advance(0.2)
    assert len(fired) == 1


async def test_it_fires_after_each_idle_period_if_it_repeats(clock: LoopClock) -> None:
    fired: list[float] = []
    timer = InactivityTimer(5, lambda: fired.append(clock.now), repeat=True)
    for _ in range(3):
        await clock.advance(5.1)
    assert len(fired) == 3
    timer.cancel()
    await clock.advance(60)
    assert len(fired) == 3


async def test_a_reset_starts_anew_with_another_limit(clock: LoopClock) -> None:
    fired: list[float] = []
    timer = InactivityTimer(60, lambda: fired.append(clock.now))
    await clock.advance(1)
    timer.reset(2)
    await clock.advance(1.9)
    assert fired == []
    await clock.advance(0.2)
    await clock.advance(120)
    assert len(fired) == 1


async def test_a_cancelled_timer_drops_its_callback(clock: LoopClock) -> None:
    class Owner:
        fired = False

        def on_idle(self) -> None:
            self.fired = True

    owner = Owner()
    timer = InactivityTimer(5, owner.on_idle)
    timer.cancel()
    timer.cancel()
    await clock.advance(60)
    assert not owner.fired
    reference = weakref.ref(owner)
    del owner
    gc.collect()
    assert reference() is None


# Time limit


async def wait_within(limit: TimeLimit, event: asyncio.Event) -> None:
    with limit:
        await event.wait()


async def test_a_step_that_takes_too_long_is_ended(clock: LoopClock) -> None:
    step = asyncio.create_task(wait_within(TimeLimit(5), asyncio.Event()))
    await clock.advance(0)
    await clock.advance(4.9)
    assert not step.done()
    await clock.advance(0.2)
    with pytest.raises(TimeoutError):
        await step
    assert step.cancelling() == 0


async def test_a_step_in_time_ends_its_limit(clock: LoopClock) -> None:
    limit = TimeLimit(5)
    event = asyncio.Event()
    event.set()
    await wait_within(limit, event)
    limit.interrupt()
    await clock.advance(60)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_limit_can_be_interrupted_before_its_time(clock: LoopClock) -> None:
    for limit in (TimeLimit(5), TimeLimit(None)):
        limit.interrupt()  # too early: it has no effect
        step = asyncio.create_task(wait_within(limit, asyncio.Event()))
        await clock.advance(0)
        limit.interrupt()
        limit.interrupt()
        with pytest.raises(TimeoutError):
            await step


async def test_an_error_of_the_step_stays_when_its_time_is_over(clock: LoopClock) -> None:
    async def fail_late() -> None:
        with TimeLimit(5):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise LookupError from None

    step = asyncio.create_task(fail_late())
    await clock.advance(0)
    await clock.advance(6)
    with pytest.raises(LookupError):
        await step
    assert step.cancelling() == 0


async def test_a_task_that_others_cancel_is_cancelled_although_its_time_is_over(
    clock: LoopClock,
) -> None:
    limit = TimeLimit(None)
    step = asyncio.create_task(wait_within(limit, asyncio.Event()))
    await clock.advance(0)
    limit.interrupt()
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step


async def test_a_cancelled_step_is_no_timeout(clock: LoopClock) -> None:
    step = asyncio.create_task(wait_within(TimeLimit(5), asyncio.Event()))
    await clock.advance(0)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
