"""Counters of limits on a real Redis: one limit for all processes, and each by itself without."""

from __future__ import annotations

import asyncio
import socket
from itertools import pairwise
from pathlib import Path

import pytest
import redis.asyncio
from msgspec import structs

from antiphon.config import ClientLimitConfig, SharedConfig
from antiphon.engine.accounting import DOLLAR
from antiphon.engine.runtime import Runtime
from antiphon.observe.counters import LimitCounters, LimitState, MemoryLimitCounters, list_periods
from antiphon.observe.redis_counters import RedisLimitCounters
from antiphon.stages.log import Entry
from tests.support.postgres_proxy import run_proxy
from tests.support.redis_server import redis_server
from tests.support.waiting import LIMIT_S, until_async

NOON = 1_790_000_000.0


class Time:
    """A clock that tests turn; who sleeps is woken when it has been turned far enough."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._turned = asyncio.Condition()

    def monotonic(self) -> float:
        return self.now

    def epoch_s(self) -> float:
        return NOON + self.now

    async def sleep(self, seconds: float) -> None:
        end = self.now + seconds
        async with self._turned:
            await self._turned.wait_for(lambda: self.now >= end)

    async def turn(self, seconds: float) -> None:
        self.now += seconds
        async with self._turned:
            self._turned.notify_all()


def memory(time: Time) -> MemoryLimitCounters:
    return MemoryLimitCounters(time.monotonic, time.epoch_s)


def shared(
    url: str, time: Time, timeout_s: float = LIMIT_S, log: list[Entry] | None = None
) -> RedisLimitCounters:
    """Counters that wait for a server however slow it is: a busy machine is no outage."""
    return RedisLimitCounters(
        SharedConfig(url=url),
        Runtime(monotonic=time.monotonic, epoch_s=time.epoch_s, sleep=time.sleep),
        memory(time),
        ([] if log is None else log).append,
        timeout_s=timeout_s,
        now=time.epoch_s,
    )


async def play(counters: LimitCounters, time: Time) -> list[LimitState]:
    """Requests of one client in three minutes, each released before the one after the next."""
    limits = ClientLimitConfig(
        requests_per_minute=5, tokens_per_minute=100, max_streams=2, cost_per_day=1.0
    )
    states = []
    for number in range(40):
        time.now = number * 5.0
        states.append(await counters.acquire("me", f"r{number}", limits))
        if number >= 2 and states[number - 2].refused_by is None:
            counters.release("me", f"r{number - 2}", 7 * number, DOLLAR // 8)
    return states


def rounded(state: LimitState) -> LimitState:
    """Redis keeps Unix times, whose fractions are not as exact."""
    names = ("requests_reset_s", "tokens_reset_s")
    return structs.replace(state, **{name: round(getattr(state, name), 2) for name in names})


async def test_they_count_as_those_in_memory(tmp_path: Path) -> None:
    expected = await play(memory(time := Time()), time)
    async with redis_server(tmp_path) as server:
        counters = shared(server.url, time := Time())
        found = await play(counters, time)
        await counters.close()
    assert [rounded(each) for each in found] == [rounded(each) for each in expected]
    refusals = {each.refused_by for each in expected}
    assert refusals >= {None, "requests_per_minute", "tokens_per_minute", "cost_per_day"}


async def test_a_limit_is_one_for_all_processes(tmp_path: Path) -> None:
    limits = ClientLimitConfig(max_streams=5)
    async with redis_server(tmp_path) as server:
        both = [shared(server.url, Time()) for _ in range(2)]
        asked = (both[n % 2].acquire("me", f"r{n}", limits) for n in range(32))
        states = await asyncio.gather(*asked)
        admitted = [f"r{n}" for n, each in enumerate(states) if each.refused_by is None]
        assert len(admitted) == 5
        both[0].release("me", admitted[0], 0, 0)
        await both[0].close()
        again = [(await both[1].acquire("me", f"s{n}", limits)).refused_by for n in range(2)]
        assert again == [None, "max_streams"]
        await both[1].close()


@pytest.mark.parametrize("name", ["requests_per_minute", "max_streams"])
async def test_a_burst_waits_its_turn(tmp_path: Path, name: str) -> None:
    limits = ClientLimitConfig(**{name: 10})
    async with redis_server(tmp_path) as server:
        both = [shared(server.url, Time(), timeout_s=0.25) for _ in range(2)]
        asked = (both[n % 2].acquire("me", f"r{n}", limits) for n in range(1000))
        states = await asyncio.gather(*asked)
        for each in both:
            await each.close()
    assert sum(each.refused_by is None for each in states) == 10


async def test_a_gateway_that_was_busy_does_not_take_the_server_for_away(tmp_path: Path) -> None:
    limits = ClientLimitConfig(requests_per_minute=10)
    loop = asyncio.get_running_loop()

    def keep_busy() -> None:
        end = loop.time() + 0.5
        while loop.time() < end:
            pass

    async with redis_server(tmp_path) as server:
        other = shared(server.url, Time())
        await asyncio.gather(*(other.acquire("me", f"r{n}", limits) for n in range(10)))
        busy = shared(server.url, Time(), timeout_s=0.1)
        asked = asyncio.ensure_future(busy.acquire("me", "r10", limits))
        for delay_s in (0.0, 0.01, 0.02):
            loop.call_later(delay_s, keep_busy)
        assert (await asked).refused_by == "requests_per_minute"
        await busy.close()
        await other.close()


async def test_a_request_that_is_given_up_while_it_waits_does_not_count(tmp_path: Path) -> None:
    limits = ClientLimitConfig(max_streams=1)
    async with redis_server(tmp_path) as server:
        counters = shared(server.url, Time())
        given_up = asyncio.ensure_future(counters.acquire("me", "r1", limits))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([given_up])

        async def is_admitted() -> bool:
            return (await counters.acquire("me", "r2", limits)).refused_by is None

        await until_async(is_admitted, "the place of the request that was given up")
        assert (await counters.acquire("me", "r3", limits)).refused_by == "max_streams"
        await counters.close()


@pytest.mark.parametrize("name", ["cost_per_day", "cost_per_month"])
async def test_cost_counts_for_others_and_from_before_the_start(tmp_path: Path, name: str) -> None:
    limits = structs.replace(ClientLimitConfig(), **{name: 1.5})
    async with redis_server(tmp_path) as server:
        first, second = [shared(server.url, Time()) for _ in range(2)]
        assert (await first.acquire("me", "r1", limits)).refused_by is None
        first.release("me", "r1", 10, 2 * DOLLAR)
        await first.close()
        state = await second.acquire("me", "r2", limits)
        assert (state.refused_by, state.spent) == (name, 2 * DOLLAR)
        second.note_spent("other", dict.fromkeys(list_periods(NOON), 3 * DOLLAR))
        assert (await second.acquire("other", "r3", limits)).spent == 3 * DOLLAR
        await second.close()


async def test_gateways_whose_clocks_differ_count_one_minute(tmp_path: Path) -> None:
    limits = ClientLimitConfig(requests_per_minute=2, tokens_per_minute=100)
    async with redis_server(tmp_path) as server:
        slow, fast = [
            RedisLimitCounters(
                SharedConfig(url=server.url),
                Runtime(epoch_s=Time(seconds).epoch_s),
                memory(Time(seconds)),
                lambda entry: None,
                timeout_s=LIMIT_S,
            )
            for seconds in (0.0, 90.0)
        ]
        assert (await slow.acquire("me", "r1", limits)).requests == 1
        slow.release("me", "r1", 100, 0)
        await slow.close()
        state = await fast.acquire("me", "r2", limits)
        assert (state.refused_by, state.tokens) == ("tokens_per_minute", 100)
        assert 0 < state.tokens_reset_s <= 60
        await fast.close()


async def refusal(counters: LimitCounters, id: str) -> str | None:
    return (await counters.acquire("me", id, ClientLimitConfig(max_streams=1))).refused_by


async def test_a_stream_of_a_process_that_is_gone_counts_for_a_minute(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as server:
        gone, other = shared(server.url, Time()), shared(server.url, time := Time())
        assert await refusal(gone, "r1") is None
        await gone.close()
        found = []
        for number in range(3):
            found.append(await refusal(other, f"other{number}"))
            await time.turn(30.0)
        await other.close()
    assert found == ["max_streams", "max_streams", None]


async def test_a_stream_counts_for_as_long_as_it_runs(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as server:
        holder = shared(server.url, time := Time())
        assert await refusal(holder, "r1") is None
        ends = [NOON + 60.0]

        async def is_renewed() -> bool:
            await time.turn(1.0)
            async with redis.asyncio.from_url(server.url) as client:
                ends.append(await client.zscore("antiphon:limits:{me}:running", "r1") or 0.0)
            return ends[-1] > NOON + 600.0

        await until_async(is_renewed, "it was renewed again and again")
        assert {later - earlier for earlier, later in pairwise(ends)} <= {0.0, *range(20, 60)}
        holder.release("me", "r1", 0, 0)
        assert await refusal(holder, "r2") is None
        await holder.close()


async def test_what_was_released_while_the_server_was_away_is_sent_later(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as server, run_proxy(server.url) as proxy:
        holder, other = shared(proxy.url, time := Time()), shared(server.url, Time())
        assert await refusal(holder, "r1") is None
        proxy.is_away = True
        proxy.cut_all()
        holder.release("me", "r1", 5, 0)

        async def is_tried() -> bool:
            await time.turn(2.0)
            return proxy.refused > 0

        await until_async(is_tried, "it was tried again")
        assert await refusal(other, "r2") == "max_streams"
        proxy.is_away = False

        async def is_sent() -> bool:
            await time.turn(2.0)
            return await refusal(other, "r3") is None

        await until_async(is_sent, "it was sent without another request")
        await holder.close()
        await other.close()


async def test_a_cost_is_counted_once_if_the_reply_to_it_is_lost(tmp_path: Path) -> None:
    limits = ClientLimitConfig(cost_per_day=1.5)
    async with redis_server(tmp_path) as server, run_proxy(server.url) as proxy:
        time = Time()
        counters, other = shared(proxy.url, time), shared(server.url, time)
        assert (await counters.acquire("me", "r1", limits)).refused_by is None
        proxy.lose_replies = 1
        counters.release("me", "r1", 10, DOLLAR)

        async def is_repeated() -> bool:
            await time.turn(2.0)
            async with redis.asyncio.from_url(server.url) as client:
                stats = await client.info("commandstats")
            return bool(stats["cmdstat_eval"]["calls"] == 3)

        await until_async(is_repeated, "it was counted a second time")
        await counters.close()
        assert (await other.acquire("me", "r2", limits)).refused_by is None
        other.release("me", "r2", 10, DOLLAR)
        assert (await other.acquire("me", "r3", limits)).spent == 2 * DOLLAR
        await other.close()


async def test_without_the_server_each_process_counts_by_itself(tmp_path: Path) -> None:
    limits = ClientLimitConfig(requests_per_minute=2)
    async with redis_server(tmp_path) as server:
        log: list[Entry] = []
        counters = shared(server.url, time := Time(), log=log)
        assert (await counters.acquire("me", "r1", limits)).requests == 1
        server.kill()
        counters.release("me", "r1", 0, 0)
        found = [(await counters.acquire("me", f"r{n}", limits)).refused_by for n in (2, 3, 4)]
        assert found == [None, "requests_per_minute", "requests_per_minute"]
        await server.start()

        async def is_back() -> bool:
            await time.turn(2.0)
            return len(log) == 2

        await until_async(is_back, "the server is used again")
        state = await counters.acquire("other", "r5", limits)
        await counters.close()
    assert state.requests == 1
    assert [(entry.event, entry.level) for entry in log] == [
        ("limits.not_shared", "warning"),
        ("limits.shared", "info"),
    ]
    assert "ConnectionError" in str(log[0].facts["reason"])


async def test_a_server_that_does_not_answer_is_away() -> None:
    limits = ClientLimitConfig(requests_per_minute=1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        counters = shared(f"redis://127.0.0.1:{silent.getsockname()[1]}", Time(), timeout_s=0.01)
        found = [(await counters.acquire("me", f"r{n}", limits)).refused_by for n in range(2)]
        await counters.close()
    assert found == [None, "requests_per_minute"]
