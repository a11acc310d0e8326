"""The table of dialects by name, and dialects with quirks."""

from __future__ import annotations

import pytest

from antiphon.dialects.chat.quirks import PLAIN
from antiphon.dialects.dialect import DIALECTS, build, resolve
from antiphon.dialects.gemini.quirks import GeminiQuirks
from antiphon.errors import UnknownDialect
from tests.support.tables import table


@table("name", DIALECTS)
def test_a_dialect_is_found_by_its_name(name: str) -> None:
    assert resolve(name) is DIALECTS[name]


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(UnknownDialect, match="'morse'") as raised:
        resolve("morse")
    assert raised.value.code == "dialect.unknown"
    with pytest.raises(UnknownDialect, match="'morse'"):
        build("morse", quirks=PLAIN)


@table("name", DIALECTS)
def test_without_quirks_the_shared_dialect_is_used(name: str) -> None:
    assert build(name) is DIALECTS[name]


def test_quirks_of_another_dialect_are_an_error() -> None:
    assert build("gemini", quirks=GeminiQuirks()) is not DIALECTS["gemini"]
    with pytest.raises(TypeError, match="'gemini' must be GeminiQuirks, not ChatQuirks"):
        build("gemini", quirks=PLAIN)
