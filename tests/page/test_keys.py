"""First run and keys in Chromium: a provider's key is pasted, client keys are made and revoked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from playwright.async_api import expect

from antiphon.config import Config, load_config
from tests.support.gateways import Running, running
from tests.support.pages.sample_gateway import answer
from tests.support.pages.watched import BrowserTabs, overflow
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

        async with running(load(), load=load) as gateway:
            yield gateway


async def test_a_key_is_pasted_and_tested(tabs: BrowserTabs, tmp_path: Path) -> None:
    async with (
        fresh_gateway(tmp_path) as gateway,
        tabs.open(gateway, "providers", width=390) as page,
    ):
        form = page.get_by_role("form", name="API key of a provider")
        await form.get_by_label("Provider").select_option("deepseek")
        await form.get_by_label("API key").fill(f" {SECRET} ")
        await form.get_by_role("button", name="Add").click()
        deepseek = page.locator("[data-provider=deepseek]")
        await expect(deepseek.locator(".facts")).to_contain_text("API keys2")
        await deepseek.get_by_role("button", name="Test").click()
        await expect(deepseek.locator(".result .light.ok")).to_be_visible()
        assert await overflow(page) <= 0
        for path in ("providers", "config", "keys", "now"):
            assert SECRET not in await read(gateway, path)
        await form.get_by_label("Provider").select_option("zhipu")
        await form.get_by_label("API key").fill("sk-zhipu")
        await form.get_by_role("button", name="Add").click()
        await expect(page.locator("[data-provider=zhipu]")).to_be_visible()
        assert SECRET in (tmp_path / "antiphon.keys.json").read_text()


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
        tabs.open(gateway, "configuration", allowed=allowed) as page,
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
            "payloads": {"minutes": 15},
        }
        for path, body in bodies.items():
            url = f"{base}/{path}"
            async with gateway.client.post(url, json=body, headers=headers) as response:
                assert response.status == 403
            form = aiohttp.FormData(body)  # what a form of another page can send without CORS
            async with gateway.client.post(url, data=form) as response:
                assert response.status == 415
        async with gateway.client.delete(f"{base}/keys/eve", headers=headers) as response:
            assert response.status == 403
        assert not (tmp_path / "antiphon.keys.json").exists()
