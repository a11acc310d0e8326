"""Provider plugins: found, or reported by name without affecting others."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from antiphon.config import Config, ProviderConfig
from antiphon.errors import ConfigError
from antiphon.providers import registry
from antiphon.providers.plugin import GROUP, load_plugins
from antiphon.providers.registry import SPECS, build_providers
from tests.support.plugin_packages import install

GOOD = """
from antiphon.providers.spec import Spec

SPEC = Spec(name="good", title="Good", base_url="https://good.example", api_key_env=("GOOD_KEY",))
OTHER = Spec(name="other", title="Other")
MORSE = Spec(name="morse", title="Morse", dialect="morse")
QUIRKY = Spec(name="quirky", title="Quirky", dialect="gemini", quirks=object())
NOTHING = {"name": "nothing"}
DEEPSEEK = Spec(name="deepseek", title="Mine", base_url="https://evil.example")
"""


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=GROUP)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "good_plugin.py").write_text(GOOD)
    (tmp_path / "broken_plugin.py").write_text("raise RuntimeError('out of order')")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.installed_plugins.cache_clear()
    yield tmp_path
    registry.installed_plugins.cache_clear()
    for name in ("good_plugin", "broken_plugin"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("broken", "broken_plugin:SPEC", "RuntimeError: out of order"),
        ("absent", "no_such_plugin:SPEC", "ModuleNotFoundError: No module named 'no_such_plugin'"),
        ("missing", "good_plugin:NOT_THERE", "has no attribute 'NOT_THERE'"),
        ("nothing", "good_plugin:NOTHING", "TypeError: the entry point must be a Spec, not a dict"),
        ("alias", "good_plugin:OTHER", "ValueError: the Spec is named 'other'"),
        ("morse", "good_plugin:MORSE", "Unknown dialect 'morse'"),
        (
            "quirky",
            "good_plugin:QUIRKY",
            "quirks of the dialect 'gemini' must be GeminiQuirks, not object",
        ),
        ("deepseek", "good_plugin:DEEPSEEK", "the name 'deepseek' is already in use"),
    ],
)
def test_an_unusable_plugin_is_reported_and_others_work(
    place: Path, name: str, value: str, reason: str
) -> None:
    found = load_plugins(SPECS, [entry(name, value), entry("good", "good_plugin:SPEC")])
    assert list(found.specs) == ["good"]
    [problem] = found.problems.values()
    assert problem.startswith(f"provider plugin {name!r} ({value}) cannot be loaded: ")
    assert reason in problem


def test_of_two_plugins_with_one_name_the_first_is_used(place: Path) -> None:
    (place / "again_plugin.py").write_text(GOOD)
    twice = [entry("good", "good_plugin:SPEC"), entry("good", "again_plugin:SPEC")]
    found = load_plugins(SPECS, twice)
    assert list(found.specs) == ["good"]
    assert "(good_plugin:SPEC)" in found.problems["good"]
    sys.modules.pop("again_plugin", None)


def test_an_installed_plugin_is_found_and_a_broken_one_logged_once(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(place, "good-plugin", {"good": "good_plugin:SPEC"})
    install(place, "broken-plugin", {"broken": "broken_plugin:SPEC"})
    with caplog.at_level(logging.WARNING, logger="antiphon.providers"):
        for _ in range(2):
            found = build_providers(Config(), {"GOOD_KEY": "k", "DEEPSEEK_API_KEY": "d"})
    assert list(found) == ["deepseek", "good", "echo"]
    [record] = caplog.records
    assert record.getMessage().startswith(
        "provider plugin 'broken' from package broken-plugin (broken_plugin:SPEC) cannot be loaded"
    )


def test_configuring_a_broken_plugin_is_an_error_with_its_reason(place: Path) -> None:
    install(place, "broken-plugin", {"broken": "broken_plugin:SPEC"})
    config = Config(providers={"it": ProviderConfig(kind="broken", api_keys=["k"])})
    with pytest.raises(ConfigError, match=r"providers\.it\.kind: provider plugin 'broken' from"):
        build_providers(config, {})


def test_without_plugins_only_built_in_providers_are_known() -> None:
    registry.installed_plugins.cache_clear()
    assert registry.installed_plugins().specs == {}
    assert registry.known_specs() == SPECS
