"""Unit tests of dialect plugins."""

from __future__ import annotations

import logging
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from antiphon.dialects.chat.dialect import ChatDialect
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.errors import UnknownDialect
from antiphon.providers.dialect_plugins import (
    GROUP,
    dialect_names,
    find_dialect,
    load_dialects,
    make_dialect,
)
from antiphon.providers.registry import SPECS
from antiphon.providers.spec import Spec

OBJECT = ChatDialect()
CHAT = "antiphon.dialects.chat.dialect:ChatDialect"


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


def test_a_class_or_an_instance_is_a_dialect() -> None:
    found = load_dialects([entry("acme", CHAT)])
    assert isinstance(found["acme"].plain, ChatDialect)


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
    assert isinstance(found["acme"].plain, ChatDialect)
    assert "already in use" in caplog.text


def test_a_built_in_dialect_has_the_quirks_of_its_provider() -> None:
    assert isinstance(make_dialect(SPECS["deepseek"]), ChatDialect)


def spec(**fields: Any) -> Spec:
    return Spec(name="acme", title="Acme", dialect="acme", **fields)


def test_a_class_gets_the_quirks_and_the_implied_finish_of_its_provider() -> None:
    plugin = load_dialects([entry("acme", CHAT)])["acme"]
    quirks = ChatQuirks(only_streams=True)
    dialect = plugin.build(spec(quirks=quirks, implied_finish="stop"))
    assert isinstance(dialect, ChatDialect)
    assert vars(dialect) == vars(ChatDialect(quirks=quirks, implied_finish="stop"))
    assert plugin.build(spec()) is plugin.plain


def test_an_object_cannot_take_quirks_and_says_so() -> None:
    plugin = load_dialects([entry("acme", f"{__name__}:OBJECT")])["acme"]
    with pytest.raises(TypeError, match="'acme' cannot take implied_finish: its entry point must"):
        plugin.build(spec(implied_finish="stop"))


def test_a_name_that_is_not_known_is_an_error_with_all_names() -> None:
    assert find_dialect("chat") is not None
    with pytest.raises(UnknownDialect, match="use one of: anthropic, bedrock, chat"):
        find_dialect("chatt")
    assert "chat" in dialect_names()
