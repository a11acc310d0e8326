"""The page on a real port: files, filters in the query, live updates, and shutdown."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.gateways import running, settings
from tests.support.waiting import LIMIT_S


async def test_the_page_and_its_api_are_served(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as gateway:
        origin = gateway.base_url.removesuffix("/v1")
        html = {"accept": "text/html"}
        async with gateway.client.get(origin, headers=html) as page:
            assert str(page.url) == f"{origin}/ui"
            assert "static/main.js" in await page.text()
            assert page.headers["server"] == "antiphon"
        async with gateway.client.get(f"{origin}/ui/api/requests?limit=0") as bad:
            assert bad.status == 400
        async with gateway.client.head(f"{origin}/ui/static/style.css") as head:
            assert (head.status, await head.read()) == (200, b"")
        forwarded = {"x-forwarded-for": "203.0.113.9"}
        async with gateway.client.get(f"{origin}/ui", headers=forwarded) as refused:
            assert refused.status == 403


async def test_an_open_page_does_not_delay_shutdown(tmp_path: Path) -> None:
    async with running(settings(tmp_path, shutdown_s=600.0)) as gateway:
        url = gateway.base_url.replace("/v1", "/ui/api/live?view=now")
        async with gateway.client.get(url) as live:
            assert await live.content.readline() == b": keep-alive\n"
            async with asyncio.timeout(LIMIT_S):
                await gateway.gateway.stop()
                rest = await live.content.read()
    assert b"event: now" in rest
