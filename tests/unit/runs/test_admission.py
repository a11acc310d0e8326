"""Admission of background responses: refused when requested, counted until they have ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.config import (
    BackgroundConfig,
    ClientLimitConfig,
    Config,
    LimitConfig,
    StoreConfig,
)
from antiphon.server.http import HTTPResponse
from tests.support.applications import (
    GatedUpstream,
    OpenApplication,
    document_of,
    echo_config,
    error_of,
    open_application,
    use_upstream,
)
from tests.support.waiting import until, until_async


def config_with(max_running: int = 8, **limits: Any) -> Config:
    return replace(
        echo_config(),
        limits=LimitConfig(clients={"*": ClientLimitConfig(**limits)}),
        background=BackgroundConfig(max_running=max_running, lease_s=1),
    )


async def submit(opened: OpenApplication, **request: Any) -> str:
    return str(document_of(await opened.create(background=True, **request))["id"])


async def until_accepted(opened: OpenApplication) -> HTTPResponse:
    """Send a request until the limits allow it."""
    found: list[HTTPResponse] = []

    async def is_accepted() -> bool:
        found.append(await opened.create(background=True))
        return found[-1].status == 200

    await until_async(is_accepted, "a request is accepted")
    return found[-1]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_beyond_a_limit_is_refused_when_it_is_requested(stream: bool) -> None:
    async with open_application(config_with(requests_per_minute=1)) as opened:
        first = await opened.create(background=True)
        assert first.headers["x-ratelimit-remaining-requests"] == "0"
        refused = await opened.create(background=True, stream=stream)
        assert refused.status == 429
        assert "requests_per_minute = 1" in error_of(refused)["message"]
        assert int(refused.headers["retry-after"]) > 1
    assert "background.run_broken" not in [entry.event for entry in opened.log]


async def test_a_queued_response_counts_as_running_until_it_has_ended() -> None:
    async with open_application(config_with(max_running=1, max_streams=2)) as opened:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        for _ in range(2):
            await submit(opened)
        assert (await opened.create(background=True)).status == 429
        upstream.gate.set()
        await until_accepted(opened)


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_a_queued_response_that_is_never_generated_counts_no_longer(method: str) -> None:
    async with open_application(config_with(max_running=1, max_streams=2)) as opened:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        first, second = await submit(opened), await submit(opened)
        path = f"/v1/responses/{second}"
        ended = await opened.request(method, f"{path}/cancel" if method == "POST" else path)
        assert ended.status == 200
        await opened.request("POST", f"/v1/responses/{first}/cancel")
        await until(lambda: not opened.application.process.live.runs, "the first one has ended")
        await until_accepted(opened)
        assert (await until_accepted(opened)).status == 200


async def test_a_response_that_another_process_has_accepted_is_generated(tmp_path: Path) -> None:
    config = replace(
        config_with(max_running=1, requests_per_minute=2),
        store=StoreConfig(url=f"sqlite:///{tmp_path / 'turns.db'}"),
    )
    async with open_application(config) as first:
        use_upstream(first.engine, GatedUpstream())
        _, queued = await submit(first), await submit(first)
    async with open_application(config) as second:
        for _ in range(2):
            await submit(second)  # its limit is used up
        await second.application.process.start()

        async def is_completed() -> bool:
            found = await second.request("GET", f"/v1/responses/{queued}")
            return bool(document_of(found)["status"] == "completed")

        await until_async(is_completed, "it is generated")
        assert (await second.create()).status == 429


@pytest.mark.parametrize(
    "fields", [{"background": True}, {"stream": True}, {}], ids=["background", "stream", "whole"]
)
async def test_a_refused_response_leaves_its_conversation_unlocked(fields: dict[str, Any]) -> None:
    async with open_application(config_with(max_streams=1)) as opened:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        id = document_of(await opened.request("POST", "/v1/conversations", b"{}"))["id"]
        await submit(opened)
        refused = await opened.create(**fields, conversation=id)
        assert refused.status == 429
        upstream.gate.set()

        async def is_accepted() -> bool:
            return (await opened.create(background=True, conversation=id)).status == 200

        await until_async(is_accepted, "the conversation is not locked")
