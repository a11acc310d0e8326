"""First run and keys in Chromium: a provider's key is pasted, client keys are made and revoked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from playwright.async_api import expect

from antiphon.config import Config, load_config
from tests.support.gateways import Running, replaced, running, settings
from tests.support.pages.api import own_files
from tests.support.pages.sample_gateway import answer
from tests.support.pages.watched import BrowserTabs, link_with_token, overflow
from tests.support.upstream import upstream

_FILE = """\
[server]
port = 0
[providers.deepseek]
base_url = "{url}"
api_keys = ["sk-of-the-file"]
[store]
url = "sqlite:///{directory}/turns.db"
[trace]
path = "{directory}/trace.db"
[capsule]
keys = ["a key that only tests use"]
"""
SECRET = "sk-pasted-0123456789"
ATTACK = '<img src=x onerror="window.attacked=1">'


@asynccontextmanager
async def fresh_gateway(directory: Path) -> AsyncIterator[Running]:
    """A gateway whose file can be reloaded."""
    async with upstream(answer) as provider:
        path = directory / "antiphon.toml"
        path.write_text(_FILE.format(url=provider.url, directory=directory))

        def load() -> Config:
            return load_config(path, {})

        async with running(load(), load=load, environment=own_files(directory)) as gateway:
            yield gateway


async def test_a_key_is_pasted_and_tested(tabs: BrowserTabs, tmp_path: Path) -> None:
    async with (
        fresh_gateway(tmp_path) as gateway,
        tabs.open(gateway, link_with_token(gateway, "providers"), width=390) as page,
    ):
        form = page.get_by_role("form", name="API key of a provider")
        await form.get_by_label("Provider").select_option("deepseek")
        await form.get_by_label("API key").fill(f" {SECRET} ")
        await form.get_by_role("button", name="Add and test").click()
        deepseek = page.locator("[data-provider=deepseek]")
        await expect(deepseek.locator(".facts")).to_contain_text("API keys2")
        await expect(deepseek.locator(".result .light.ok")).to_be_visible()
        assert await overflow(page) <= 0
        for path in ("providers", "config", "keys", "now"):
            assert SECRET not in await read(gateway, path)
        await form.get_by_label("Provider").select_option("zhipu")
        await form.get_by_label("API key").fill("sk-zhipu")
        await form.get_by_role("button", name="Add").click()
        await expect(page.locator("[data-provider=zhipu]")).to_be_visible()
        assert SECRET in (tmp_path / "antiphon.keys.json").read_text()


async def test_the_first_run_takes_a_key_tests_it_and_chooses_the_model(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    """A gateway without a file and without a provider, as `make serve` starts it."""
    path = Path(own_files(tmp_path)["XDG_CONFIG_HOME"]) / "antiphon" / "antiphon.toml"
    async with upstream(answer, ["listed-model"]) as provider:

        def load() -> Config:
            """The file that the page creates; DeepSeek has the address of the test's provider."""
            base = settings(tmp_path)
            if not path.exists():
                return base
            loaded = load_config(path, {})
            own = {
                name: msgspec.structs.replace(each, base_url=provider.url)
                for name, each in loaded.providers.items()
            }
            kept = {"source": loaded.source, "chosen_model": loaded.chosen_model}
            return replaced(base, default_provider="", providers=own, **kept)

        async with (
            running(load(), load=load, environment=own_files(tmp_path)) as gateway,
            tabs.open(gateway, link_with_token(gateway, "now")) as page,
        ):
            await page.get_by_role("link", name="Add an API key").click()
            form = page.get_by_role("form", name="API key of a provider")
            await form.get_by_label("Provider").select_option("deepseek")
            await form.get_by_label("API key").fill(SECRET)
            await form.get_by_role("button", name="Add and test").click()
            card = page.locator("[data-provider=deepseek]")
            await expect(card.locator(".result")).to_contain_text("Responded after")
            choice = page.get_by_role("form", name="Default model")
            await choice.get_by_label("Model").select_option("deepseek/deepseek-flash")
            await form.get_by_label("API key").fill("sk-another")
            await choice.get_by_role("button", name="Use it").click()
            await expect(page.locator("#toast")).to_contain_text("is the default model")
            await expect(choice.get_by_label("Model")).to_have_value("deepseek/deepseek-flash")
            await expect(form.get_by_label("API key")).to_have_value("sk-another")
            await expect(card.locator(".result")).to_contain_text("Responded after")
            await page.get_by_role("link", name="Now", exact=True).click()
            snippet = page.locator(".card", has_text="Connect a client")
            await expect(snippet).to_contain_text("deepseek/deepseek-flash")
            assert "token" not in page.url


