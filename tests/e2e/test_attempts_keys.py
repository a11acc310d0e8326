"""Keys that rest, providers that are left alone, and a budget: by a clock that is only a number."""

from __future__ import annotations

import asyncio
from math import inf
from pathlib import Path

import pytest

from antiphon.config import AttemptConfig
from tests.support.failing_providers import (
    KEYS,
    NO_FALLBACKS,
    TWO,
    A,
    B,
    Clock,
    FailoverGateway,
    answer_hello,
    error,
    failover_gateway,
)
from tests.support.shared_gateway import UVLOOP
from tests.support.upstream import Connection, ReceivedRequest, Script, send_json
from tests.support.waiting import until

ONE_KEY = {**KEYS, "one": ("sk-one-a",)}
MANY_KEYS = {**KEYS, "one": ("sk-one-a", "sk-one-b", "sk-one-c", "sk-one-d")}


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


def told_to_wait(delay: str) -> Script:
    """A limit that names its delay in the body, as Google does."""
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
    details = {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [info]}
    return send_json(429, {"error": {"message": "Slow down.", **details}})


# Who is next


async def test_keys_take_turns(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path) as ships:
        for _ in range(4):
            assert (await ships.post_request()).text == "Hello, world"
        assert ships.new_calls == [A, B, A, B]


@pytest.mark.parametrize(
    ("script", "rest_s"),
    [
        pytest.param(error(429), 60.0, id="the default"),
        pytest.param(error(429, retry_after=7), 60.0, id="a shorter Retry-After"),
        pytest.param(error(429, retry_after=120), 120.0, id="a longer Retry-After"),
        pytest.param(told_to_wait("90.5s"), 90.5, id="RetryInfo"),
        pytest.param(error(402), 3600.0, id="no money"),
        pytest.param(error(403), 300.0, id="no permission"),
        pytest.param(error(401), inf, id="no key at all"),
    ],
)
async def test_a_key_rests_after_a_fault_of_its_own(
    tmp_path: Path, script: Script, rest_s: float
) -> None:
    async with failover_gateway(tmp_path, [script]) as ships:
        assert (await ships.post_request()).status == 200
        assert ships.new_calls == [A, B]
        ships.clock.now += min(rest_s, 1e9) - 0.1
        await ships.post_request()
        await ships.post_request()
        assert ships.new_calls == [B, B]
        ships.clock.now += 0.1
        await ships.post_request()
        assert ships.new_calls == [B if rest_s == inf else A]


async def test_a_key_without_permission_for_one_model_serves_others(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, [error(403)]) as ships:
        await ships.post_request()
        await ships.post_request(model="one/other")
        await ships.post_request()
        assert ships.new_calls == [A, B, A, B]


async def test_permission_is_asked_of_two_keys_and_limits_of_all(tmp_path: Path) -> None:
    policy = AttemptConfig(max_attempts=9)
    async with failover_gateway(tmp_path, [error(403)] * 4, keys=MANY_KEYS, policy=policy) as ships:
        await ships.post_request()
        assert [key for _, key in ships.new_calls] == ["sk-one-a", "sk-one-b", "sk-two-a"]
    async with failover_gateway(tmp_path, [error(429)] * 4, keys=MANY_KEYS, policy=policy) as ships:
        await ships.post_request()
        assert [key for _, key in ships.new_calls] == [*MANY_KEYS["one"], "sk-two-a"]


async def test_the_last_key_rests_like_any_other(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, [error(429)] * 2) as ships:
        await ships.post_request()
        await ships.post_request()
        assert ships.new_calls == [A, B, TWO, TWO]
        ships.clock.now += 60
        await ships.post_request()
        assert ships.new_calls == [A]


async def test_with_every_key_resting_the_one_that_wakes_first_is_asked(tmp_path: Path) -> None:
    async with failover_gateway(
        tmp_path, [error(402), error(429)], fallbacks=NO_FALLBACKS
    ) as ships:
        assert (await ships.post_request()).status == 429
        assert (await ships.post_request()).status == 200
        assert ships.new_calls == [A, B, B]


