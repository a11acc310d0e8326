"""Warm-up: a response without output, stored and traced, and no call of a provider."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import count
from typing import Any

from antiphon.core.events import Completed
from antiphon.dialects.responses.parse import parse_request
from antiphon.engine.services import Caller
from antiphon.server.websocket.responder import warm_up
from tests.support.applications import (
    GatedUpstream,
    OpenApplication,
    open_application,
    use_upstream,
)
from tests.support.waiting import LIMIT_S


async def warm(opened: OpenApplication, **fields: Any) -> Completed:
    request = parse_request({"model": "echo/echo", "input": "Hello", **fields})
    prepared = await opened.engine.prepare(request, Caller("local", "req_1"))
    events = await warm_up(opened.engine.services, prepared)
    assert [event.__struct_config__.tag for event in events] == [
        "response.created",
        "response.in_progress",
        "response.completed",
    ]
    assert isinstance(events[-1], Completed)
    return events[-1]


async def test_it_completes_without_output_tokens_or_a_provider() -> None:
    async with open_application() as opened:
        upstream = GatedUpstream()  # it never answers
        use_upstream(opened.engine, upstream)
        async with asyncio.timeout(LIMIT_S):
            response = (await warm(opened)).response
    assert (response.status, response.output) == ("completed", ())
    assert response.usage is not None
    assert response.usage.total_tokens == 0
    assert [entry.event for entry in opened.log] == ["response.finished"]


async def test_it_is_stored_unless_the_request_says_otherwise() -> None:
    async with open_application() as opened:
        store = opened.engine.services.store
        stored, unstored = await warm(opened), await warm(opened, store=False)
        found = await store.load(stored.response.id, client="local")
        assert found is not None
        assert found.input[0]["content"][0]["text"] == "Hello"
        assert await store.load(unstored.response.id, client="local") is None


async def test_its_duration_is_in_milliseconds() -> None:
    async with open_application() as opened:
        ticks = count(100.0, 0.001)  # a millisecond passes with each look at the clock
        services = opened.engine.services
        runtime = replace(services.runtime, monotonic=lambda: next(ticks))
        opened.engine.services = replace(services, runtime=runtime)
        await warm(opened)
    [entry] = opened.log
    assert 0 < entry.facts["duration_ms"] < 100
