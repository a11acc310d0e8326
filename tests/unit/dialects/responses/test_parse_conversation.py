"""Bodies of requests about conversations: what is accepted, and the error that names a field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from antiphon.dialects.responses.parse_conversation import (
    MAX_NEW_ITEMS,
    read_conversation,
    read_new_items,
    read_new_metadata,
)
from antiphon.errors import InvalidRequest
from tests.support.tables import table

ITEM = {"role": "user", "content": "Hello?"}


def test_items_and_metadata_of_a_new_conversation_are_optional() -> None:
    bodies: list[dict[str, Any]] = [{}, {"items": None, "metadata": None}, {"items": []}]
    for body in bodies:
        assert read_conversation(body) == ((), {})
    given = read_conversation({"items": [ITEM], "metadata": {"a": "b"}})
    assert given == ((ITEM,), {"a": "b"})


def test_new_items_and_new_metadata_are_read() -> None:
    assert read_new_items({"items": [ITEM] * MAX_NEW_ITEMS}) == (ITEM,) * MAX_NEW_ITEMS
    assert read_new_metadata({"metadata": {"a": "b"}}) == {"a": "b"}
    assert read_new_metadata({"metadata": None}) == {}


@table(
    ("read", "body", "param", "code"),
    [
        (read_new_items, {}, "items", "missing_required_parameter"),
        (read_new_items, {"items": None}, "items", "missing_required_parameter"),
        (read_new_items, {"items": "Hello?"}, "items", "invalid_type"),
        (read_new_items, {"items": [ITEM] * 21}, "items", "array_above_max_length"),
        (read_new_items, {"items": [{"x": 1}]}, "items[0].type", "missing_required_parameter"),
        (read_conversation, {"items": [ITEM, 7]}, "items[1]", "invalid_type"),
        (read_conversation, {"metadata": {"a": 1}}, "metadata.a", "invalid_type"),
        (read_new_metadata, {}, "metadata", "missing_required_parameter"),
        (read_new_metadata, {"metadata": []}, "metadata", "invalid_type"),
    ],
)
def test_an_error_names_the_field(
    read: Callable[[dict[str, Any]], object], body: dict[str, Any], param: str, code: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(body)
    assert (caught.value.param, caught.value.wire_code) == (param, code)
