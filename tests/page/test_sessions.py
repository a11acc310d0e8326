"""Sessions: the requests of one thread as one row, and as a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import expect

from tests.support.gateways import Running
from tests.support.pages.sample_gateway import TOOL, act, sample_gateway
from tests.support.pages.watched import PATIENCE_MS, BrowserTabs

MODEL = "deepseek/deepseek-v4-pro"
HEADERS = {"session-id": "0199-codex"}
USER = {"role": "user", "content": "Please call the tool"}
CALL = {
    "type": "function_call",
    "call_id": "call_1",
    "name": "exec_command",
    "arguments": '{"cmd": "ls -la"}',
}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "README.md"}


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with sample_gateway(tmp_path_factory.mktemp("sessions"), script=act) as gateway:
        for items in ([USER], [USER, CALL, RESULT]):
            body: Any = {"model": MODEL, "input": items, "tools": [TOOL], "stream": True}
            url = f"{gateway.base_url}/responses"
            async with gateway.client.post(url, json=body, headers=HEADERS) as response:
                await response.read()
                await wait_for_end(gateway, response.headers["x-request-id"])
        yield gateway


async def wait_for_end(gateway: Running, id: str) -> None:
    """Wait until the trace has the end of a request: the list of sessions is not live."""
    url = f"{gateway.base_url.removesuffix('/v1')}/ui/api/requests/{id}"
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while True:
            async with gateway.client.get(url) as response:
                if "finish" in await response.json():
                    return


async def test_a_session_is_one_row_that_reads_as_a_conversation(
    tabs: BrowserTabs, gateway: Running
) -> None:
    async with tabs.open(gateway, "sessions") as page:
        row = page.locator(".list tbody tr")
        await expect(row).to_contain_text("0199-codex")
        await expect(row.locator("[data-label=Turns]")).to_have_text("2")
        await expect(row.locator("[data-label=Tokens]")).to_have_text("1.7K → 94")
        await expect(row.locator("[data-label=Cached]")).to_have_text("37 %")
        await row.locator(".grow").click()
        turns = page.locator(".session-turn")
        await expect(turns).to_have_count(2)
        await expect(turns.first.locator(".turn.user")).to_have_text("userPlease call the tool")
        await expect(turns.first.locator(".call .pill")).to_have_text("fits the schema")
        await expect(turns.last.locator(".turn.user")).to_have_count(0)  # is not repeated
        await expect(turns.last.locator(".turn.tool")).to_contain_text("README.md")
        await expect(turns.last.locator(".prose.text")).to_contain_text("A canon is a melody")
        await page.get_by_role("link", name="Its requests as a list").click()
        await expect(page.get_by_label("search")).to_have_value("session:0199-codex")
        await expect(page.locator(".list tbody tr")).to_have_count(2)


async def test_a_request_leads_to_its_session(tabs: BrowserTabs, gateway: Running) -> None:
    async with tabs.open(gateway, "requests?session=0199-codex", width=1400) as page:
        await page.locator(".list .session a").first.click()
        await expect(page.locator(".crumbs")).to_contain_text("Sessions / 0199-codex")
        await page.locator(".session-turn header a").first.click()
        await expect(page.locator("header.head")).to_contain_text("session 0199-codex")
