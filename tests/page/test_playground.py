"""The playground: streamed answers, two models side by side, errors at their fields, stopping."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import expect

from tests.support.gateways import Running
from tests.support.pages.sample_gateway import ANSWER, THINKING, sample_gateway
from tests.support.pages.watched import BrowserTabs


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with sample_gateway(tmp_path_factory.mktemp("playground")) as gateway:
        yield gateway


async def test_an_answer_is_rendered_with_its_reasoning_and_events(
    tabs: BrowserTabs, gateway: Running
) -> None:
    async with tabs.open(gateway, "playground?model=fast") as page:
        await page.get_by_label("Input", exact=True).fill("What is a canon?")
        await page.keyboard.press("Control+Enter")
        await expect(page.locator(".answer .text")).to_contain_text(ANSWER)
        await expect(page.locator(".answer .reasoning")).to_contain_text(THINKING)
        await expect(page.locator(".answer .pill")).to_have_text("completed")
        await page.get_by_text("Raw events (").click()
        await expect(page.locator(".raw-events > details").first).to_contain_text(
            "response.created"
        )
        await expect(page.locator(".facts-line")).to_contain_text("812 tokens in, 64 out")


async def test_two_models_answer_side_by_side(tabs: BrowserTabs, gateway: Running) -> None:
    async with tabs.open(gateway, "playground?model=fast&other=echo%2Fecho") as page:
        await page.get_by_label("Input", exact=True).fill("Both of you")
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator(".answer .pill.ok")).to_have_count(2)
        await expect(page.locator(".answer").nth(1)).to_contain_text("Both of you")
        boxes = [await page.locator(".answer").nth(at).bounding_box() for at in (0, 1)]
        assert boxes[0] is not None
        assert boxes[1] is not None
        assert boxes[0]["y"] == boxes[1]["y"]


async def test_json_that_cannot_be_parsed_is_reported_at_its_field(
    tabs: BrowserTabs, gateway: Running
) -> None:
    async with tabs.open(gateway, "playground?model=fast") as page:
        await page.get_by_text("Tools", exact=True).click()
        await page.locator("textarea[name=tools]").fill("[{]")
        await page.get_by_role("button", name="Send").click()
        message = await page.locator("textarea[name=tools]").evaluate("e => e.validationMessage")
        assert message.startswith("Not valid JSON")
        await expect(page.locator(".answer")).to_have_count(0)


async def test_an_error_of_the_api_is_shown(tabs: BrowserTabs, gateway: Running) -> None:
    allowed = ("Failed to load resource: the server responded with a status of 404",)
    async with tabs.open(gateway, "playground?model=nobody%2Fm", allowed=allowed) as page:
        await page.get_by_label("Input", exact=True).fill("Hello")
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator(".answer .failure")).to_contain_text("model_not_found")


async def test_a_running_answer_is_stopped(tabs: BrowserTabs, gateway: Running) -> None:
    async with tabs.open(gateway, "playground?model=fast") as page:
        await page.get_by_label("Input", exact=True).fill("say: " + "word " * 500)
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator(".answer .text")).to_contain_text("word word")
        await page.get_by_role("button", name="Stop").click()
        await expect(page.locator(".answer .pill")).to_have_text("cancelled")
        await expect(page.get_by_role("button", name="Send")).to_be_enabled()


async def test_a_schema_makes_a_structured_answer(tabs: BrowserTabs, gateway: Running) -> None:
    schema = '{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}'
    async with tabs.open(gateway, "playground?model=fast") as page:
        await page.get_by_label("Input", exact=True).fill('say: {"a": "yes"}')
        await page.get_by_text("Output schema").click()
        await page.locator("textarea[name=schema]").fill(schema)
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator(".answer .output")).to_contain_text('"yes"')
