"""Key cooldown, circuit breaker, backoff and attempt limits, with a fake clock."""

from __future__ import annotations

import asyncio
from math import inf
from pathlib import Path

import pytest

from antiphon.config import AttemptConfig, TimeoutConfig
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
from tests.support.mcp.value_servers import use_servers, weather_server
from tests.support.shared_gateway import UVLOOP
from tests.support.upstream import Connection, ReceivedRequest, Script, send_json
from tests.support.waiting import until

ONE_KEY = {**KEYS, "one": ("sk-one-a",)}
MANY_KEYS = {**KEYS, "one": ("sk-one-a", "sk-one-b", "sk-one-c", "sk-one-d")}


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


def retry_after(delay: str) -> Script:
    """A rate limit with its delay in the body, as Google sends it."""
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
    details = {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [info]}
    return send_json(429, {"error": {"message": "Slow down.", **details}})


# Who is next


async def test_keys_are_rotated(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path) as setup:
        for _ in range(4):
            assert (await setup.post_request()).text == "Hello, world"
        assert setup.new_calls == [A, B, A, B]


@pytest.mark.parametrize(
    ("script", "rest_s"),
    [
        pytest.param(error(429), 60.0, id="the default"),
        pytest.param(error(429, retry_after=7), 60.0, id="a shorter Retry-After"),
        pytest.param(error(429, retry_after=120), 120.0, id="a longer Retry-After"),
        pytest.param(retry_after("90.5s"), 90.5, id="RetryInfo"),
        pytest.param(error(402), 3600.0, id="no money"),
        pytest.param(error(403), 300.0, id="no permission"),
        pytest.param(error(401), inf, id="no key at all"),
    ],
)
async def test_a_key_cools_down_after_a_key_fault(
    tmp_path: Path, script: Script, rest_s: float
) -> None:
    async with failover_gateway(tmp_path, [script]) as setup:
        assert (await setup.post_request()).status == 200
        assert setup.new_calls == [A, B]
        setup.clock.now += min(rest_s, 1e9) - 0.1
        await setup.post_request()
        await setup.post_request()
        assert setup.new_calls == [B, B]
        setup.clock.now += 0.1
        await setup.post_request()
        assert setup.new_calls == [B if rest_s == inf else A]


async def test_a_key_without_permission_for_one_model_serves_others(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, [error(403)]) as setup:
        await setup.post_request()
        await setup.post_request(model="one/other")
        await setup.post_request()
        assert setup.new_calls == [A, B, A, B]


async def test_permission_faults_try_two_keys_and_rate_limits_try_all(tmp_path: Path) -> None:
    policy = AttemptConfig(max_attempts=9)
    async with failover_gateway(tmp_path, [error(403)] * 4, keys=MANY_KEYS, policy=policy) as setup:
        await setup.post_request()
        assert [key for _, key in setup.new_calls] == ["sk-one-a", "sk-one-b", "sk-two-a"]
    async with failover_gateway(tmp_path, [error(429)] * 4, keys=MANY_KEYS, policy=policy) as setup:
        await setup.post_request()
        assert [key for _, key in setup.new_calls] == [*MANY_KEYS["one"], "sk-two-a"]


async def test_the_last_key_cools_down_too(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, [error(429)] * 2) as setup:
        await setup.post_request()
        await setup.post_request()
        assert setup.new_calls == [A, B, TWO, TWO]
        setup.clock.now += 60
        await setup.post_request()
        assert setup.new_calls == [A]


async def test_if_all_keys_cool_down_the_first_available_is_used(tmp_path: Path) -> None:
    async with failover_gateway(
        tmp_path, [error(402), error(429)], fallbacks=NO_FALLBACKS
    ) as setup:
        assert (await setup.post_request()).status == 429
        assert (await setup.post_request()).status == 200
        assert setup.new_calls == [A, B, B]


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
async def test_a_fault_that_is_not_about_the_key_does_not_cool_it_down(
    tmp_path: Path, script: Script
) -> None:
    policy = AttemptConfig(max_attempts=1)
    async with failover_gateway(tmp_path, [script], policy=policy, fallbacks=NO_FALLBACKS) as setup:
        assert (await setup.post_request()).status >= 400
        for _ in range(3):
            assert (await setup.post_request()).status == 200
        assert setup.new_calls == [A, B, A, B]


