"""Validators of JSON values: what each accepts, and the error for what it does not."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.dialects import validate
from antiphon.dialects.validate import Reader
from antiphon.errors import InvalidRequest
from tests.support.tables import table

PAIR = validate.object_of({"a": validate.string}, {"b": validate.boolean})
NOT_BOOLEAN = "must be a boolean (true or false, without quotes), not an integer."
TEXT_ONLY = validate.by_type("a string", {str: validate.string})
SHAPE = {"circle": validate.object_of({"r": validate.integer(0)})}


@table(
    ("reader", "value"),
    [
        (validate.any_value, [None]),
        (validate.string, ""),
        (validate.non_empty_string, " x "),
        (validate.boolean, False),
        (validate.any_object, {}),
        (validate.string_up_to(2), "ab"),
        (validate.enum("low", "high"), "low"),
        (validate.integer(1, 3), 3),
        (validate.number(0, 2), 0.5),
        (validate.nullable(validate.string), None),
        (validate.map_of(validate.string), {"k": "v"}),
        (PAIR, {"a": "x", "b": None, "more": 1}),
        (TEXT_ONLY, "x"),
        (validate.tagged_union(SHAPE), {"type": "circle", "r": 1}),
        (validate.tagged_union(SHAPE, allow_unknown=True), {"type": "square"}),
    ],
)
def test_a_valid_value_is_returned(reader: Reader[Any], value: Any) -> None:
    assert reader(value, "x") == value


def test_a_list_becomes_a_tuple_and_a_number_stays_as_it_was_written() -> None:
    assert validate.list_of(validate.string)(["a", "b"], "x") == ("a", "b")
    assert isinstance(validate.number(0, 2)(1, "x"), int)
    assert isinstance(validate.number(0, 2)(1.0, "x"), float)


@table(
    ("reader", "value", "message"),
    [
        (validate.string, None, "'x' must be a string, not null."),
        (validate.non_empty_string, " \n", "'x' must not be empty."),
        (
            validate.boolean,
            1,
            f"'x' {NOT_BOOLEAN}",
        ),
        (validate.any_object, [], "'x' must be an object, not an array."),
        (validate.string_up_to(2), "abc", "'x' must have at most 2 characters; it has 3."),
        (validate.integer(1, 3), True, "'x' must be an integer, not a boolean."),
        (validate.integer(1, 3), 1.0, "'x' must be an integer, not a decimal."),
        (validate.integer(1, 3), 0, "'x' must be at least 1, not 0."),
        (validate.integer(1, 3), 4, "'x' must be at most 3, not 4."),
        (validate.number(0, 2), "1", "'x' must be a number, not a string."),
        (validate.number(0, 2), 2.5, "'x' must be at most 2, not 2.5."),
        (validate.list_of(validate.string), {}, "'x' must be an array, not an object."),
        (validate.list_of(validate.string, 1), [], "'x' must have at least 1 element."),
        (validate.list_of(validate.string), ["a", 1], "'x[1]' must be a string, not an integer."),
        (validate.map_of(validate.string), {"k": 1}, "'x.k' must be a string, not an integer."),
        (PAIR, {"b": True}, "'x.a' is required."),
        (
            PAIR,
            {"a": "x", "b": 1},
            f"'x.b' {NOT_BOOLEAN}",
        ),
        (
            TEXT_ONLY,
            1,
            "'x' must be a string, not an integer.",
        ),
        (validate.tagged_union(SHAPE), {"r": 1}, "'x.type' is required."),
        (validate.tagged_union(SHAPE), {"type": "circle"}, "'x.r' is required."),
    ],
)
def test_an_invalid_value_is_rejected_by_its_path(
    reader: Reader[Any], value: Any, message: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        reader(value, "x")
    assert caught.value.message == message
    assert message.startswith(f"'{caught.value.param}' ")


def test_an_unsupported_value_is_quoted_with_the_closest_supported_one() -> None:
    with pytest.raises(InvalidRequest) as caught:
        validate.enum("low", "high")("hihg", "x")
    assert caught.value.message == (
        "'x' cannot be 'hihg'; supported values are 'low', 'high'. Did you mean 'high'?"
    )
    with pytest.raises(InvalidRequest) as caught:
        validate.tagged_union(SHAPE)({"type": "z" * 100}, "x")
    assert caught.value.message == (
        f"'x.type' cannot be '{'z' * 64}…'; supported values are 'circle'."
    )


def test_a_quoted_value_is_cut_if_it_is_too_long() -> None:
    assert validate.quote_briefly("x" * 64) == f"'{'x' * 64}'"
    assert validate.quote_briefly("x" * 65) == f"'{'x' * 64}…'"


def test_integers_are_limited_to_those_that_every_client_can_represent() -> None:
    read = validate.integer(0)
    assert read(2**53 - 1, "n") == 2**53 - 1
    with pytest.raises(InvalidRequest):
        read(2**53, "n")


# --- misspelt fields ------------------------------------------------------------------------------


def test_a_missing_field_is_found_among_the_unknown_ones() -> None:
    read = validate.object_of({"name": validate.string}, {"note": validate.string})
    with pytest.raises(InvalidRequest) as caught:
        read({"note": "x", "nmae": "f"}, "tools[0]")
    assert caught.value.message == (
        "'tools[0].name' is required. 'nmae' is unknown here. Did you mean 'name'?"
    )
    for others in ({}, {"note": "x"}, {"title": "x"}):
        with pytest.raises(InvalidRequest) as caught:
            read(others, "tools[0]")
        assert caught.value.message == "'tools[0].name' is required."


def test_unknown_fields_are_counted_and_the_first_ones_compared() -> None:
    known = frozenset({"input", "model"})
    names = ["inptu", "x" * 100, "Model", "modle", *(f"other_{at}" for at in range(20))]
    assert validate.describe_unknown(names, known) == {
        "unknown": ("inptu", "x" * 64, *names[2:20]),
        "unknown_more": 4,
        "similar": {"inptu": "input", "Model": "model"},
    }
    assert validate.describe_unknown([], known) == {}
