"""Every view in both themes and on narrow and wide screens: complete, without errors."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import Route, expect

from tests.support.gateways import Running
from tests.support.pages.contrast import find_faint_texts
from tests.support.pages.keyboard import list_stops, press_through
from tests.support.pages.sample_gateway import LISTED, REQUEST, HeldAnswers, sample_gateway
from tests.support.pages.samples import make_usage, seed_trace
from tests.support.pages.watched import (
    THEMES,
    WIDTHS,
    BrowserTabs,
    make_traced_request,
    overflow,
)

REQUESTS = 10_000
VIEWS = {
    "now": ("Now", ".lights li"),
    "requests": ("Requests", ".list tbody tr"),
    "requests?open=ID": ("Requests", ".list tbody tr"),
    "requests/ID": ("smart completed", ".moment"),
    "sessions": ("Sessions", ".list tbody tr"),
    "sessions/sample": ("smart", ".session-turn"),
    "usage": ("Usage", ".list tbody tr"),
    "models": ("Models", ".list tbody tr"),
    "providers": ("Providers", ".provider"),
    "playground": ("Playground", "textarea"),
    "configuration": ("Configuration", ".setting"),
}


@dataclass
class Sample:
    gateway: Running
    request_id: str
    answers: HeldAnswers


@pytest.fixture(scope="module")
async def sample(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sample]:
    answers = HeldAnswers()
    async with sample_gateway(tmp_path_factory.mktemp("views"), script=answers) as gateway:
        store = gateway.engine.services.tracer.store
        assert store is not None
        await asyncio.to_thread(seed_trace, store.path, int(time.time() * 1000), REQUESTS)
        await gateway.engine.services.store.usage.add(make_usage(int(time.time()), 10))
        yield Sample(gateway, await make_traced_request(gateway, REQUEST, "sample"), answers)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("view", VIEWS)
async def test_a_view_is_complete(
    tabs: BrowserTabs, sample: Sample, view: str, theme: str, width: int
) -> None:
    title, content = VIEWS[view]
    path = view.replace("ID", sample.request_id)
    async with tabs.open(sample.gateway, path, width=width, theme=theme) as page:
        await expect(page.locator(content).first).to_be_visible()
        await expect(page.locator("h1")).to_have_text(title)
        assert await overflow(page) <= 0
        assert await find_faint_texts(page) == []
        colour = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        is_dark = int(colour.split("(")[1].split(",")[0]) < 100
        assert is_dark == (theme == "dark")


@pytest.mark.parametrize("width", [320, 600, 941, 1101])
@pytest.mark.parametrize("view", VIEWS)
async def test_a_view_fits_into_a_part_of_a_screen(
    tabs: BrowserTabs, sample: Sample, view: str, width: int
) -> None:
    path = view.replace("ID", sample.request_id)
    async with tabs.open(sample.gateway, path, width=width) as page:
        await expect(page.locator(VIEWS[view][1]).first).to_be_visible()
        assert await overflow(page) <= 0


@pytest.mark.parametrize("view", VIEWS)
async def test_every_control_of_a_view_is_reached_by_keyboard(
    tabs: BrowserTabs, sample: Sample, view: str
) -> None:
    path = view.replace("ID", sample.request_id)
    async with tabs.open(sample.gateway, path) as page:
        await expect(page.locator(VIEWS[view][1]).first).to_be_visible(timeout=15_000)
        stops = await list_stops(page, 40)
        assert stops
        await page.locator("main").focus()
        assert await press_through(page, len(stops)) == stops


async def test_the_chosen_theme_is_kept(tabs: BrowserTabs, sample: Sample) -> None:
    async with tabs.open(sample.gateway, "now") as page:
        button = page.get_by_role("button", name="Theme:")
        await button.click()
        await button.click()
        await expect(button).to_have_text("Theme: dark")
        await page.reload()
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")


async def test_the_root_leads_a_browser_to_the_page(tabs: BrowserTabs, sample: Sample) -> None:
    async with tabs.open(sample.gateway, "now") as page:
        await page.goto(sample.gateway.base_url.removesuffix("v1"))
        await expect(page.locator("h1")).to_have_text("Now")
        assert page.url.endswith("/ui")


async def test_now_shows_what_happens(tabs: BrowserTabs, sample: Sample) -> None:
    async with tabs.open(sample.gateway, "now") as page:
        await expect(page.locator(".live")).to_have_text("live")
        deepseek = page.locator(".lights li", has_text="deepseek")
        await expect(deepseek).to_contain_text("the last attempt succeeded")
        zhipu = page.locator(".lights li", has_text="zhipu")
        failing = re.compile("light (warn|down)")  # down when other tests have called it as well
        await expect(zhipu.locator(".light")).to_have_class(failing)
        running = page.locator(".running li")
        body = {**REQUEST, "input": "wait"}
        with sample.answers.held():
            request = asyncio.ensure_future(make_traced_request(sample.gateway, body))
            await expect(running).to_have_count(1)
            await expect(running).to_contain_text("smart")
        await request
        await expect(running).to_have_count(0)
        await page.get_by_role("tab", name="Codex").click()
        await expect(page.locator(".code pre")).to_contain_text('wire_api = "responses"')
        for shown in ("export ANTHROPIC_BASE_URL=", "from openai import OpenAI"):
            await page.keyboard.press("ArrowRight")
            await expect(page.locator(".code pre")).to_contain_text(shown)


async def test_now_is_live_again_after_a_proxy_had_no_gateway(
    tabs: BrowserTabs, sample: Sample
) -> None:
    async def refuse(route: Route) -> None:
        policy = {"content-security-policy": "default-src 'none'"}
        await route.fulfill(status=502, headers=policy, body="Bad Gateway")

    allowed = ("Failed to load resource: the server responded with a status of 502",)
    async with tabs.open(sample.gateway, "usage", allowed=allowed) as page:
        await page.route("**/ui/api/live?view=now", refuse, times=1)
        await page.get_by_role("link", name="Now", exact=True).click()
        await expect(page.locator(".live")).to_have_text("reconnecting")
        await expect(page.locator(".live")).to_have_text("live")


async def test_usage_is_grouped_by_the_address(tabs: BrowserTabs, sample: Sample) -> None:
    async with tabs.open(sample.gateway, "usage?by=client&of=cost") as page:
        await expect(page.locator(".list th").first).to_have_text("Client")
        await expect(page.locator(".list tbody tr", has_text="build-server")).to_have_count(1)
        for measure in ("Failures", "Cached tokens"):
            await page.get_by_role("link", name=measure, exact=True).click()
            await expect(page.locator(".card h2").first).to_have_text(f"{measure} by day UTC")
        await page.get_by_role("link", name="Cost", exact=True).click()
        await page.get_by_role("link", name="provider", exact=True).click()
        await expect(page.locator(".list th").first).to_have_text("Provider")
        assert "by=provider" in page.url
        assert "of=cost" in page.url
        async with page.expect_download() as download:
            await page.get_by_role("link", name="CSV").click()
        csv = await download.value
        assert csv.suggested_filename == "antiphon-usage.csv"
        assert (await csv.path()).read_text().startswith("day,client,model,provider,requests,")


async def test_usage_names_the_provider_of_a_model_and_sorts_by_the_chosen_measure(
    tabs: BrowserTabs, sample: Sample
) -> None:
    async with tabs.open(sample.gateway, "usage?by=model&of=requests") as page:
        rows = page.locator(".list tbody tr")
        await expect(rows.filter(has_text="deepseek-v4-pro")).to_contain_text(
            "deepseek-v4-pro deep"
        )
        requests = await rows.locator("td:nth-child(2)").all_inner_texts()
        numbers = [int(each.replace(",", "")) for each in requests]
        assert len(numbers) > 1
        assert numbers == sorted(numbers, reverse=True)


@pytest.mark.parametrize("width", WIDTHS)
async def test_every_view_is_in_sight_in_the_navigation(
    tabs: BrowserTabs, sample: Sample, width: int
) -> None:
    async with tabs.open(sample.gateway, "now", width=width) as page:
        for name in ("Now", "Playground", "Configuration"):
            await expect(page.locator("nav").get_by_role("link", name=name)).to_be_in_viewport(
                ratio=1
            )


async def test_the_figures_of_usage_are_of_the_same_period(
    tabs: BrowserTabs, sample: Sample
) -> None:
    async with tabs.open(sample.gateway, "usage?of=failures") as page:
        titles = await page.locator(".chart title").all_text_contents()
        in_chart = sum(int(title.split(": ")[1].split()[0]) for title in titles)
        await expect(page.locator(".tile .note").first).to_contain_text(f"{in_chart} failed (")
        shares = await page.locator(".list td:last-child .small").all_text_contents()
        total = sum(float(share.removesuffix(" %")) for share in shares)
        assert abs(total - 100) < len(shares)


async def test_the_axis_of_a_chart_ends_just_above_its_maximum(
    tabs: BrowserTabs, sample: Sample
) -> None:
    script = """async (values) => {
        const { niceCeiling } = await import("/ui/static/charts.js");
        return values.map(([maximum, whole]) => niceCeiling(maximum, whole));
    }"""
    ends = {
        (0, True): 1,
        (3, True): 3,
        (5, True): 6,
        (13, True): 20,
        (31, True): 40,
        (0, False): 1,
        (0.0021, False): 0.003,
        (0.7, False): 0.8,
        (107.6, False): 150,
    }
    async with tabs.open(sample.gateway, "usage") as page:
        found = await page.evaluate(script, [list(value) for value in ends])
    assert found == pytest.approx(list(ends.values()))


async def test_models_are_found_by_words(tabs: BrowserTabs, sample: Sample) -> None:
    async with tabs.open(sample.gateway, "models") as page:
        await page.keyboard.press("/")
        await page.keyboard.type("smart")
        await expect(page.locator(".list tbody tr")).to_have_count(1)
        await expect(page.locator(".list tbody")).to_contain_text("falls back to deepseek")
        assert page.url.endswith("/ui/models?find=smart")
        await page.get_by_role("link", name="Try").click()
        await expect(page.get_by_role("combobox", name="Model")).to_have_value("smart")


async def test_models_of_a_provider_s_own_list_appear(tabs: BrowserTabs, sample: Sample) -> None:
    async with tabs.open(sample.gateway, f"models?find={LISTED}") as page:
        rows = page.locator(".list tbody tr")
        await expect(rows).to_have_count(2)  # one for each provider
        await expect(rows.first).to_contain_text("listed by the provider")


async def test_a_provider_is_tested(tabs: BrowserTabs, sample: Sample) -> None:
    async with tabs.open(sample.gateway, "providers") as page:
        card = page.locator("[data-provider=deepseek]")
        await card.get_by_role("button", name="Test").click()
        await expect(card.locator(".result")).to_contain_text("Responded after")
        await card.get_by_role("link", name="See the request").click()
        await expect(page.locator("h1")).to_contain_text("deepseek/deepseek-v4-pro")


async def test_a_test_that_fails_leads_to_its_request(tabs: BrowserTabs, sample: Sample) -> None:
    allowed = ("Failed to load resource: the server responded with a status of 5",)
    async with tabs.open(sample.gateway, "providers", allowed=allowed) as page:
        card = page.locator("[data-provider=zhipu]")
        await card.get_by_role("button", name="Test").click()
        await expect(card.locator(".result .light.down")).to_be_visible()
        await card.get_by_role("link", name="See the request").click()
        await expect(page.locator("h1")).to_have_text(re.compile("zhipu/.* failed"))
        await expect(page.locator(".verdict .evidence")).to_contain_text("Attempt 1, zhipu/")


async def test_the_configuration_has_lines_and_is_checked(
    tabs: BrowserTabs, sample: Sample
) -> None:
    async with tabs.open(sample.gateway, "configuration") as page:
        table = page.get_by_role("table", name="providers.deepseek", exact=True)
        await expect(table.locator("tr", has_text="base_url")).to_contain_text("line ")
        await expect(page.locator("main")).not_to_contain_text("sk-")
        await page.get_by_role("button", name="Check the file").click()
        problems = page.get_by_role("alert")
        await expect(problems).to_contain_text("DEEPSEEK_API_KEY is not set")
        await page.get_by_label("Show defaults as well").check()
        await expect(page.get_by_role("table", name="log", exact=True)).to_be_visible()


async def test_what_does_not_exist_says_so(tabs: BrowserTabs, sample: Sample) -> None:
    allowed = ("Failed to load resource: the server responded with a status of 404",)
    async with tabs.open(sample.gateway, "now", allowed=allowed) as page:
        await page.goto(page.url.replace("/now", "/requests/req_nothing"))
        await expect(page.get_by_role("alert")).to_contain_text("'req_nothing' is in the trace")


async def test_a_gateway_that_is_gone_is_said_and_old_figures_are_grey(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(sample_gateway(tmp_path))
        allowed = ("Failed to load resource",)
        async with tabs.open(gateway, "now", allowed=allowed) as page:
            await expect(page.locator(".live")).to_have_text("live")
            await expect(page.locator(".gone")).to_be_hidden()
            await stack.aclose()
            await expect(page.locator(".gone")).to_have_text(
                re.compile(r"No connection to the gateway since \d\d:\d\d:\d\d\.")
            )
            grey = "getComputedStyle(document.querySelector('.tiles')).filter"
            assert await page.evaluate(grey) == "grayscale(1)"


async def test_an_address_without_a_view_says_so(tabs: BrowserTabs, sample: Sample) -> None:
    allowed = ("Failed to load resource: the server responded with a status of 404",)
    async with tabs.open(sample.gateway, "nonsense", allowed=allowed) as page:
        await expect(page.locator("h1")).to_have_text("There is no such view")
        await page.get_by_role("link", name="Open Now").click()
        await expect(page.locator("h1")).to_have_text("Now")
