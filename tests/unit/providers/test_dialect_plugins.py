"""Unit tests of dialect plugins."""

from __future__ import annotations

import logging
from importlib.metadata import EntryPoint

import pytest

from antiphon.dialects.chat.dialect import ChatDialect
from antiphon.providers.dialect_plugins import GROUP, load_dialects, make_dialect
from antiphon.providers.registry import SPECS

CHAT = "antiphon.dialects.chat.dialect:ChatDialect"


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


def test_a_class_or_an_instance_is_a_dialect() -> None:
    found = load_dialects([entry("acme", CHAT)])
    assert isinstance(found["acme"], ChatDialect)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("chat", CHAT, "already in use"),
        ("acme", "antiphon.dialects.nothing:Dialect", "ModuleNotFoundError"),
        ("acme", "antiphon.errors:AntiphonError", "TypeError"),
        ("acme", "antiphon.core.lru:LRUCache", "TypeError"),
        ("acme", "builtins:object", "it has no method encode()"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_reported_and_skipped(
    name: str, value: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert load_dialects([entry(name, value)]) == {}
    [record] = caplog.records
    assert f"dialect plugin '{name}' ({value})" in record.getMessage()
    assert reason in record.getMessage()


def test_a_name_belongs_to_the_first_plugin(caplog: pytest.LogCaptureFixture) -> None:
    found = load_dialects([entry("acme", CHAT), entry("acme", "builtins:object")])
    assert isinstance(found["acme"], ChatDialect)
    assert "already in use" in caplog.text


def test_a_built_in_dialect_has_the_quirks_of_its_provider() -> None:
    assert isinstance(make_dialect(SPECS["deepseek"]), ChatDialect)