# Pauses


async def test_a_short_cooldown_of_the_only_key_is_awaited(tmp_path: Path) -> None:
    script = error(429, retry_after=2)
    async with failover_gateway(tmp_path, [script], keys=ONE_KEY, fallbacks=NO_FALLBACKS) as setup:
        answer = await setup.post_request(stream=True)
        assert (answer.text, setup.new_calls) == ("Hello, world", [A, A])
        assert setup.clock.slept == [2.0]


async def test_a_long_cooldown_is_returned_with_retry_after(tmp_path: Path) -> None:
    script = error(429, retry_after=600)
    async with failover_gateway(tmp_path, [script], keys=ONE_KEY, fallbacks=NO_FALLBACKS) as setup:
        answer = await setup.post_request(stream=True)
    assert (answer.status, setup.new_calls, setup.clock.slept) == (429, [A], [])
    assert answer.headers["retry-after"] == "600"
    assert "try again in 600 s" in answer.error["message"]


async def test_a_provider_is_not_called_again_just_before_the_total_timeout(tmp_path: Path) -> None:
    """A call after the pause could not end in time: the client hears of the delay instead."""
    async with failover_gateway(
        tmp_path,
        [error(429, retry_after=19)],
        keys=ONE_KEY,
        fallbacks=NO_FALLBACKS,
        timeouts={"one": TimeoutConfig(total_s=20)},
    ) as setup:
        answer = await setup.post_request(stream=True)
    assert (answer.status, setup.new_calls, setup.clock.slept) == (429, [A], [])
    assert answer.headers["retry-after"] == "19"


async def test_a_ready_fallback_is_used_instead_of_waiting_for_a_key(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, [error(429, retry_after=2)], keys=ONE_KEY) as setup:
        answer = await setup.post_request()
        assert (answer.text, setup.new_calls, setup.clock.slept) == ("Hello, world", [A, TWO], [])


async def test_backoff_follows_retry_after(tmp_path: Path) -> None:
    async with failover_gateway(
        tmp_path, [error(503, retry_after=9)], fallbacks=NO_FALLBACKS
    ) as setup:
        assert (await setup.post_request()).status == 200
        assert setup.clock.slept == [9.0]


async def test_a_too_long_retry_after_leads_to_the_fallback(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, [error(503, retry_after=900)]) as setup:
        answer = await setup.post_request()
        assert (answer.text, setup.new_calls, setup.clock.slept) == ("Hello, world", [A, TWO], [])


async def test_backoff_has_jitter(tmp_path: Path) -> None:
    scripts = [error(500)] * 3
    async with failover_gateway(
        tmp_path, scripts, clock=Clock(jitter=0.0), fallbacks=NO_FALLBACKS
    ) as setup:
        await setup.post_request()
        assert setup.clock.slept == [0.5, 1.0]


async def test_backoff_is_capped(tmp_path: Path) -> None:
    policy = AttemptConfig(backoff_s=10.0, max_backoff_s=12.0)
    async with failover_gateway(
        tmp_path, [error(500)] * 3, policy=policy, fallbacks=NO_FALLBACKS
    ) as setup:
        await setup.post_request()
        assert setup.clock.slept == [10.0, 12.0]


# One budget


@pytest.mark.parametrize("most", [1, 2, 3])
async def test_attempts_are_limited_over_all_providers(tmp_path: Path, most: int) -> None:
    policy = AttemptConfig(max_attempts=most, backoff_s=1.0)
    broken = [error(500)] * 4
    async with failover_gateway(tmp_path, broken, broken, policy=policy) as setup:
        assert (await setup.post_request()).status == 503
        assert len(setup.new_calls) == most


async def test_backoff_counts_against_the_time_limit(tmp_path: Path) -> None:
    policy = AttemptConfig(max_s=2.0, backoff_s=1.0)
    async with failover_gateway(tmp_path, [error(500)] * 3, policy=policy) as setup:
        answer = await setup.post_request()
        assert (answer.text, setup.new_calls) == ("Hello, world", [A, A, TWO])
        assert setup.clock.slept == [1.0]


