"""Inactivity timer: it fires after a time without activity. The loop's clock is a number here."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator

import pytest

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
