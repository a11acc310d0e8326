"""Limits of clients: which table applies, and what a refused client reads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from antiphon.config import ClientLimitConfig, parse_config
from antiphon.core.response import ResponseUsage
from antiphon.engine.accounting import DOLLAR
from antiphon.engine.report import RunReport
from antiphon.errors import ConfigError, LimitExceeded
from antiphon.observe.counters import LimitState, MemoryLimitCounters
from antiphon.observe.limits import ClientLimiter, check_limits
from antiphon.stages.log import Entry

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 12, 31, 18, 30, tzinfo=UTC).timestamp()


class BrokenCounters(MemoryLimitCounters):
    """Counters that break after they have counted."""

    is_broken = True

    async def acquire(self, client: str, request_id: str, limits: ClientLimitConfig) -> LimitState:
        state = await super().acquire(client, request_id, limits)
        if self.is_broken:
            raise RuntimeError("a bug")
        return state


def make_limiter(log: list[Entry] | None = None, **tables: ClientLimitConfig) -> ClientLimiter:
    counters = MemoryLimitCounters(lambda: 100.0, lambda: NOW)
    limits = {name.replace("every", "*"): table for name, table in tables.items()}
    emit = (lambda entry: None) if log is None else log.append
    return ClientLimiter(limits, counters, lambda: NOW, emit)


def ended(client: str = "me", tokens: int = 10, cost: int | None = 0) -> RunReport:
    return RunReport(
        request_id="r1",
        received_at_ms=0,
        client=client,
        provider="up",
        model="m",
        status="completed",
        usage=ResponseUsage(total_tokens=tokens),
        cost=cost,
    )


async def refusal(limiter: ClientLimiter, client: str = "me") -> LimitExceeded:
    with pytest.raises(LimitExceeded) as caught:
        await limiter.admit(client, "r2")
    return caught.value


async def test_an_admitted_request_sees_what_is_left() -> None:
    limiter = make_limiter(me=ClientLimitConfig(requests_per_minute=3, tokens_per_minute=100))
    assert await limiter.admit("me", "r1") == {
        "x-ratelimit-limit-requests": "3",
        "x-ratelimit-remaining-requests": "2",
        "x-ratelimit-reset-requests": "60.000s",
        "x-ratelimit-limit-tokens": "100",
        "x-ratelimit-remaining-tokens": "100",
        "x-ratelimit-reset-tokens": "0.000s",
    }


async def test_a_request_that_a_bug_ends_while_it_is_counted_takes_no_place() -> None:
    counters = BrokenCounters(lambda: 100.0, lambda: NOW)
    limits = {"me": ClientLimitConfig(max_streams=1)}
    limiter = ClientLimiter(limits, counters, lambda: NOW, lambda entry: None)
    with pytest.raises(RuntimeError):
        await limiter.admit("me", "r1")
    counters.is_broken = False
    assert await limiter.admit("me", "r2") == {}


async def test_a_refused_request_learns_when_to_try_again() -> None:
    limiter = make_limiter(me=ClientLimitConfig(requests_per_minute=1))
    await limiter.admit("me", "r1")
    error = await refusal(limiter)
    assert (error.status, error.wire_code, error.kind, error.permanent) == (
        429,
        "rate_limit_exceeded",
        "rate_limit_error",
        False,
    )
    assert error.message == (
        "Client 'me' has reached requests_per_minute = 1 of [limits.me]. Try again in 60 s."
    )
    assert error.headers["retry-after"] == "60"
    assert error.headers["retry-after-ms"] == "60000"
    assert error.headers["x-ratelimit-remaining-requests"] == "0"


async def test_tokens_are_refused_with_their_own_limit() -> None:
    limiter = make_limiter(me=ClientLimitConfig(tokens_per_minute=1000))
    await limiter.admit("me", "r1")
    limiter.release(ended(tokens=1500))
    error = await refusal(limiter)
    assert "has reached tokens_per_minute = 1000 of [limits.me]" in error.message
    assert error.headers["x-ratelimit-remaining-tokens"] == "0"


async def test_a_running_response_is_waited_for() -> None:
    limiter = make_limiter(me=ClientLimitConfig(max_streams=1))
    await limiter.admit("me", "r1")
    error = await refusal(limiter)
    assert error.message == (
        "Client 'me' has reached max_streams = 1 of [limits.me]."
        " Try again when one of its running responses has ended."
    )
    assert error.headers["retry-after"] == "1"
    limiter.release(ended())
    await limiter.admit("me", "r3")


async def test_a_request_that_will_not_begin_frees_its_place() -> None:
    limiter = make_limiter(me=ClientLimitConfig(max_streams=1))
    await limiter.admit("me", "r1")
    assert (await refusal(limiter)).status == 429
    limiter.withdraw("me", "r1")
    assert await limiter.admit("me", "r2") == {}


@pytest.mark.parametrize(
    ("name", "end"), [("cost_per_day", "2027-01-01"), ("cost_per_month", "2027-01-01")]
)
async def test_a_cost_is_no_reason_to_retry(name: str, end: str) -> None:
    limiter = make_limiter(me=structs.replace(ClientLimitConfig(), **{name: 2.0}))
    await limiter.admit("me", "r1")
    limiter.release(ended(cost=5 * DOLLAR // 2))
    error = await refusal(limiter)
    period = name.removeprefix("cost_per_")
    assert error.message == (
        f"Client 'me' has spent $2.50 this {period} and reached {name} = 2 of [limits.me]."
        f" Requests are accepted again from {end} 00:00 UTC."
    )
    assert (error.wire_code, error.kind, error.permanent) == (
        "insufficient_quota",
        "insufficient_quota",
        True,
    )
    assert error.headers["x-should-retry"] == "false"
    assert "retry-after" not in error.headers


async def test_a_client_without_a_table_has_the_limits_of_everybody_else() -> None:
    limiter = make_limiter(
        every=ClientLimitConfig(requests_per_minute=1), me=ClientLimitConfig(max_streams=9)
    )
    for number in range(3):
        await limiter.admit("me", f"r{number}")
    await limiter.admit("you", "r1")
    await limiter.admit("others", "r1")
    assert '[limits."*"]' in (await refusal(limiter, "you")).message


async def test_the_gateway_itself_is_limited_only_by_its_own_name() -> None:
    limiter = make_limiter(every=ClientLimitConfig(requests_per_minute=1))
    for number in range(3):
        assert await limiter.admit("antiphon", f"r{number}") == {}
        limiter.release(ended(client="antiphon"))


async def test_an_unknown_price_is_logged_once_where_it_matters() -> None:
    log: list[Entry] = []
    limiter = make_limiter(log, me=ClientLimitConfig(cost_per_day=1.0))
    for _ in range(2):
        limiter.release(ended(cost=None))
    [entry] = log
    assert entry.event == "limits.cost_not_counted"
    assert entry.facts["reason"] == 'the price of up/m is unknown: set it in [prices."up/m"]'
    quiet: list[Entry] = []
    make_limiter(quiet, me=ClientLimitConfig(max_streams=1)).release(ended(cost=None))
    assert not quiet


CONFIG = """
[server]
api_keys = { alice = "k" }
[limits]
calls = 7
"""


def parse(text: str) -> Any:
    return parse_config(CONFIG + text, {}, name="a.toml")


def test_a_table_in_limits_belongs_to_a_client_and_a_number_to_answers() -> None:
    config = parse('[limits.alice]\nmax_streams = 3\n[limits."*"]\ncost_per_day = 0.5')
    check_limits(config)
    assert config.limits.calls == 7
    assert config.limits.clients == {
        "alice": ClientLimitConfig(max_streams=3),
        "*": ClientLimitConfig(cost_per_day=0.5),
    }


def test_limits_of_nobody_are_an_error() -> None:
    with pytest.raises(ConfigError, match="did you mean 'alice'") as caught:
        check_limits(parse("[limits.alcie]\nmax_streams = 3"))
    assert caught.value.message.startswith("a.toml:6: limits.alcie: there is no client key 'alcie'")


def test_no_client_has_the_name_by_which_the_gateway_escapes_the_limits_of_every_client() -> None:
    named = CONFIG.replace("alice", "antiphon")
    with pytest.raises(ConfigError) as caught:
        check_limits(parse_config(named, {}, name="a.toml"))
    assert caught.value.message == (
        "a.toml:3: server.api_keys.antiphon: this is the name of the gateway's own requests; give"
        " the key another name"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[limits.alice]\nmax_stream = 3", "limits.alice.max_stream: unknown key"),
        ("[limits.alice]\nmax_streams = 0", "limits.alice.max_streams: must be an integer >= 1"),
        ("alice = 3", "limits.alice: unknown key"),
        ("clients = 3", "limits.clients: unknown key"),
    ],
)
def test_a_wrong_limit_is_named_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert problem in caught.value.message
