"""Replies that come late: what is older never replaces what is newer."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from playwright.async_api import Page, Request, Route, expect

from antiphon.config import Config, load_config
from tests.support.gateways import Running, running
from tests.support.pages.api import own_files
from tests.support.pages.sample_gateway import HeldAnswers, sample_gateway
from tests.support.pages.samples import seed_trace
from tests.support.pages.watched import BrowserTabs, link_with_token, make_traced_request

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


async def open_file(path: Path) -> Config:
    text = f'[server]\nport = 0\n[store]\nurl = "sqlite:///{path.parent}/turns.db"\n'
    await asyncio.to_thread(path.write_text, text)
    return load_config(path, {})


async def test_a_new_key_stays_on_the_screen_when_an_older_list_of_keys_arrives(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    path = tmp_path / "antiphon.toml"
    config, after_revoking = await open_file(path), LateReply()
    async with (
        running(
            config, load=lambda: load_config(path, {}), environment=own_files(tmp_path)
        ) as gateway,
        tabs.open(gateway, link_with_token(gateway, "configuration")) as page,
    ):
        name = page.get_by_role("form", name="New client key").get_by_label("Name")
        table = page.get_by_role("table", name="Client keys")
        await name.fill("alice")
        await name.press("Enter")
        await table.get_by_role("button", name="Revoke").click()
        await page.route("**/ui/api/keys", after_revoking)
        await table.get_by_role("button", name="Revoke alice now?").click()
        await after_revoking.answered.wait()
        await expect(page.locator(".new-key")).to_have_count(0)
        await name.fill("bob")
        await name.press("Enter")
        await expect(table.locator("tbody tr")).to_contain_text("bob")
        await name.fill("carol")
        await after_revoking.deliver(page)
        await expect(table.locator("tbody tr")).to_contain_text("bob")
        await expect(page.locator(".new-key")).to_contain_text("bob: copy the key now")
        await expect(name).to_have_value("carol")
        await expect(name).to_be_focused()


async def test_the_outcome_of_a_check_does_not_replace_that_of_a_later_reload(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    path = tmp_path / "antiphon.toml"
    config, check = await open_file(path), LateReply()
    async with (
        running(
            config, load=lambda: load_config(path, {}), environment=own_files(tmp_path)
        ) as gateway,
        tabs.open(gateway, link_with_token(gateway, "configuration")) as page,
    ):
        await page.route("**/ui/api/config/check", check)
        await page.get_by_role("button", name="Check the file").click()
        await check.answered.wait()
        await page.get_by_role("button", name="Reload the file").click()
        await expect(page.locator(".banner")).to_contain_text("Reloaded")
        await check.deliver(page)
        await expect(page.locator(".banner")).to_contain_text("Reloaded")


async def test_settings_that_were_read_before_a_reload_do_not_replace_later_ones(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    path = tmp_path / "antiphon.toml"
    config, before = await open_file(path), LateReply()
    text = await asyncio.to_thread(path.read_text)
    async with (
        running(
            config, load=lambda: load_config(path, {}), environment=own_files(tmp_path)
        ) as gateway,
        tabs.open(gateway, link_with_token(gateway, "configuration")) as page,
    ):
        await page.route("**/ui/api/config", before)
        reload = page.get_by_role("button", name="Reload the file")
        await reload.click()
        await before.answered.wait()
        await asyncio.to_thread(path.write_text, f'{text}[models]\nnewest = "echo/echo"\n')
        await reload.click()
        await expect(page.get_by_role("table", name="models")).to_contain_text("newest")
        await before.deliver(page)
        await expect(page.get_by_role("table", name="models")).to_contain_text("newest")


async def test_the_view_that_is_being_left_does_not_change_the_next_address(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    sessions = LateReply()
    async with sample_gateway(tmp_path) as gateway, tabs.open(gateway, "models") as page:
        await page.route("**/ui/api/sessions*", sessions)
        await page.get_by_role("link", name="Sessions", exact=True).focus()
        await page.keyboard.press("Enter")
        await page.get_by_label("Find a model").fill("fast")
        await sessions.deliver(page)
        await expect(page.locator("h1")).to_have_text("Sessions")
        assert page.url.endswith("/ui/sessions")


async def test_the_playground_sends_one_request_at_a_time(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    answers = HeldAnswers()
    sent: list[Request] = []

    def count(request: Request) -> None:
        if request.url.endswith("/ui/api/responses"):
            sent.append(request)

    async with (
        sample_gateway(tmp_path, script=answers) as gateway,
        tabs.open(gateway, "playground?model=fast") as page,
    ):
        page.on("request", count)
        await page.get_by_label("Input", exact=True).fill("wait")
        with answers.held():
            await page.keyboard.press("Control+Enter")
            await expect(page.get_by_role("button", name="Stop")).to_be_visible()
            await page.keyboard.press("Control+Enter")
            await expect(page.locator(".answer .pill")).to_have_text("running")
        await expect(page.locator(".answer .pill")).to_have_text("completed")
        await expect(page.get_by_role("button", name="Send")).to_be_enabled()
        assert len(sent) == 1
