"""Metrics of gateways in processes of their own: accepted by promtool, and added up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp

from tests.support.failing_providers import ScriptQueue, error
from tests.support.gateways import running, settings
from tests.support.prometheus_tools import (
    check_with_promtool,
    scrape,
    scrape_sums,
    sharing_gateways,
)
from tests.support.upstream import HELLO_WORLD, send_frames, upstream

BODY = {"model": "up/m", "input": "Hi"}


async def test_promtool_accepts_the_metrics(tmp_path: Path) -> None:
    async with (
        upstream(ScriptQueue(send_frames(HELLO_WORLD), error(429))) as provider,
        running(settings(tmp_path, provider.url)) as gateway,
    ):
        for body in (BODY, BODY, {"model": "up/m"}):
            await gateway.post(body)
        text = await scrape(gateway.client, gateway.base_url.removesuffix("/v1"))
    assert await asyncio.to_thread(check_with_promtool, text) == ""


def test_promtool_finds_a_mistake() -> None:
    assert check_with_promtool("# TYPE requests counter\nrequests 1\n")


async def test_processes_that_share_a_directory_add_up_their_figures(tmp_path: Path) -> None:
    with sharing_gateways(tmp_path, 2) as urls:
        async with aiohttp.ClientSession() as http:
            for url in urls:
                body = {"model": "echo/echo", "input": "Hi"}
                async with http.post(f"{url}/v1/responses", json=body) as response:
                    assert response.status == 200
                await scrape(http, url)  # counts what has ended
            found = [await scrape_sums(http, url) for url in urls]
            text = await scrape(http, urls[0])
    for each in found:
        assert each["antiphon_requests_total"] == 2
        assert each["antiphon_first_event_seconds_count"] == 2
        assert each["antiphon_running_streams"] == 0
    assert await asyncio.to_thread(check_with_promtool, text) == ""
