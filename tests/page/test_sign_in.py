"""The admin key: nothing without it, a session with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Route, expect

from tests.support.pages.sample_gateway import sample_gateway
from tests.support.pages.watched import WIDTHS, BrowserTabs

REFUSED = ("Failed to load resource: the server responded with a status of 401",)


async def test_the_page_opens_with_the_admin_key(tabs: BrowserTabs, tmp_path: Path) -> None:
    async with (
        sample_gateway(tmp_path, server='admin_key = "opens the page"') as gateway,
        tabs.open(gateway, "requests", allowed=REFUSED) as page,
    ):
        key = page.get_by_label("Admin key")
        await expect(key).to_be_focused()
        await expect(page.locator("nav")).to_have_count(0)
        await key.fill("sk-deepseek")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("Incorrect admin key")
        await key.fill("opens the page")
        await page.keyboard.press("Enter")
        await expect(page.locator("h1")).to_have_text("Requests")
        assert await page.evaluate("document.cookie") == ""
        await page.reload()
        await expect(page.locator("h1")).to_have_text("Requests")
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_label("Admin key")).to_be_visible()


@pytest.mark.parametrize("width", WIDTHS)
async def test_the_key_is_asked_for_in_the_middle_of_the_screen(
    tabs: BrowserTabs, tmp_path: Path, width: int
) -> None:
    async with (
        sample_gateway(tmp_path, server='admin_key = "opens the page"') as gateway,
        tabs.open(gateway, "now", allowed=REFUSED, width=width) as page,
    ):
        box = await page.locator(".sign-in").bounding_box()
        assert box is not None
        assert abs(box["y"] + box["height"] / 2 - 450) < 60
        assert abs(box["x"] + box["width"] / 2 - width / 2) < 20


async def test_a_view_that_is_live_asks_for_the_key_when_its_session_has_ended(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    async def end_session(route: Route) -> None:
        """End the connection and the session; the browser connects again."""
        await route.request.frame.page.context.clear_cookies()
        policy = {"content-security-policy": "default-src 'none'"}
        body = "retry: 200\n\n"
        await route.fulfill(content_type="text/event-stream", headers=policy, body=body)

    async with (
        sample_gateway(tmp_path, server='admin_key = "opens the page"') as gateway,
        tabs.open(gateway, "now", allowed=REFUSED) as page,
    ):
        await page.route("**/ui/api/live?view=now", end_session, times=1)
        await page.get_by_label("Admin key").fill("opens the page")
        await page.keyboard.press("Enter")
        await expect(page.locator("h1")).to_have_text("Now")
        await expect(page.get_by_label("Admin key")).to_be_visible()
