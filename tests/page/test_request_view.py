"""One request: the waterfall of its attempts, four lanes on one time axis, and what can be done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.support.gateways import Running
from tests.support.pages.sample_gateway import ANSWER, BUSY, REQUEST, sample_gateway
from tests.support.pages.watched import BrowserTabs, make_traced_request

# Counts moments that a replay has not reached, whether somebody looks in time or not.
COUNT_FUTURE = """() => {
  window.future = 0;
  new MutationObserver(() => {
    window.future = Math.max(window.future, document.querySelectorAll(".moment.future").length);
  }).observe(document.body, { subtree: true, attributes: true, attributeFilter: ["class"] });
}"""


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with sample_gateway(tmp_path_factory.mktemp("one")) as gateway:
        yield gateway


async def test_the_x_ray_shows_attempts_and_four_lanes(tabs: BrowserTabs, gateway: Running) -> None:
    id = await make_traced_request(gateway, REQUEST)
    async with tabs.open(gateway, f"requests/{id}") as page:
        await expect(page.locator(".chart .attempt.failed")).to_have_count(3)
        await expect(page.locator(".chart .attempt .flow")).to_have_count(1)
        await expect(page.locator(".chart .lane")).to_have_count(4)
        await expect(page.locator(".chart .lane.raw .tick").nth(5)).to_be_visible()
        attempts = page.get_by_role("table", name="Attempts")
        await expect(attempts.locator("tbody tr")).to_have_count(4)
        await expect(attempts.locator("tbody tr").first).to_contain_text(BUSY)
        await expect(page.locator(".facts")).to_contain_text("deepseek/deepseek-v4-pro")
        await expect(page.locator(".entry.request")).to_have_count(1)
        await expect(page.locator(".entry.outbound")).to_have_count(4)
        events = page.locator(".entry.transformed .title")
        await expect(events.first).to_have_text("response.created")
        await expect(events.last).to_have_text("response.completed")


async def test_diagnostics_are_pinned_to_their_fields(tabs: BrowserTabs, gateway: Running) -> None:
    id = await make_traced_request(gateway, REQUEST)
    async with tabs.open(gateway, f"requests/{id}") as page:
        line = page.locator(".entry.request .line", has_text="presence_penalty")
        await expect(line.locator(".pin")).to_contain_text("is not supported by")
        await expect(line.locator(".pin code")).to_have_text("param.ignored")


async def test_an_entry_unfolds_by_mouse_and_from_the_axis(
    tabs: BrowserTabs, gateway: Running
) -> None:
    id = await make_traced_request(gateway, REQUEST)
    async with tabs.open(gateway, f"requests/{id}") as page:
        last = page.locator(".entry.transformed").last
        await last.locator("summary").first.click()
        await expect(last.locator(".json")).to_contain_text("total_tokens")
        await page.locator(".lane.raw .hit").click()
        await expect(page.locator(".entry.raw[open]")).to_have_count(1)
        await expect(page.locator(".entry.raw[open] summary").first).to_be_focused()


async def test_a_replay_hides_what_comes_later_and_ends(
    tabs: BrowserTabs, gateway: Running
) -> None:
    id = await make_traced_request(gateway, REQUEST)
    async with tabs.open(gateway, f"requests/{id}") as page:
        await page.evaluate(COUNT_FUTURE)
        button = page.get_by_role("button", name="Replay", exact=True)
        await button.click()
        await expect(button).to_be_enabled()
        await expect(page.locator(".moment.future")).to_have_count(0)
        assert await page.evaluate("window.future") > 0


async def test_a_request_is_copied_and_sent_again(tabs: BrowserTabs, gateway: Running) -> None:
    body = {**REQUEST, "input": "Isn't it?", "metadata": {"team": "blue"}}
    id = await make_traced_request(gateway, body)
    async with tabs.open(gateway, f"requests/{id}") as page:
        await page.get_by_role("button", name="Copy as curl").click()
        await expect(page.locator("#toast")).to_have_text("Copied")
        curl = await page.evaluate("navigator.clipboard.readText()")
        assert f"curl {gateway.base_url}/responses" in curl
        assert r"Isn'\''t it?" in curl
        await page.get_by_role("link", name="Send again…").click()
        await expect(page.get_by_label("Input", exact=True)).to_have_value("Isn't it?")
        await expect(page.get_by_label("Instructions")).to_have_value("Answer in one sentence.")
        await page.get_by_role("combobox", name="Model").fill("fast")
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator(".answer .output")).to_contain_text(ANSWER)
        await page.get_by_role("link", name="X-ray").click()
        await expect(page.locator("h1")).to_contain_text("fast")
        await expect(page.locator("header.head")).to_contain_text("client admin")
        sent = page.locator(".entry.request")
        for kept in ("metadata", "blue", "presence_penalty", "verbosity"):
            await expect(sent).to_contain_text(kept)


async def test_a_request_of_a_thread_is_sent_again_without_it(
    tabs: BrowserTabs, gateway: Running
) -> None:
    body = {**REQUEST, "model": "fast", "store": True}
    _, _, first = await gateway.post(body)
    id = await make_traced_request(gateway, {**body, "previous_response_id": first["id"]})
    async with tabs.open(gateway, f"playground?from={id}") as page:
        await expect(page.locator(".banner")).to_contain_text("without previous_response_id")
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator(".answer .pill")).to_have_text("completed")


async def test_facts_name_the_software_and_the_tokens(tabs: BrowserTabs, gateway: Running) -> None:
    id = await make_traced_request(gateway, {**REQUEST, "model": "fast"})
    async with tabs.open(gateway, f"requests/{id}") as page:
        facts = page.locator("dl.facts")
        await expect(facts).to_contain_text("Client softwarePython/")
        await expect(facts).to_contain_text("812 (79 % cached)")
        await expect(facts).to_contain_text("First eventafter ")
        await expect(facts).to_contain_text("Costunknown")


async def test_without_payloads_the_page_says_how_to_keep_them(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    async with sample_gateway(tmp_path, payloads=False) as gateway:
        id = await make_traced_request(gateway, REQUEST)
        async with tabs.open(gateway, f"requests/{id}") as page:
            await expect(page.locator(".empty")).to_contain_text("payloads = true")
            await expect(page.locator(".chart .attempt")).to_have_count(4)
            await expect(page.locator(".chart .lane")).to_have_count(0)
            diagnostics = page.get_by_role("table", name="Diagnostics")
            await expect(diagnostics).to_contain_text("presence_penalty")
            await expect(page.locator("main")).not_to_contain_text("What is a canon")


async def test_a_rejected_request_says_why(tabs: BrowserTabs, gateway: Running) -> None:
    _, headers, _ = await gateway.post({"model": "fast", "input": "Hello", "temperature": 9})
    async with tabs.open(gateway, f"requests/{headers['x-request-id']}") as page:
        await expect(page.locator(".failure")).to_contain_text("temperature")
        await expect(page.locator("main")).to_contain_text("No provider was asked.")
