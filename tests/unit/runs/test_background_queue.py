"""Queue of background responses: its places, and the requests that wait for one."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest

from antiphon.runs.background_queue import AcceptedRequest, BackgroundQueue

NOTHING: Any = None  # services and request: the queue does not look at them


def accepted(left: list[str], name: str) -> AcceptedRequest:
    held = ExitStack()
    held.callback(left.append, name)
    return AcceptedRequest(NOTHING, NOTHING, held)


async def test_a_place_is_free_until_all_are_taken_and_after_one_was_returned() -> None:
    queue = BackgroundQueue(2)
    assert [await queue.take_place() for _ in range(3)] == [True, True, False]
    assert queue.free == 0
    queue.return_place()
    assert await queue.take_place()


async def test_no_response_takes_a_place_before_those_that_wait() -> None:
    queue = BackgroundQueue(1)
    queue.add("r1", accepted([], "r1"))
    assert not await queue.take_place()
    assert queue.take("r1") is not None
    assert queue.take("r1") is None
    assert await queue.take_place()


async def test_a_claim_has_all_free_places_until_it_has_ended() -> None:
    queue = BackgroundQueue(2)
    with queue.reserve_places() as free:
        assert (free, queue.free) == (2, 0)
        taking = asyncio.ensure_future(queue.take_place())
        await asyncio.sleep(0)
        assert not taking.done()
    queue.use_place()
    assert await taking
    assert queue.free == 0


async def test_a_claim_that_fails_returns_its_places() -> None:
    queue = BackgroundQueue(2)
    with pytest.raises(ValueError, match="broken"), queue.reserve_places():
        raise ValueError("broken")
    assert queue.free == 2
    assert await queue.take_place()


async def test_a_response_that_comes_during_a_claim_is_queued_if_others_wait() -> None:
    queue = BackgroundQueue(1)
    queue.add("r1", accepted([], "r1"))
    with queue.reserve_places():
        assert not await queue.take_place()


async def test_what_a_dropped_request_holds_is_released_and_that_of_a_taken_one_is_not() -> None:
    left: list[str] = []
    queue = BackgroundQueue(0)
    for name in ("r1", "r2", "r3"):
        queue.add(name, accepted(left, name))
    assert (queue.ids(), queue.has_waiting) == ({"r1", "r2", "r3"}, True)
    queue.take("r2")
    queue.drop("r1", "r3", "gone")
    assert left == ["r1", "r3"]
    assert not queue.has_waiting
