"""The list of requests: filters in the address, live rows, keyboard, ids, and 10,000 requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Page, expect

from antiphon.server.ui.static_files import load_files
from tests.support.gateways import Running
from tests.support.pages.sample_gateway import HeldAnswers, sample_gateway
from tests.support.pages.samples import seed_trace
from tests.support.pages.watched import BrowserTabs, make_traced_request

REQUESTS = 10_000
FIRST_PAINT_MS = 300
ROWS = ".list tbody tr"


@pytest.fixture(scope="module")
async def answers() -> HeldAnswers:
    return HeldAnswers()


@pytest.fixture(scope="module")
async def gateway(
    tmp_path_factory: pytest.TempPathFactory, answers: HeldAnswers
) -> AsyncIterator[Running]:
    async with sample_gateway(tmp_path_factory.mktemp("many"), script=answers) as gateway:
        store = gateway.engine.services.tracer.store
        assert store is not None
        await asyncio.to_thread(seed_trace, store.path, int(time.time() * 1000), REQUESTS)
        yield gateway


async def test_a_page_of_ten_thousand_is_continued(tabs: BrowserTabs, gateway: Running) -> None:
    async with tabs.open(gateway, "requests") as page:
        await expect(page.locator(ROWS)).to_have_count(50)
        await page.get_by_role("button", name="Older requests").click()
        await expect(page.locator(ROWS)).to_have_count(100)


async def test_the_first_paint_of_a_list_takes_little_cpu_of_the_server(gateway: Running) -> None:
    origin = gateway.base_url.removesuffix("/v1")
    paths = ["/ui/requests", *(f"/ui/static/{name}" for name in load_files())]
    paths += ["/ui/api/session", "/ui/api/requests", "/ui/api/choices"]
    began = time.process_time()
    for path in paths:
        async with gateway.client.get(origin + path) as response:
            assert response.status == 200
            await response.read()
    # Everything that the browser asks for, with the client of this test in the same process.
    assert (time.process_time() - began) * 1000 < FIRST_PAINT_MS


async def test_filters_are_the_address(tabs: BrowserTabs, gateway: Running) -> None:
    async with tabs.open(gateway, "requests?status=failed%2Crejected") as page:
        await expect(page.locator(f"{ROWS}.failed")).to_have_count(50)
        await page.get_by_label("client").fill("alice")
        await page.keyboard.press("Enter")
        await expect(page.locator(f"{ROWS} .client", has_text="build-server")).to_have_count(0)
        await expect(page.locator(f"{ROWS} .client", has_text="alice")).to_have_count(50)
        assert page.url.endswith("/ui/requests?client=alice&status=failed%2Crejected")
        await page.reload()
        await expect(page.get_by_label("client")).to_have_value("alice")
        await page.go_back()
        await expect(page.get_by_label("client")).to_have_value("")
        await page.get_by_role("link", name="Clear").click()
        await expect(page.locator(f"{ROWS} .pill.ok").first).to_be_visible()


async def test_live_rows_obey_the_filter(tabs: BrowserTabs, gateway: Running) -> None:
    async with tabs.open(gateway, "requests?client=local&model=fast") as page:
        await expect(page.locator(".empty h2")).to_have_text("No request matches")
        await expect(page.locator(".live")).to_have_text("live")
        other = await make_traced_request(gateway, {"model": "smart", "input": "Hello"})
        id = await make_traced_request(gateway, {"model": "fast", "input": "Hello"})
        row = page.locator(ROWS, has_text=id[-8:])
        await expect(row.locator(".pill")).to_have_text("completed")
        await expect(page.locator(ROWS)).to_have_count(1)
        await expect(page.locator("main")).not_to_contain_text(other[-8:])


async def test_a_running_request_becomes_a_finished_one(
    tabs: BrowserTabs, gateway: Running, answers: HeldAnswers
) -> None:
    async with tabs.open(gateway, "requests?model=smart&since=15m&client=local") as page:
        await expect(page.locator(".live")).to_have_text("live")
        asking = asyncio.ensure_future(
            make_traced_request(gateway, {"model": "smart", "input": "wait"})
        )
        first = page.locator(ROWS).first
        await expect(first.locator(".pill")).to_have_text("running")
        answers.go_on.set()
        id = await asking
        await expect(first).to_contain_text(id[-8:])
        await expect(first.locator(".pill")).to_have_text("completed")


async def test_a_request_that_has_ended_leaves_the_list_of_running_ones(
    tabs: BrowserTabs, gateway: Running
) -> None:
    async with tabs.open(gateway, "requests?status=running&client=local") as page:
        await expect(page.locator(".live")).to_have_text("live")
        asking = asyncio.ensure_future(
            make_traced_request(gateway, {"model": "fast", "input": "say: " + "word " * 60})
        )
        await expect(page.locator(ROWS)).to_have_count(1)
        await asking
        await expect(page.locator(".empty h2")).to_have_text("No request matches")


async def focused_row(page: Page) -> int:
    script = (
        "[...document.querySelectorAll('tbody tr')].indexOf(document.activeElement.closest('tr'))"
    )
    found: int = await page.evaluate(script)
    return found


async def test_the_list_is_used_by_keyboard_alone(tabs: BrowserTabs, gateway: Running) -> None:
    async with tabs.open(gateway, "requests") as page:
        await page.keyboard.press("/")
        await expect(page.get_by_label("client")).to_be_focused()
        await page.get_by_label("client").blur()
        for key, row in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
            await page.keyboard.press(key)
            assert await focused_row(page) == row
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert await page.evaluate(outline) == "solid"
        await page.keyboard.press("Enter")
        await expect(page.locator(".crumbs")).to_contain_text("req_")
        await expect(page.locator("h1")).to_be_focused()
        await page.keyboard.press("g")
        await page.keyboard.press("u")
        await expect(page.locator("h1")).to_have_text("Usage")
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_be_hidden()


async def test_the_navigation_comes_after_a_link_to_the_content(
    tabs: BrowserTabs, gateway: Running
) -> None:
    async with tabs.open(gateway, "requests") as page:
        await expect(page.locator(ROWS).first).to_be_visible()
        await page.keyboard.press("Tab")
        skip = page.get_by_role("link", name="Skip to the content")
        await expect(skip).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("main")).to_be_focused()


async def test_an_id_is_copied(tabs: BrowserTabs, gateway: Running) -> None:
    async with tabs.open(gateway, "requests") as page:
        button = page.locator(f"{ROWS} .copy").first
        await button.click()
        await expect(page.locator("#toast")).to_have_text("Copied")
        copied = await page.evaluate("navigator.clipboard.readText()")
        assert await button.get_attribute("title") == f"Copy {copied}"
        assert await button.inner_text() == f"…{copied[-8:]}"
        assert len(copied) == len("req_") + 32
        assert page.url.endswith("/ui/requests")


async def test_a_row_is_opened_by_a_click(tabs: BrowserTabs, gateway: Running) -> None:
    async with tabs.open(gateway, "requests") as page:
        row = page.locator(ROWS).first
        id = (await row.locator(".copy").get_attribute("title") or "").removeprefix("Copy ")
        await row.locator(".grow").click()
        await expect(page.locator(".crumbs")).to_contain_text(id)
        assert page.url.endswith(f"/ui/requests/{id}")
