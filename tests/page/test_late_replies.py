"""Replies that come late: what is older never replaces what is newer."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from playwright.async_api import Page, Route, expect

from tests.support.gateways import Running
from tests.support.pages.sample_gateway import HeldAnswers, sample_gateway
from tests.support.pages.samples import seed_trace
from tests.support.pages.watched import BrowserTabs, make_traced_request

ROWS = ".list tbody tr"
POLICY = {"content-security-policy": "default-src 'none'"}


class LateReply:
    """Handles the first request of a route: the gateway answers it at once, and the page gets that
    answer when the test says so."""

    def __init__(self) -> None:
        self.answered = asyncio.Event()
        self._go_on = asyncio.Event()

    async def __call__(self, route: Route) -> None:
        if self.answered.is_set():
            await route.continue_()
            return
        response = await route.fetch()
        self.answered.set()
        await self._go_on.wait()
        await route.fulfill(response=response)

    async def deliver(self, page: Page) -> None:
        """Give the answer to the page, and wait until it has read it."""
        async with page.expect_event("requestfinished"):
            self._go_on.set()
        await page.evaluate("new Promise(requestAnimationFrame)")


async def watch_updates(page: Page, word: str) -> asyncio.Event:
    """Return an event that is set when the page gets a live update with a word in it."""
    found = asyncio.Event()

    def read(message: dict[str, Any]) -> None:
        if word in message["data"]:
            found.set()

    session = await page.context.new_cdp_session(page)
    session.on("Network.eventSourceMessageReceived", read)
    await session.send("Network.enable")
    return found


async def test_a_row_that_changes_while_older_ones_are_loaded_stays_as_it_is_now(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    answers, older = HeldAnswers(), LateReply()
    async with (
        sample_gateway(tmp_path, script=answers) as gateway,
        tabs.open(gateway, "requests?status=running") as page,
    ):
        with answers.held():
            waiting = {"model": "fast", "input": "wait"}
            asking = asyncio.ensure_future(make_traced_request(gateway, waiting))
            await expect(page.locator(ROWS)).to_have_count(1)
            await add_newer_requests(gateway, 150)
            changed = await watch_updates(page, '"duration_ms"')
            await page.goto(page.url.partition("?")[0])
            await expect(page.locator(ROWS).nth(99)).to_be_attached()
            await page.route("**/ui/api/requests?*before=*", older)
            await page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
            await older.answered.wait()
        id = await asking
        await changed.wait()
        await older.deliver(page)
        last = await make_traced_request(gateway, {"model": "fast", "input": "Hello"})
        await expect(page.locator(ROWS).first).to_contain_text(last[-8:])
        row = page.locator(ROWS, has_text=id[-8:])
        await expect(row.locator(".pill")).to_have_text("completed")


async def add_newer_requests(gateway: Running, count: int) -> None:
    store = gateway.engine.services.tracer.store
    assert store is not None
    await asyncio.to_thread(seed_trace, store.path, int(time.time() * 1000), count)


def make_row(seq: int, status: str) -> dict[str, Any]:
    id = f"req_{seq:032x}"
    return {"seq": seq, "request_id": id, "received_at_ms": 0, "model": "fast", "status": status}


async def test_when_all_rows_that_are_shown_are_gone_older_ones_are_loaded(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    async def list_page(route: Route) -> None:
        is_second = "before=" in route.request.url
        rows = [make_row(1 if is_second else 2, "running")]
        page = {"rows": rows, "next": None if is_second else 2, "traced": True}
        await route.fulfill(json=page, headers=POLICY)

    async def tell_that_it_is_gone(route: Route) -> None:
        event = json.dumps({"type": "rows", "rows": [], "gone": [2]})
        body = f"retry: 3600000\nevent: rows\ndata: {event}\n\n"
        await route.fulfill(content_type="text/event-stream", headers=POLICY, body=body)

    async with sample_gateway(tmp_path) as gateway, tabs.open(gateway, "sessions") as page:
        await page.route("**/ui/api/requests?*", list_page)
        await page.route("**/ui/api/live?*view=requests*", tell_that_it_is_gone)
        await page.goto(page.url.replace("sessions", "requests?status=running"))
        await expect(page.locator(ROWS)).to_have_attribute("data-seq", "1")
