"""Configuration in Chromium: a button reloads the file; one with a mistake changes nothing."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import expect

from antiphon.config import Config, load_config
from tests.support.gateways import Running, running
from tests.support.pages.api import own_files
from tests.support.pages.watched import BrowserTabs, link_with_token, overflow

_FILE = """\
[server]
port = 0
[store]
url = "sqlite:///{directory}/turns.db"
[trace]
path = "{directory}/trace.db"
[capsule]
keys = ["a key that only tests use"]
[models]
quick = "echo/echo"
"""


def write(path: Path) -> None:
    path.write_text(_FILE.format(directory=path.parent))


@asynccontextmanager
async def gateway_of(path: Path) -> AsyncIterator[Running]:
    write(path)

    def load() -> Config:
        return load_config(path, {})

    async with running(load(), load=load, environment=own_files(path.parent)) as gateway:
        yield gateway


def change(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


async def ask(gateway: Running, model: str) -> int:
    status, _, _ = await gateway.post({"model": model, "input": "Hello"})
    return status


async def test_a_button_reloads_the_file(tabs: BrowserTabs, tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    async with (
        gateway_of(path) as gateway,
        tabs.open(gateway, link_with_token(gateway, "configuration")) as page,
    ):
        models = page.get_by_role("table", name="models", exact=True)
        await expect(models).to_contain_text("quick")
        change(path, "quick", "swift")
        button = page.get_by_role("button", name="Reload the file")
        await button.focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("main")).to_contain_text("New requests use the file")
        await expect(page.locator("main")).not_to_contain_text("restart")
        await expect(models).to_contain_text("swift")
        assert (await ask(gateway, "swift"), await ask(gateway, "quick")) == (200, 404)


async def test_settings_that_need_a_restart_are_named(tabs: BrowserTabs, tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    async with (
        gateway_of(path) as gateway,
        tabs.open(gateway, link_with_token(gateway, "configuration")) as page,
    ):
        change(path, "trace.db", "other.db")
        await page.get_by_role("button", name="Reload the file").click()
        restart = page.get_by_text("in effect only after a restart")
        await expect(restart).to_contain_text("trace")


async def test_a_mistake_is_shown_with_its_line_and_changes_nothing(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    path = tmp_path / "antiphon.toml"
    async with (
        gateway_of(path) as gateway,
        tabs.open(gateway, link_with_token(gateway, "configuration"), width=380) as page,
    ):
        change(path, 'quick = "echo/echo"', 'quick = "echo/echo"\nbroken = "nobody/<b>m</b>"')
        await page.get_by_role("button", name="Reload the file").click()
        problem = page.get_by_role("alert")
        await expect(problem).to_contain_text("1 problem in the file")
        await expect(problem).to_contain_text("What is in effect has not changed")
        await expect(problem).to_contain_text(f"{path}:11: models.broken")
        await expect(page.get_by_role("table", name="models", exact=True)).to_contain_text("quick")
        assert await overflow(page) == 0
        assert (await ask(gateway, "quick"), await ask(gateway, "broken")) == (200, 404)


async def test_a_changed_admin_key_asks_for_it(tabs: BrowserTabs, tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    allowed = ("Failed to load resource: the server responded with a status of 401",)
    async with (
        gateway_of(path) as gateway,
        tabs.open(gateway, link_with_token(gateway, "configuration"), allowed=allowed) as page,
    ):
        change(path, "port = 0", 'port = 0\nadmin_key = "sk-admin-of-this-test"')
        await page.get_by_role("button", name="Reload the file").click()
        await expect(page.get_by_label("Admin key")).to_be_visible()


async def test_without_the_token_the_file_can_be_checked_but_not_reloaded(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    path = tmp_path / "antiphon.toml"
    async with gateway_of(path) as gateway, tabs.open(gateway, "configuration") as page:
        button = page.get_by_role("button", name="Reload the file")
        await expect(button).to_be_disabled()
        await expect(button).to_have_attribute("title", re.compile("antiphon serve shows"))
        await page.get_by_role("button", name="Check the file").click()
        await expect(page.locator("main")).to_contain_text("The file is valid")
