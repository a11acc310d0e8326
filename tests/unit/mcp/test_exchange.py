"""The time of a request, and its silence in the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from antiphon.core.mcp.values import McpProblem
from antiphon.mcp.exchange import Deadline, Exchange, current_exchange, silence_sessions

PROBLEM = McpProblem(type="http_error", message="No.")


async def ends(deadline: Deadline, action: Callable[[], Awaitable[object]]) -> bool:
    """Whether a deadline ends a block that acts, and then waits for ever."""
    try:
        async with deadline:
            await action()
            await asyncio.Event().wait()
    except TimeoutError:
        return True
    return False


async def test_a_deadline_ends_a_block_without_progress() -> None:
    assert await ends(Deadline(0.01, 100), asyncio.Event().wait)


async def test_progress_does_not_extend_a_deadline_beyond_the_total() -> None:
    deadline = Deadline(100, 0.05)
    assert await ends(deadline, lambda: deadline.extend(1))


async def test_a_deadline_can_expire_at_once_and_only_while_its_block_runs() -> None:
    deadline = Deadline(100, 100)
    deadline.expire()

    async def expire() -> None:
        deadline.expire()

    assert await ends(deadline, expire)
    deadline.expire()
    await deadline.extend(1)


def test_a_failure_of_http_is_noted_and_reported() -> None:
    failures: list[int] = []
    exchange = Exchange(lambda: failures.append(1))
    exchange.note(200, None)
    assert failures == []
    exchange.note(404, PROBLEM, is_session_lost=True)
    assert failures == [1]
    assert (exchange.status, exchange.problem, exchange.is_session_lost) == (404, PROBLEM, True)


def test_log_records_of_sessions_are_dropped_and_those_of_others_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = logging.getLogger("mcp.client.streamable_http")
    silence_sessions()
    token = current_exchange.set(Exchange())
    log.error("of a session")
    current_exchange.reset(token)
    log.error("of others")
    assert caplog.messages == ["of others"]
