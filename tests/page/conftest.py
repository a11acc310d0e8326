"""The page in Chromium: only with ANTIPHON_PAGE in the environment, as `make page` sets it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from tests.support.pages.watched import BrowserTabs, open_tabs

collect_ignore_glob = [] if os.environ.get("ANTIPHON_PAGE") else ["*"]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def tabs() -> AsyncIterator[BrowserTabs]:
    """One browser for all tests of a module."""
    async with open_tabs() as tabs:
        yield tabs