async def test_provider_time_counts_against_the_time_limit(tmp_path: Path) -> None:
    clock = Clock()

    async def slow(request: ReceivedRequest, connection: Connection) -> None:
        clock.now += 61
        await error(500)(request, connection)

    policy = AttemptConfig(max_s=60.0)
    async with failover_gateway(tmp_path, [slow], clock=clock, policy=policy) as setup:
        answer = await setup.post_request()
        assert (answer.status, setup.new_calls) == (503, [A])


# The breaker


async def open_breaker(setup: FailoverGateway) -> None:
    """Let the first provider fail five times in a row, which opens its circuit breaker."""
    setup.add_scripts("one", *[error(500)] * 5)
    await setup.post_request()
    await setup.post_request()


async def test_the_circuit_breaker_opens_and_later_allows_one_trial(
    tmp_path: Path,
) -> None:
    async with failover_gateway(tmp_path) as setup:
        await open_breaker(setup)
        assert [name for name, _ in setup.new_calls] == ["one"] * 3 + ["two"] + ["one"] * 2 + [
            "two"
        ]
        setup.clock.now += 29
        assert (await setup.post_request()).text == "Hello, world"
        assert setup.new_calls == [TWO]
        setup.clock.now += 1
        setup.add_scripts("one", error(500))
        await setup.post_request()
        await setup.post_request()
        assert [name for name, _ in setup.new_calls] == ["one", "two", "two"]
        setup.clock.now += 30
        await setup.post_request()
        await setup.post_request()
        assert [name for name, _ in setup.new_calls] == ["one", "one"]


async def test_a_half_open_breaker_allows_one_trial_at_a_time(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def delayed(request: ReceivedRequest, connection: Connection) -> None:
        await go_on.wait()
        await answer_hello(request, connection)

    async with failover_gateway(tmp_path) as setup:
        await open_breaker(setup)
        setup.clock.now += 30
        setup.add_scripts("one", delayed)
        assert setup.new_calls
        trial = asyncio.ensure_future(setup.post_request())
        await until(lambda: len(setup.sent()) == 6, "the trial has begun")
        await setup.post_request()
        go_on.set()
        assert (await trial).text == "Hello, world"
        await setup.post_request()
        assert [name for name, _ in setup.new_calls] == ["one", "two", "one"]


async def test_rate_limits_do_not_open_the_circuit_breaker(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path) as setup:
        for _ in range(4):
            setup.add_scripts("one", error(429), error(429))
            await setup.post_request()
            setup.clock.now += 60
        assert [name for name, _ in setup.new_calls] == ["one", "one", "two"] * 4
        await setup.post_request()
        assert [name for name, _ in setup.new_calls] == ["one"]


async def test_without_fallbacks_an_open_breaker_is_ignored(
    tmp_path: Path,
) -> None:
    async with failover_gateway(tmp_path, fallbacks=NO_FALLBACKS) as setup:
        setup.add_scripts("one", *[error(500)] * 6)
        assert (await setup.post_request()).status == (await setup.post_request()).status == 503
        assert (await setup.post_request()).text == "Hello, world"


async def test_a_missing_model_is_skipped_for_a_while(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, [error(404, code="model_not_found")]) as setup:
        await setup.post_request()
        await setup.post_request()
        assert setup.new_calls == [A, TWO, TWO]
        setup.clock.now += 300
        await setup.post_request()
        assert setup.new_calls == [B]


async def test_a_key_that_began_to_rest_while_an_mcp_server_was_asked_is_not_used(
    tmp_path: Path,
) -> None:
    sky = {"type": "mcp", "server_label": "sky", "server_url": "https://sky.example/mcp"}
    async with failover_gateway(tmp_path) as setup:
        servers = weather_server()
        use_servers(setup.gateway.engine, servers)
        servers.listing.clear()
        waiting = asyncio.create_task(setup.post_request(tools=[sky]))
        await until(lambda: servers.asked, "the server is asked for its tools")
        setup.add_scripts("one", error(429), error(429, retry_after=120))
        await setup.post_request()
        assert setup.new_calls == [B, A, TWO]
        setup.clock.now += 61  # B is ready again
        servers.listing.set()
        assert (await waiting).text == "Hello, world"
        assert setup.new_calls == [B]
