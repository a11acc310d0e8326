"""The snippets that connect a client, as the page shows them: curl and the Python SDK run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Page

from tests.support.gateways import Running
from tests.support.pages.sample_gateway import sample_gateway
from tests.support.pages.watched import BrowserTabs


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with sample_gateway(tmp_path_factory.mktemp("connect")) as gateway:
        yield gateway


async def read_snippet(page: Page, name: str) -> str:
    card = page.locator(".card", has_text="Connect a client")
    await card.get_by_role("tab", name=name, exact=True).click()
    return await card.locator("pre").inner_text()


async def run(*command: str, **more: Any) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, **more
    )
    printed, problem = await process.communicate()
    assert process.returncode == 0, problem.decode()
    return printed.decode()


async def test_the_snippets_of_curl_and_python_get_a_response(
    tabs: BrowserTabs, gateway: Running
) -> None:
    async with tabs.open(gateway, "now") as page:
        curl = await read_snippet(page, "curl")
        python = await read_snippet(page, "Python")
    assert '"status":"completed"' in await run("sh", "-c", curl)
    assert await run(sys.executable, "-c", python) != "\n"


async def test_the_snippets_of_agents_name_the_gateway_and_its_model(
    tabs: BrowserTabs, gateway: Running
) -> None:
    async with tabs.open(gateway, "now") as page:
        codex = await read_snippet(page, "Codex")
        claude = await read_snippet(page, "Claude Code")
        variables = await read_snippet(page, "Environment")
    model = codex.split('model = "')[1].partition('"')[0]
    assert f'base_url = "{gateway.base_url}"' in codex
    assert f"ANTHROPIC_BASE_URL={gateway.base_url.removesuffix('/v1')}\n" in claude
    assert claude.rstrip().endswith(f"claude --model {model}")
    assert f"OPENAI_BASE_URL={gateway.base_url}\n" in variables
