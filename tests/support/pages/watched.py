"""Tabs of a browser that watch what a page does: errors, violations of its policy, other hosts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, ConsoleMessage, Page, Response, expect

from tests.support.gateways import Running
from tests.support.pages.browser import open_browser

PATIENCE_MS = 60_000
"""How long to wait for what a page shows within milliseconds, unless the machine is busy."""
expect.set_options(timeout=PATIENCE_MS)
WIDTHS = (390, 1000, 1400)
THEMES = ("light", "dark")


@dataclass
class BrowserTabs:
    """Opens tabs; each fails the test if its page did something wrong."""

    browser: Browser

    @asynccontextmanager
    async def open(
        self,
        gateway: Running,
        path: str,
        *,
        width: int = 1280,
        theme: Any = "light",
        allowed: tuple[str, ...] = (),
    ) -> AsyncIterator[Page]:
        """Open a path below `/ui`; `allowed` are beginnings of errors that the test provokes."""
        base = gateway.base_url.removesuffix("/v1")
        context = await self.browser.new_context(
            color_scheme=theme,
            viewport={"width": width, "height": 900},
            permissions=["clipboard-read", "clipboard-write"],
            reduced_motion="reduce",
        )
        context.set_default_timeout(PATIENCE_MS)
        problems: list[str] = []
        page = await context.new_page()
        page.on("pageerror", lambda error: problems.append(f"exception: {error}"))
        page.on("console", lambda line: problems.extend(check_line(line)))
        page.on("response", lambda response: problems.extend(check_response(response, base)))
        try:
            await page.goto(f"{base}/ui/{path}")
            await page.locator("h1").wait_for()
            yield page
        finally:
            await context.close()
        unexpected = [each for each in problems if not each.startswith(allowed or ("\0",))]
        assert not unexpected, unexpected


def check_line(line: ConsoleMessage) -> list[str]:
    return [line.text] if line.type == "error" else []


def check_response(response: Response, base: str) -> list[str]:
    """What is wrong with a response: another host, or no policy."""
    if response.url.startswith("blob:"):
        return []
    if urlsplit(response.url).netloc != urlsplit(base).netloc:
        return [f"loaded from elsewhere: {response.url}"]
    policy = response.headers.get("content-security-policy", "")
    if "default-src 'none'" not in policy or "unsafe" in policy:
        return [f"no strict policy: {response.url}"]
    return []


@asynccontextmanager
async def open_tabs() -> AsyncIterator[BrowserTabs]:
    async with open_browser() as browser:
        yield BrowserTabs(browser)


def link_with_token(gateway: Running, path: str) -> str:
    """The path of a view in the link that `antiphon serve` shows: with the token for changes."""
    return f"{path}#token={gateway.gateway.process.page.token}"


async def overflow(page: Page) -> int:
    """How many pixels the page is wider than the window."""
    found: int = await page.evaluate("document.scrollingElement.scrollWidth - window.innerWidth")
    return found


async def make_traced_request(gateway: Running, body: Any, session: str = "") -> str:
    """Make a streamed request, and return its id."""
    url = f"{gateway.base_url}/responses"
    headers = {"session-id": session} if session else {}
    sent = {**body, "stream": True}
    async with gateway.client.post(url, json=sent, headers=headers) as response:
        await response.read()
        return response.headers["x-request-id"]