@pytest.mark.parametrize(
    "script",
    [
        error(400),
        error(422),
        error(413),
        error(400, "maximum context length is 8192 tokens"),
        error(400, code="content_filter"),
        error(404, code="model_not_found"),
        error(500),
    ],
)
async def test_what_is_not_the_keys_fault_never_touches_it(tmp_path: Path, script: Script) -> None:
    policy = AttemptConfig(max_attempts=1)
    async with failover_gateway(tmp_path, [script], policy=policy, fallbacks=NO_FALLBACKS) as ships:
        assert (await ships.post_request()).status >= 400
        for _ in range(3):
            assert (await ships.post_request()).status == 200
        assert ships.new_calls == [A, B, A, B]


# Pauses


async def test_the_only_key_waits_if_that_is_short(tmp_path: Path) -> None:
    script = error(429, retry_after=2)
    async with failover_gateway(tmp_path, [script], keys=ONE_KEY, fallbacks=NO_FALLBACKS) as ships:
        answer = await ships.post_request(stream=True)
        assert (answer.text, ships.new_calls) == ("Hello, world", [A, A])
        assert ships.clock.slept == [2.0]


async def test_a_long_wait_is_left_to_the_client_with_the_hint(tmp_path: Path) -> None:
    script = error(429, retry_after=600)
    async with failover_gateway(tmp_path, [script], keys=ONE_KEY, fallbacks=NO_FALLBACKS) as ships:
        answer = await ships.post_request(stream=True)
    assert (answer.status, ships.new_calls, ships.clock.slept) == (429, [A], [])
    assert answer.headers["retry-after"] == "600"
    assert "try again in 600 s" in answer.error["message"]


async def test_nobody_waits_for_a_key_where_another_provider_is_ready(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, [error(429, retry_after=2)], keys=ONE_KEY) as ships:
        answer = await ships.post_request()
        assert (answer.text, ships.new_calls, ships.clock.slept) == ("Hello, world", [A, TWO], [])


async def test_pauses_are_as_long_as_the_provider_asks(tmp_path: Path) -> None:
    async with failover_gateway(
        tmp_path, [error(503, retry_after=9)], fallbacks=NO_FALLBACKS
    ) as ships:
        assert (await ships.post_request()).status == 200
        assert ships.clock.slept == [9.0]


async def test_a_provider_that_asks_for_too_long_a_pause_is_left(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, [error(503, retry_after=900)]) as ships:
        answer = await ships.post_request()
        assert (answer.text, ships.new_calls, ships.clock.slept) == ("Hello, world", [A, TWO], [])


async def test_pauses_are_spread(tmp_path: Path) -> None:
    scripts = [error(500)] * 3
    async with failover_gateway(
        tmp_path, scripts, clock=Clock(jitter=0.0), fallbacks=NO_FALLBACKS
    ) as ships:
        await ships.post_request()
        assert ships.clock.slept == [0.5, 1.0]


async def test_pauses_do_not_grow_for_ever(tmp_path: Path) -> None:
    policy = AttemptConfig(backoff_s=10.0, max_backoff_s=12.0)
    async with failover_gateway(
        tmp_path, [error(500)] * 3, policy=policy, fallbacks=NO_FALLBACKS
    ) as ships:
        await ships.post_request()
        assert ships.clock.slept == [10.0, 12.0]


# One budget


@pytest.mark.parametrize("most", [1, 2, 3])
async def test_there_are_only_so_many_attempts_over_all_providers(
    tmp_path: Path, most: int
) -> None:
    policy = AttemptConfig(max_attempts=most, backoff_s=1.0)
    broken = [error(500)] * 4
    async with failover_gateway(tmp_path, broken, broken, policy=policy) as ships:
        assert (await ships.post_request()).status == 503
        assert len(ships.new_calls) == most


