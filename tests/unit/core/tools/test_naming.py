"""Provider names of tools: valid characters, a length limit, and a hash where a name is changed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.tools.naming import NAME_LIMIT, hashed_name, provider_name

VALID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def test_a_valid_name_is_kept_with_its_namespace_before_it() -> None:
    assert provider_name("read_file") == "read_file"
    assert provider_name("read", "mcp__files") == "mcp__files__read"


@pytest.mark.parametrize("name", ["a.b", "größe", "", "x" * (NAME_LIMIT + 1)])
def test_an_invalid_name_is_changed_and_gets_a_hash(name: str) -> None:
    assert provider_name(name) == hashed_name(name)


def test_names_that_differ_only_in_invalid_characters_stay_different() -> None:
    assert provider_name("a.b") != provider_name("a/b")
    assert hashed_name("b", "a") != hashed_name("a__b")


@given(st.text(), st.none() | st.text())
def test_any_name_gives_a_valid_provider_name(name: str, namespace: str | None) -> None:
    assert VALID.fullmatch(provider_name(name, namespace))
    assert VALID.fullmatch(hashed_name(name, namespace))
