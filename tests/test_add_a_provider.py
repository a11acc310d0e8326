"""The page for newcomers is run: its data, its package, what it says of both."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import parse_config
from antiphon.dialects.dialect import DIALECTS
from antiphon.providers import registry
from antiphon.providers.registry import build_providers
from tests.support.plugin_packages import install

PAGE = (Path(__file__).parents[1] / "docs" / "add-a-provider.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


SPEC, LOOK = blocks("python")
OVERRIDES, PROJECT = blocks("toml")
[SEEN] = blocks("json")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's package, on the import path."""
    project = tomllib.loads(PROJECT)["project"]
    entry_points = project["entry-points"]["antiphon.providers"]
    install(tmp_path, project["name"], entry_points, module="antiphon_acme", source=SPEC)
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.installed_plugins.cache_clear()
    yield tmp_path
    registry.installed_plugins.cache_clear()
    sys.modules.pop("antiphon_acme", None)


def test_the_package_of_the_page_is_a_provider(installed: Path) -> None:
    assert registry.installed_plugins().problems == {}
    assert registry.known_specs()["acme"].base_url == "https://api.acme.example/v1"
    found = build_providers(parse_config("", {}, name="x"), {"ACME_API_KEY": "k"})
    assert list(found) == ["acme", "echo"]
    assert found["acme"].models() == ["acme-large", "acme-vision"]


def test_the_request_of_the_page_is_what_it_shows(installed: Path) -> None:
    seen: dict[str, Any] = {}
    exec(LOOK, seen)
    assert {"body": seen["body"], "codes": seen["codes"]} == json.loads(SEEN)


def test_the_configuration_of_the_page_overrides_the_data(installed: Path) -> None:
    config = parse_config(OVERRIDES, {}, name="page")
    provider = build_providers(config, {"ACME_API_KEY": "k"})["acme"]
    assert provider.base_url == "https://eu.acme.example/v1"
    assert provider.headers == {"x-team": "blue"}
    assert provider.capabilities("acme-large").context_window == 65_536
    assert provider.capabilities("acme-vision").context_window == 131_072


def test_the_page_knows_every_dialect() -> None:
    [listed] = re.findall(r"There are seven \((.*?)\)", PAGE, re.DOTALL)
    assert re.findall(r"`(\w+)`", listed) == sorted(DIALECTS)
