"""A run of the real Codex as one session of the page, read as a conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path

from playwright.async_api import expect

from tests.page.test_sessions import wait_for_end
from tests.support.clients.codex import Codex
from tests.support.clients.gateway import MODEL, client_gateway
from tests.support.clients.scripted_model import Call, Reply
from tests.support.gateways import Running
from tests.support.pages.watched import BrowserTabs, overflow

SCRIPT = [
    Reply(thought="I look.", calls=[Call("exec_command", {"cmd": "echo poems.txt"})]),
    Reply("There is one file.", thought="One line."),
    Reply("It has poems."),
]


async def keep_payloads(gateway: Running) -> None:
    store = gateway.engine.services.tracer.store
    assert store is not None
    await asyncio.to_thread(store.window.set, 2**62)


async def test_a_run_of_codex_is_one_session_that_reads_as_a_conversation(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    async with client_gateway(tmp_path, "chat", SCRIPT) as setup:
        gateway = setup.gateway
        await keep_payloads(gateway)
        codex = await Codex.at(setup)
        assert (await codex.exec("Which files are there?")).messages == ["There is one file."]
        assert (await codex.exec("resume", "--last", "What is in it?")).status == 0
        for entry in gateway.log:
            if entry.event == "response.finished":
                await wait_for_end(gateway, entry.facts["request_id"])
        async with tabs.open(gateway, "sessions", width=1400) as page:
            row = page.locator(".list tbody tr")
            await expect(row).to_have_count(1)
            await expect(row.locator("[data-label=Turns]")).to_have_text("3")
            await expect(row.locator(".grow")).to_contain_text(MODEL)
            await row.locator(".grow").click()
            turns = page.locator(".session-turn")
            await expect(turns).to_have_count(3)
            first, second, third = turns.nth(0), turns.nth(1), turns.nth(2)
            folded = first.locator(".turn.developer details.fold").first
            await expect(folded.locator("summary")).to_contain_text("characters)")
            await expect(folded.locator(".prose")).not_to_be_visible()
            context = first.locator(".turn.user").first.locator("summary")
            await expect(context).to_contain_text("<environment_context>")
            await expect(first.locator(".turn.user").last).to_contain_text("Which files are there?")
            await expect(first.locator(".call pre")).to_contain_text("echo poems.txt")
            await expect(first.locator(".call .pill")).to_have_text("fits the schema")
            await expect(first.locator(".reasoning")).to_contain_text("I look.")
            await expect(second.locator(".turn.user")).to_have_count(0)  # is not repeated
            await expect(second.locator(".turn.tool")).to_contain_text("poems.txt")
            await expect(second.locator(".turn.tool")).to_contain_text("result of exec_command")
            await expect(second.locator(".prose.text")).to_have_text("There is one file.")
            await expect(third.locator(".turn.user")).to_contain_text("What is in it?")
            await expect(third.locator(".turn.assistant")).to_contain_text("It has poems.")
            assert await overflow(page) <= 0