async def test_without_the_token_the_page_says_how_to_change_something(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    allowed = ("Failed to load resource: the server responded with a status of 401",)
    async with fresh_gateway(tmp_path) as gateway:
        for view in ("providers", "configuration"):
            async with tabs.open(gateway, view, width=390) as page:
                locked = page.locator(".locked").first
                await expect(locked).to_contain_text("the link that antiphon serve shows")
                await expect(page.get_by_role("form", name="New client key")).to_have_count(0)
                assert await overflow(page) <= 0
        async with tabs.open(gateway, "configuration", allowed=allowed) as page:
            form = page.get_by_role("form", name="Token of the page")
            await form.get_by_label("Token").fill(ATTACK)
            await form.get_by_role("button", name="Unlock").click()
            await expect(form.get_by_role("alert")).to_contain_text("Incorrect token")
            await form.get_by_label("Token").fill(gateway.gateway.process.page.token)
            await form.get_by_role("button", name="Unlock").click()
            await expect(page.get_by_role("form", name="New client key")).to_be_visible()


async def test_markup_in_a_model_s_name_is_text_where_the_default_is_chosen(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    name = f"deepseek/{ATTACK}"
    async with fresh_gateway(tmp_path) as gateway:
        (tmp_path / "antiphon.keys.json").write_text(json.dumps({"default_model": name}))
        await gateway.gateway.process.reload()
        async with tabs.open(gateway, link_with_token(gateway, "providers")) as page:
            choice = page.get_by_role("form", name="Default model").get_by_label("Model")
            await expect(choice).to_have_value(name)
            assert await page.evaluate("window.attacked") is None


async def read(gateway: Running, path: str) -> str:
    url = f"{gateway.base_url.removesuffix('/v1')}/ui/api/{path}"
    async with gateway.client.get(url) as response:
        assert response.status == 200
        return await response.text()


async def call(gateway: Running, key: str) -> int:
    headers = {"authorization": f"Bearer {key}"}
    body: Any = {"model": "echo/echo", "input": "Hello"}
    url = f"{gateway.base_url}/responses"
    async with gateway.client.post(url, json=body, headers=headers) as response:
        return response.status


async def test_a_client_key_is_made_limited_and_revoked(tabs: BrowserTabs, tmp_path: Path) -> None:
    allowed = ("Failed to load resource: the server responded with a status of 400",)
    async with (
        fresh_gateway(tmp_path) as gateway,
        tabs.open(gateway, link_with_token(gateway, "configuration"), allowed=allowed) as page,
    ):
        assert await call(gateway, "anything") == 200
        form = page.get_by_role("form", name="New client key")
        await form.get_by_label("Name").fill(ATTACK)
        await form.get_by_role("button", name="Make a key").click()
        await expect(form.get_by_role("alert")).to_contain_text("must have 1 to 64 letters")
        await form.get_by_label("Name").fill("alice")
        await form.get_by_label("Requests a minute").fill("2")
        await form.get_by_role("button", name="Make a key").click()
        key = await page.locator(".new-key pre").inner_text()
        row = page.get_by_role("table", name="Client keys").locator("tbody tr")
        await expect(row).to_contain_text("requests_per_minute = 2")
        statuses = [await call(gateway, each) for each in ("anything", key, key, key)]
        assert statuses == [401, 200, 200, 429]
        assert key not in await read(gateway, "keys")
        await page.reload()
        await expect(row).to_contain_text("alice")
        await expect(page.locator("main")).not_to_contain_text(key)
        await row.get_by_role("button", name="Revoke").click()
        await row.get_by_role("button", name="Revoke alice now?").click()
        await expect(row).to_have_count(0)
        assert await call(gateway, "anything") == 200
        assert await page.evaluate("window.attacked") is None


async def test_other_web_pages_change_no_keys(tmp_path: Path) -> None:
    async with fresh_gateway(tmp_path) as gateway:
        base = f"{gateway.base_url.removesuffix('/v1')}/ui/api"
        headers = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
        bodies: dict[str, Any] = {
            "keys": {"name": "eve"},
            "provider-keys": {"provider": "deepseek", "key": SECRET},
            "default-model": {"model": "deepseek/deepseek-flash"},
            "payloads": {"minutes": 15},
        }
        own = {"authorization": f"Bearer {gateway.gateway.process.page.token}"}
        for path, body in bodies.items():
            url = f"{base}/{path}"
            async with gateway.client.post(url, json=body, headers={**own, **headers}) as response:
                assert response.status == 403
                assert "Origin" in await response.text()
            form = aiohttp.FormData(body)  # what a form of another page can send without CORS
            async with gateway.client.post(url, data=form, headers=own) as response:
                assert response.status == 415
        async with gateway.client.delete(f"{base}/keys/eve", headers=headers) as response:
            assert response.status == 403
        assert not (tmp_path / "antiphon.keys.json").exists()