async def test_pauses_count_against_the_seconds(tmp_path: Path) -> None:
    policy = AttemptConfig(max_s=2.0, backoff_s=1.0)
    async with failover_gateway(tmp_path, [error(500)] * 3, policy=policy) as ships:
        answer = await ships.post_request()
        assert (answer.text, ships.new_calls) == ("Hello, world", [A, A, TWO])
        assert ships.clock.slept == [1.0]


async def test_what_a_provider_takes_counts_against_the_seconds(tmp_path: Path) -> None:
    clock = Clock()

    async def slow(request: ReceivedRequest, connection: Connection) -> None:
        clock.now += 61
        await error(500)(request, connection)

    policy = AttemptConfig(max_s=60.0)
    async with failover_gateway(tmp_path, [slow], clock=clock, policy=policy) as ships:
        answer = await ships.post_request()
        assert (answer.status, ships.new_calls) == (503, [A])


# The breaker


async def opened(ships: FailoverGateway) -> None:
    """Let the first provider fail five times in a row, which is once too often."""
    ships.add_scripts("one", *[error(500)] * 5)
    await ships.post_request()
    await ships.post_request()


async def test_a_provider_that_keeps_failing_is_left_alone_and_then_tried_once(
    tmp_path: Path,
) -> None:
    async with failover_gateway(tmp_path) as ships:
        await opened(ships)
        assert [name for name, _ in ships.new_calls] == ["one"] * 3 + ["two"] + ["one"] * 2 + [
            "two"
        ]
        ships.clock.now += 29
        assert (await ships.post_request()).text == "Hello, world"
        assert ships.new_calls == [TWO]
        ships.clock.now += 1
        ships.add_scripts("one", error(500))
        await ships.post_request()
        await ships.post_request()
        assert [name for name, _ in ships.new_calls] == ["one", "two", "two"]
        ships.clock.now += 30
        await ships.post_request()
        await ships.post_request()
        assert [name for name, _ in ships.new_calls] == ["one", "one"]


async def test_while_one_request_tries_the_way_the_others_do_not(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def hesitant(request: ReceivedRequest, connection: Connection) -> None:
        await go_on.wait()
        await answer_hello(request, connection)

    async with failover_gateway(tmp_path) as ships:
        await opened(ships)
        ships.clock.now += 30
        ships.add_scripts("one", hesitant)
        assert ships.new_calls
        trial = asyncio.ensure_future(ships.post_request())
        await until(lambda: len(ships.sent()) == 6, "the trial has begun")
        await ships.post_request()
        go_on.set()
        assert (await trial).text == "Hello, world"
        await ships.post_request()
        assert [name for name, _ in ships.new_calls] == ["one", "two", "one"]


async def test_limits_of_a_key_do_not_open_the_breaker(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path) as ships:
        for _ in range(4):
            ships.add_scripts("one", error(429), error(429))
            await ships.post_request()
            ships.clock.now += 60
        assert [name for name, _ in ships.new_calls] == ["one", "one", "two"] * 4
        await ships.post_request()
        assert [name for name, _ in ships.new_calls] == ["one"]


async def test_with_nobody_else_to_ask_a_broken_provider_is_asked_all_the_same(
    tmp_path: Path,
) -> None:
    async with failover_gateway(tmp_path, fallbacks=NO_FALLBACKS) as ships:
        ships.add_scripts("one", *[error(500)] * 6)
        assert (await ships.post_request()).status == (await ships.post_request()).status == 503
        assert (await ships.post_request()).text == "Hello, world"


async def test_a_model_that_is_missing_is_not_asked_for_again_at_once(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, [error(404, code="model_not_found")]) as ships:
        await ships.post_request()
        await ships.post_request()
        assert ships.new_calls == [A, TWO, TWO]
        ships.clock.now += 300
        await ships.post_request()
        assert ships.new_calls == [B]
