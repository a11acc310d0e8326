"""Lanes: order within a lane, concurrency between lanes, and limits."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from antiphon.errors import InvalidRequest
from antiphon.server.websocket.lanes import LaneLimits, Lanes, WaitingRequests
from tests.support.waiting import let_others_read


class Jobs:
    """Jobs that end when the test says so, and the order of their beginnings."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self._gates: dict[str, asyncio.Event] = {}

    async def run(self, name: str) -> None:
        gate = self._gates[name] = asyncio.Event()
        self.begun.append(name)
        try:
            await gate.wait()
        finally:
            self.ended.append(name)

    async def end(self, *names: str) -> None:
        for name in names:
            self._gates[name].set()
        await let_others_read()


def make_lanes(limits: LaneLimits | None = None) -> Lanes:
    return Lanes("me", WaitingRequests(), limits)


def add(lanes: Lanes, jobs: Jobs, lane: str | None, *names: str, size: int = 1) -> None:
    for name in names:
        lanes.add(lane, partial(jobs.run, name), size)


async def test_requests_of_a_lane_are_answered_one_after_another() -> None:
    lanes, jobs = make_lanes(), Jobs()
    add(lanes, jobs, None, "1", "2", "3")
    await let_others_read()
    assert jobs.begun == ["1"]
    await jobs.end("1")
    assert jobs.begun == ["1", "2"]
    await jobs.end("2")
    await jobs.end("3")
    assert jobs.ended == ["1", "2", "3"]
    assert lanes.is_idle
    await lanes.wait_idle()


async def test_lanes_are_answered_at_the_same_time() -> None:
    lanes, jobs = make_lanes(), Jobs()
    add(lanes, jobs, "a", "a1", "a2")
    add(lanes, jobs, "b", "b1")
    await let_others_read()
    assert jobs.begun == ["a1", "b1"]
    assert not lanes.is_idle
    await lanes.close()


async def test_requests_beyond_the_active_ones_wait_in_order() -> None:
    lanes, jobs = make_lanes(LaneLimits(max_active=2)), Jobs()
    for name in "abcd":
        add(lanes, jobs, name, name)
    add(lanes, jobs, "a", "a2")
    await let_others_read()
    assert jobs.begun == ["a", "b"]
    await jobs.end("a")
    await jobs.end("b")
    assert jobs.begun == ["a", "b", "c", "d"]
    await jobs.end("c")
    assert jobs.begun[-1] == "a2"
    await lanes.close()


async def test_sixteen_are_active_by_default() -> None:
    lanes, jobs = make_lanes(), Jobs()
    for number in range(17):
        add(lanes, jobs, f"lane{number}", str(number))
    await let_others_read()
    assert len(jobs.begun) == 16
    await lanes.close()


async def test_a_connection_has_so_many_names_and_the_default_lane() -> None:
    lanes, jobs = make_lanes(), Jobs()
    for number in range(32):
        add(lanes, jobs, f"lane{number}", str(number))
    add(lanes, jobs, None, "default")
    add(lanes, jobs, "lane7", "again")
    with pytest.raises(InvalidRequest) as caught:
        add(lanes, jobs, "lane32", "too many")
    assert caught.value.code == "websocket_stream_limit_reached"
    await lanes.close()


async def test_the_number_of_requests_that_wait_is_limited() -> None:
    lanes, jobs = make_lanes(LaneLimits(max_waiting=2)), Jobs()
    add(lanes, jobs, None, "active", "1", "2")
    with pytest.raises(InvalidRequest) as caught:
        add(lanes, jobs, None, "3")
    assert (caught.value.status, caught.value.code) == (429, "websocket_request_limit_reached")
    await let_others_read()
    await jobs.end("active")
    add(lanes, jobs, None, "3")
    await lanes.close()


async def test_the_bytes_that_wait_for_one_client_are_limited_over_its_connections() -> None:
    waiting, jobs = WaitingRequests(max_client_bytes=10), Jobs()
    first, second = Lanes("me", waiting), Lanes("me", waiting)
    add(first, jobs, None, "active", "1", "2", size=5)
    with pytest.raises(InvalidRequest, match="10 bytes of one client"):
        add(first, jobs, None, "3", size=5)
    add(second, jobs, None, "also active", size=5)
    with pytest.raises(InvalidRequest, match="10 bytes of one client"):
        add(second, jobs, None, "3", size=5)
    add(Lanes("other", waiting), jobs, None, "active of another", "4", size=5)
    await let_others_read()
    await jobs.end("active")
    add(second, jobs, None, "3", size=5)
    for lanes in (first, second):
        await lanes.close()


async def test_the_bytes_that_wait_for_all_clients_are_limited() -> None:
    waiting, jobs = WaitingRequests(max_bytes=10), Jobs()
    connections = [Lanes(f"client {number}", waiting) for number in range(3)]
    for lanes in connections[:2]:
        add(lanes, jobs, None, "active", "waiting", size=5)
    with pytest.raises(InvalidRequest, match="10 bytes of all clients together"):
        add(connections[2], jobs, None, "active", "waiting", size=5)
    await connections[0].close()
    add(connections[2], jobs, None, "waiting", size=5)
    for lanes in connections[1:]:
        await lanes.close()


async def test_a_single_request_may_be_larger_than_what_may_wait() -> None:
    waiting, jobs = WaitingRequests(max_client_bytes=10, max_bytes=10), Jobs()
    lanes = Lanes("me", waiting)
    add(lanes, jobs, None, "large", "also large", size=100)
    with pytest.raises(InvalidRequest):
        add(lanes, jobs, None, "another", size=1)
    await let_others_read()
    assert jobs.begun == ["large"]
    await lanes.close()


async def test_closing_cancels_what_is_active_and_drops_what_waits() -> None:
    lanes, jobs = make_lanes(), Jobs()
    add(lanes, jobs, None, "active", "waiting")
    await let_others_read()
    await lanes.close()
    await let_others_read()
    assert (jobs.begun, jobs.ended) == (["active"], ["active"])
    assert lanes.is_idle
