"""Chromium for tests of the page: Debian's package, driven by Playwright."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

CHROMIUM = "chromium"


def find_chromium() -> str:
    found = shutil.which(CHROMIUM)
    if found is None:
        raise RuntimeError("chromium is not installed: run `make page`, which installs it")
    return found


@asynccontextmanager
async def open_browser(**options: Any) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox"], **options
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def measured_work(browser: Browser, page: Page) -> AsyncIterator[dict[str, float]]:
    """Trace a page; after the block, there are the milliseconds of the longest work of each kind
    (functions, microtasks, layout, …) on its main thread. They are CPU time: other processes do
    not make them longer."""
    found: dict[str, float] = {}
    await browser.start_tracing(page=page, categories=["devtools.timeline", "v8.execute"])
    try:
        yield found
    finally:
        found |= read_work(json.loads(await browser.stop_tracing())["traceEvents"])


def read_work(events: list[dict[str, Any]]) -> dict[str, float]:
    threads = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    longest: dict[str, float] = {}
    for event in events:
        if "tdur" in event and (event["pid"], event["tid"]) in threads:
            name = event["name"]
            longest[name] = max(longest.get(name, 0), event["tdur"] / 1000)
    return longest
