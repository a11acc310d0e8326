"""Names, arguments and results of MCP tools with markup and escapes are text on the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from antiphon.store.trace.reader import read_detail
from tests.support.gateways import Running
from tests.support.mcp.hostile_server import NAME, hostile_gateway
from tests.support.pages.watched import BrowserTabs
from tests.support.waiting import until


@pytest.fixture(scope="module")
async def traced(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Running, str]]:
    """A gateway, and the id of a request with three calls of a hostile server."""
    async with hostile_gateway(tmp_path_factory.mktemp("hostile")) as (setup, request_id):
        await until(lambda: has_ended(setup.trace, request_id), "the request is in the trace")
        yield setup.gateway, request_id


def has_ended(trace: Path, request_id: str) -> bool:
    detail = read_detail(trace, request_id)
    return detail is not None and detail.finish is not None


async def expect_harmless(page: Page) -> None:
    assert await page.evaluate("window.attacked") is None
    for made in ("img[src=x]", "main script", "svg[onload]", "[onerror]"):
        await expect(page.locator(made)).to_have_count(0)


async def test_the_calls_of_a_hostile_server_are_text(
    tabs: BrowserTabs, traced: tuple[Running, str]
) -> None:
    gateway, request_id = traced
    async with tabs.open(gateway, f"requests/{request_id}", width=1400) as page:
        rows = page.get_by_role("table", name="MCP servers").locator("tbody tr")
        await expect(rows).to_have_count(4)
        for number in (1, 2, 3):
            await expect(rows.nth(number)).to_contain_text(NAME)
        failed = rows.filter(has_text="The server returned the error -32000 of the protocol.")
        await expect(failed).to_have_count(1)
        await expect_harmless(page)


async def test_names_arguments_and_results_in_its_events_are_text(
    tabs: BrowserTabs, traced: tuple[Running, str]
) -> None:
    gateway, request_id = traced
    async with tabs.open(gateway, f"requests/{request_id}", width=1400) as page:
        await expect(page.locator(".entry.transformed").first).to_be_visible()
        for summary in await page.locator(".entry > summary").all():
            if await summary.locator("xpath=..").get_attribute("open") is None:
                await summary.click()
        events = page.locator(".entry.transformed")
        await expect(events.get_by_text("<script>window.attacked=1").first).to_be_visible()
        await expect(events.get_by_text("mcp_tool_execution_error").first).to_be_visible()
        await expect_harmless(page)


@pytest.mark.parametrize("path", ["requests", "requests?open={}", "now", "sessions"])
async def test_no_other_view_runs_them(
    tabs: BrowserTabs, traced: tuple[Running, str], path: str
) -> None:
    gateway, request_id = traced
    async with tabs.open(gateway, path.format(request_id), width=1400) as page:
        await expect(page.locator("main")).to_be_visible()
        if "open=" in path:
            await expect(page.locator(".preview")).to_contain_text("<script>window.attacked=1")
        await expect_harmless(page)
