"""Counters of limits: the last minute, running responses, and the cost of a day and a month."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from msgspec import structs

from antiphon.config import ClientLimitConfig
from antiphon.engine.accounting import DOLLAR
from antiphon.observe.counters import MINUTE_S, MemoryLimitCounters, Window

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()
DAY_S = 24 * 3600


class Time:
    """A clock that tests turn."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def epoch_s(self) -> float:
        return NOON + self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def counters(time: Time) -> MemoryLimitCounters:
    return MemoryLimitCounters(time.monotonic, time.epoch_s)


async def test_requests_are_limited_in_any_sixty_seconds(
    time: Time, counters: MemoryLimitCounters
) -> None:
    limits = ClientLimitConfig(requests_per_minute=2)
    for at, refused in ((0, False), (50, False), (55, True), (59.9, True), (60, False), (61, True)):
        time.now = at
        state = await counters.acquire("me", f"r{at}", limits)
        assert (state.refused_by == "requests_per_minute") is refused, at
    assert state.requests_reset_s == pytest.approx(49.0)


async def test_a_refused_request_is_not_counted(counters: MemoryLimitCounters) -> None:
    limits = ClientLimitConfig(requests_per_minute=1)
    states = [await counters.acquire("me", f"r{n}", limits) for n in range(3)]
    assert [each.requests for each in states] == [1, 1, 1]


async def test_clients_are_counted_apart(counters: MemoryLimitCounters) -> None:
    limits = ClientLimitConfig(requests_per_minute=1)
    assert (await counters.acquire("a", "r1", limits)).refused_by is None
    assert (await counters.acquire("b", "r2", limits)).refused_by is None


async def test_tokens_are_counted_when_a_response_ends(
    time: Time, counters: MemoryLimitCounters
) -> None:
    limits = ClientLimitConfig(tokens_per_minute=100)
    assert (await counters.acquire("me", "r1", limits)).refused_by is None
    assert (await counters.acquire("me", "r2", limits)).refused_by is None
    counters.release("me", "r1", 80, 0)
    time.now = 10
    counters.release("me", "r2", 80, 0)
    state = await counters.acquire("me", "r3", limits)
    assert (state.refused_by, state.tokens) == ("tokens_per_minute", 160)
    assert state.tokens_reset_s == pytest.approx(50.0)
    time.now = MINUTE_S
    assert (await counters.acquire("me", "r4", limits)).refused_by is None


async def test_running_responses_are_limited_exactly_under_concurrency(
    counters: MemoryLimitCounters,
) -> None:
    limits = ClientLimitConfig(max_streams=5)
    asked = (counters.acquire("me", f"r{number}", limits) for number in range(64))
    states = await asyncio.gather(*asked)
    assert [each.refused_by for each in states].count(None) == 5
    counters.release("me", "r0", 0, 0)
    counters.release("me", "r0", 0, 0)
    assert (await counters.acquire("me", "s1", limits)).refused_by is None
    assert (await counters.acquire("me", "s2", limits)).refused_by == "max_streams"


@pytest.mark.parametrize("name", ["cost_per_day", "cost_per_month"])
async def test_cost_is_limited_until_the_period_ends(
    time: Time, counters: MemoryLimitCounters, name: str
) -> None:
    limits = structs.replace(ClientLimitConfig(), **{name: 1.5})
    assert (await counters.acquire("me", "r1", limits)).refused_by is None
    counters.release("me", "r1", 10, 2 * DOLLAR)
    state = await counters.acquire("me", "r2", limits)
    assert (state.refused_by, state.spent) == (name, 2 * DOLLAR)
    time.now = DAY_S
    is_month = name == "cost_per_month"
    assert ((await counters.acquire("me", "r3", limits)).refused_by is not None) is is_month
    time.now = 31 * DAY_S
    assert (await counters.acquire("me", "r4", limits)).refused_by is None


async def test_a_limit_of_zero_dollars_allows_nothing(counters: MemoryLimitCounters) -> None:
    state = await counters.acquire("me", "r1", ClientLimitConfig(cost_per_day=0.0))
    assert state.refused_by == "cost_per_day"


async def test_earlier_cost_counts_in_its_own_day_and_month(
    counters: MemoryLimitCounters,
) -> None:
    yesterday = {"2026-10": DOLLAR, "2026-11": DOLLAR, "2026-11-15": DOLLAR}
    counters.note_spent("me", yesterday)
    day, month = ClientLimitConfig(cost_per_day=0.5), ClientLimitConfig(cost_per_month=1.5)
    assert (await counters.acquire("me", "r1", day)).refused_by is None
    assert (await counters.acquire("me", "r2", month)).refused_by is None
    counters.note_spent("me", {"2026-11": 2 * DOLLAR, "2026-11-16": DOLLAR})
    assert (await counters.acquire("me", "r3", day)).refused_by == "cost_per_day"
    assert (await counters.acquire("me", "r4", month)).refused_by == "cost_per_month"


async def test_the_cost_of_earlier_periods_is_forgotten(
    time: Time, counters: MemoryLimitCounters
) -> None:
    counters.release("me", "r0", 0, DOLLAR)
    time.now = 40 * DAY_S
    counters.release("me", "r0", 0, DOLLAR)
    limits = ClientLimitConfig(cost_per_month=1.5)
    assert (await counters.acquire("me", "r1", limits)).refused_by is None


async def test_what_the_store_says_is_not_added_to_what_was_counted(
    counters: MemoryLimitCounters,
) -> None:
    counters.release("me", "r0", 0, 2 * DOLLAR)
    counters.note_spent("me", {"2026-11": DOLLAR, "2026-11-16": DOLLAR})
    assert counters.spent("me") == (2 * DOLLAR, 2 * DOLLAR)
    counters.note_spent("me", {"2026-11": 5 * DOLLAR, "2026-11-16": 3 * DOLLAR})
    assert counters.spent("me") == (5 * DOLLAR, 3 * DOLLAR)


def test_a_window_forgets_what_is_older_than_a_minute() -> None:
    window = Window()
    for at in range(5):
        window.add(at, 10)
    window.expire(62.5)
    assert window.total == 20
    assert window.seconds_until(10, 62.5) == pytest.approx(0.5)
    assert window.seconds_until(20, 62.5) == 0.0
    assert window.seconds_until(-1, 62.5) == 0.0
