"""The list of requests: filters in the address, live rows, keyboard, ids, and 10,000 requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from antiphon.server.ui.static_files import load_files
from tests.support.gateways import Running
from tests.support.pages.browser import measured_work
from tests.support.pages.sample_gateway import HeldAnswers, sample_gateway
from tests.support.pages.samples import seed_trace
from tests.support.pages.watched import PATIENCE_MS, BrowserTabs, make_traced_request

REQUESTS = 10_000
FIRST_PAINT_MS = 300
LONGEST_MS = 100
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


async def test_ten_thousand_requests_are_scrolled_without_a_long_task(
    tabs: BrowserTabs, gateway: Running
) -> None:
    async with tabs.open(gateway, "requests") as page:
        await expect(page.locator(ROWS)).not_to_have_count(0)
        async with measured_work(tabs.browser, page) as longest:
            for shown in range(200, 2001, 100):
                await page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
                await page.locator(ROWS).nth(shown - 1).wait_for()
        assert longest["RunMicrotasks"] > 0
        assert {name: ms for name, ms in longest.items() if ms >= LONGEST_MS} == {}


async def test_the_totals_are_those_of_the_filter(tabs: BrowserTabs, gateway: Running) -> None:
    async with tabs.open(gateway, "requests?q=client:alice") as page:
        await expect(page.locator(".totals-line")).to_contain_text(" requests · ")
        await expect(page.locator(".totals-line")).to_contain_text(" failed · ")
        await expect(page.locator(".totals-line")).to_contain_text("without a price")


async def test_columns_sort_by_duration_cost_and_tokens(
    tabs: BrowserTabs, gateway: Running
) -> None:
    async with tabs.open(gateway, "requests?q=client:alice") as page:
        await page.get_by_role("link", name="Duration").click()
        heading = page.locator("th[aria-sort=descending]")
        await expect(heading).to_have_text("Duration ↓")
        assert "sort=duration" in page.url
        sorted_rows = await list_rows(gateway, "q=client:alice&sort=duration&limit=100")
        durations = [row["duration_ms"] for row in sorted_rows]
        assert durations == sorted(durations, reverse=True)
        first = page.locator(ROWS).first
        await expect(first).to_contain_text(sorted_rows[0]["request_id"][-8:])
        await page.get_by_role("link", name="Duration").click()
        await expect(heading).to_have_count(0)


async def list_rows(gateway: Running, query: str) -> list[dict[str, Any]]:
    url = f"{gateway.base_url.removesuffix('/v1')}/ui/api/requests?{query}"
    async with gateway.client.get(url) as response:
        rows: list[dict[str, Any]] = (await response.json())["rows"]
        return rows


async def test_an_id_and_a_text_of_the_payloads_are_found(
    tabs: BrowserTabs, gateway: Running
) -> None:
    id = await make_listed_request(gateway, "say: xylophone", "deepseek/deepseek-v4-pro")
    async with tabs.open(gateway, "requests") as page:
        for search in (id, id[-8:], "client:local text:xylophone"):
            await page.get_by_label("search").fill(search)
            await page.keyboard.press("Enter")
            await expect(page.locator(ROWS)).to_have_count(1)
            await expect(page.locator(ROWS)).to_contain_text(id[-8:])
        await page.get_by_label("search").fill("client:local >9000s")
        await page.keyboard.press("Enter")
        await expect(page.locator(".empty h2")).to_have_text("No request matches")


async def test_the_first_paint_of_a_list_takes_little_cpu_of_the_server(gateway: Running) -> None:
    origin = gateway.base_url.removesuffix("/v1")
    paths = ["/ui/requests", *(f"/ui/static/{name}" for name in load_files())]
    paths += ["/ui/api/session", "/ui/api/requests", "/ui/api/choices", "/ui/api/totals"]
    began = time.process_time()
    for path in paths:
        async with gateway.client.get(origin + path) as response:
            assert response.status == 200
            await response.read()
    # Everything that the browser asks for, with the client of this test in the same process.
    assert (time.process_time() - began) * 1000 < FIRST_PAINT_MS


async def test_filters_are_the_address(tabs: BrowserTabs, gateway: Running) -> None:
    async with tabs.open(gateway, "requests?status=failed") as page:
        await expect(page.locator(f"{ROWS}.failed").nth(49)).to_be_attached()
        await page.get_by_label("search").fill("client:alice")
        await page.keyboard.press("Enter")
        await expect(page.locator(f"{ROWS} .client", has_text="build-server")).to_have_count(0)
        await expect(page.locator(f"{ROWS} .client", has_text="alice").nth(49)).to_be_attached()
        assert page.url.endswith("/ui/requests?q=client%3Aalice&status=failed")
        await page.reload()
        await expect(page.get_by_label("search")).to_have_value("client:alice")
        await page.go_back()
        await expect(page.get_by_label("search")).to_have_value("")
        await page.get_by_role("link", name="Clear").click()
        await expect(page.locator(f"{ROWS} .pill.ok").first).to_be_visible()


async def test_what_is_typed_while_a_list_loads_stays_in_the_search(
    tabs: BrowserTabs, gateway: Running
) -> None:
    go_on = asyncio.Event()

    async def hold(route: Route) -> None:
        await go_on.wait()
        await route.continue_()

    async with tabs.open(gateway, "requests") as page:
        await page.route("**/ui/api/requests?q=client*alice*", hold)
        search = page.get_by_label("search")
        await search.fill("client:alice")
        await search.press("Enter")
        await search.fill("client:")
        go_on.set()
        await expect(page.locator(f"{ROWS} .client", has_text="build-server")).to_have_count(0)
        await page.keyboard.type("admin")
        await expect(search).to_have_value("client:admin")
        await page.keyboard.press("Enter")
        await expect(page.locator(f"{ROWS} .client", has_text="alice")).to_have_count(0)
        assert page.url.endswith("/ui/requests?q=client%3Aadmin")


async def end_at_once(route: Route) -> None:
    """Answer with live updates that end; the browser connects again."""
    policy = {"content-security-policy": "default-src 'none'"}
    await route.fulfill(content_type="text/event-stream", headers=policy, body="retry: 200\n\n")


async def test_what_is_typed_stays_when_the_list_is_loaded_again(
    tabs: BrowserTabs, gateway: Running
) -> None:
    connections: list[Route] = []
    typed = asyncio.Event()

    async def connect(route: Route) -> None:
        connections.append(route)
        if len(connections) == 1:
            await end_at_once(route)
            return
        await typed.wait()
        await route.continue_()

    async with tabs.open(gateway, "now") as page:
        await page.route("**/ui/api/live?view=requests", connect)
        await page.get_by_role("link", name="Requests", exact=True).click()
        search = page.get_by_label("search")
        await search.fill("client:al")
        drawn = await page.locator(".list").element_handle()
        assert drawn is not None
        typed.set()
        await page.wait_for_function("(list) => !list.isConnected", arg=drawn)
        await page.keyboard.type("ice")
        await expect(search).to_have_value("client:alice")
        assert page.url.endswith("/ui/requests")


async def test_the_search_works_below_an_address_with_a_slash_at_its_end(
    tabs: BrowserTabs, gateway: Running
) -> None:
    missing = ("Failed to load resource",)  # the status of such an address is 404
    async with tabs.open(gateway, "requests/", allowed=missing) as page:
        search = page.get_by_label("search")
        await search.fill("client:alice")
        await search.press("Enter")
        await expect(page.locator(f"{ROWS} .client", has_text="build-server")).to_have_count(0)
        assert page.url.endswith("/ui/requests?q=client%3Aalice")


async def test_what_is_typed_does_not_keep_the_list_from_being_left(
    tabs: BrowserTabs, gateway: Running
) -> None:
    async with tabs.open(gateway, "sessions") as page:
        await page.get_by_role("link", name="Requests", exact=True).click()
        await page.get_by_label("search").fill("client:alice")
        await page.go_back()
        await expect(page.locator("h1")).to_have_text("Sessions")
        assert page.url.endswith("/ui/sessions")


async def test_escape_leaves_the_search_for_the_list(tabs: BrowserTabs, gateway: Running) -> None:
    async with tabs.open(gateway, "requests?q=client:alice") as page:
        await page.keyboard.press("/")
        await page.keyboard.type(" >9s")
        await page.keyboard.press("Escape")
        await expect(page.get_by_label("search")).to_have_value("client:alice")
        await page.keyboard.press("j")
        assert await focused_row(page) == 0
        assert page.url.endswith("/ui/requests?q=client:alice")


async def test_live_rows_obey_the_filter(tabs: BrowserTabs, gateway: Running) -> None:
    own = "obeys-the-filter"  # no other test makes requests of this session
    async with tabs.open(gateway, f"requests?session={own}&model=fast") as page:
        await expect(page.locator(".empty h2")).to_have_text("No request matches")
        await expect(page.locator(".live")).to_have_text("live")
        other = await make_traced_request(gateway, {"model": "smart", "input": "Hello"}, own)
        id = await make_traced_request(gateway, {"model": "fast", "input": "Hello"}, own)
        row = page.locator(ROWS, has_text=id[-8:])
        await expect(row.locator(".pill")).to_have_text("completed")
        await expect(page.locator(ROWS)).to_have_count(1)
        await expect(page.locator("main")).not_to_contain_text(other[-8:])


async def test_a_row_that_arrives_leaves_the_others_alone(
    tabs: BrowserTabs, gateway: Running
) -> None:
    async with tabs.open(gateway, "requests?client=local") as page:
        await expect(page.locator(".live")).to_have_text("live")
        before = await make_traced_request(gateway, {"model": "fast", "input": "Hello"})
        row = page.locator(ROWS, has_text=before[-8:])
        await expect(row.locator(".pill")).to_have_text("completed")
        await page.reload()
        await row.locator(".copy").focus()
        id = await make_traced_request(gateway, {"model": "fast", "input": "Hello"})
        await expect(page.locator(ROWS).first).to_contain_text(id[-8:])
        await expect(page.locator(f"{ROWS}.fresh")).to_have_count(1)
        await expect(row.locator(".copy")).to_be_focused()


async def make_listed_request(gateway: Running, text: str = "Hello", model: str = "fast") -> str:
    """Make a request, and return its id when the trace has its end."""
    id = await make_traced_request(gateway, {"model": model, "input": text})
    url = f"{gateway.base_url.removesuffix('/v1')}/ui/api/requests/{id}"
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while True:
            async with gateway.client.get(url) as response:
                if "finish" in await response.json():
                    return id


async def test_what_happens_before_the_list_is_live_is_in_it(
    tabs: BrowserTabs, gateway: Running
) -> None:
    ids: list[str] = []

    async def connect_late(route: Route) -> None:
        ids.append(await make_listed_request(gateway))
        await route.continue_()

    async with tabs.open(gateway, "now") as page:
        await page.route("**/ui/api/live?view=requests", connect_late)
        await page.get_by_role("link", name="Requests", exact=True).click()
        await expect(page.locator(".live")).to_have_text("live")
        await expect(page.locator(ROWS, has_text=ids[0][-8:])).to_have_count(1)


async def test_what_happens_while_the_connection_is_lost_is_in_the_list(
    tabs: BrowserTabs, gateway: Running
) -> None:
    ids: list[str] = []
    connections: list[Route] = []
    made = asyncio.Event()

    async def connect(route: Route) -> None:
        connections.append(route)
        if len(connections) == 1:
            await end_at_once(route)
            return
        if len(connections) == 2:
            ids.append(await make_listed_request(gateway))
            made.set()
        await route.continue_()

    async with tabs.open(gateway, "now") as page:
        await page.route("**/ui/api/live?view=requests", connect)
        await page.get_by_role("link", name="Requests", exact=True).click()
        await expect(page.locator(ROWS).first).to_be_visible()
        async with asyncio.timeout(PATIENCE_MS / 1000):
            await made.wait()
        await expect(page.locator(ROWS, has_text=ids[0][-8:])).to_have_count(1)


async def test_a_running_request_becomes_a_finished_one(
    tabs: BrowserTabs, gateway: Running, answers: HeldAnswers
) -> None:
    async with tabs.open(gateway, "requests?model=smart&since=15m&client=local") as page:
        await expect(page.locator(".live")).to_have_text("live")
        first = page.locator(ROWS).first
        with answers.held():
            asking = asyncio.ensure_future(
                make_traced_request(gateway, {"model": "smart", "input": "wait"})
            )
            await expect(first.locator(".pill")).to_have_text("running")
        id = await asking
        await expect(first).to_contain_text(id[-8:])
        await expect(first.locator(".pill")).to_have_text("completed")


async def test_a_request_that_has_ended_leaves_the_list_of_running_ones(
    tabs: BrowserTabs, gateway: Running, answers: HeldAnswers
) -> None:
    async with tabs.open(gateway, "requests?status=running&client=local") as page:
        await expect(page.locator(".live")).to_have_text("live")
        with answers.held():
            asking = asyncio.ensure_future(
                make_traced_request(gateway, {"model": "fast", "input": "wait"})
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
        await expect(page.get_by_label("search")).to_be_focused()
        await page.get_by_label("search").blur()
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


async def row_id(page: Page, at: int) -> str:
    title = await page.locator(ROWS).nth(at).locator(".copy").get_attribute("title")
    return (title or "").removeprefix("Copy ")


async def test_a_click_opens_a_panel_beside_the_list_where_there_is_room(
    tabs: BrowserTabs, gateway: Running
) -> None:
    async with tabs.open(gateway, "requests?status=failed", width=1400) as page:
        first, second = await row_id(page, 0), await row_id(page, 1)
        panel = page.get_by_role("complementary", name="Request")
        await expect(panel).to_be_hidden()
        await page.locator(ROWS).first.locator(".grow").click()
        await expect(panel.get_by_label("Verdict")).to_be_visible()
        await expect(panel.get_by_role("link", name="Open the request")).to_be_visible()
        assert page.url.endswith(f"requests?status=failed&open={first}")
        list_box = await page.locator(".list").bounding_box()
        panel_box = await panel.bounding_box()
        assert list_box is not None
        assert panel_box is not None
        assert panel_box["x"] >= list_box["x"] + list_box["width"]
        await page.keyboard.press("j")
        await expect(page.locator(f"{ROWS}.chosen .copy")).to_have_attribute(
            "title", f"Copy {second}"
        )
        await expect(panel).to_contain_text(second)
        await page.reload()
        await expect(panel).to_contain_text(second)
        await panel.get_by_role("link", name="Open the request").click()
        await expect(page.locator(".crumbs")).to_contain_text(second)
        await page.keyboard.press("Escape")
        await expect(panel).to_contain_text(second)
        await page.keyboard.press("Escape")
        await expect(panel).to_be_hidden()
        assert page.url.endswith("requests?status=failed")


async def test_on_a_narrow_screen_the_panel_stays_away(tabs: BrowserTabs, gateway: Running) -> None:
    async with tabs.open(gateway, "requests", width=1000) as page:
        id = await row_id(page, 0)
        await page.goto(f"{page.url}?open={id}")
        await expect(page.locator(ROWS).first).to_be_visible()
        await expect(page.locator(".preview")).to_be_hidden()
