"""Errors of a Messages request."""

from __future__ import annotations

from antiphon.dialects.anthropic.parse_errors import invalid, is_number, mapping, type_name


def test_an_error_begins_with_its_path() -> None:
    error = invalid("messages.3.content.0.type", "Field required")
    assert error.message == "messages.3.content.0.type: Field required"
    assert (error.param, error.status) == ("messages.3.content.0.type", 400)


def test_values_are_named_and_read_by_their_type() -> None:
    assert type_name([]) == "an array"
    assert (mapping({"a": 1}), mapping([])) == ({"a": 1}, {})
    assert [is_number(value) for value in (1, 0.5, True, "1")] == [True, True, False, False]
