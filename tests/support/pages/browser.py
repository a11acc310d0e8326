"""Chromium for tests of the page: Debian's package, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, async_playwright

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
