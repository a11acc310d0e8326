"""Extraction of JSON values from surrounding text."""

from __future__ import annotations

import pytest

from antiphon.core.structured_output.json_in_text import find_json_values
from tests.support.tables import table

VALUE = '{"a": [1, {"b": "}"}]}'


@table(
    "text",
    [
        VALUE,
        f"\n {VALUE}\t",
        f"\ufeff{VALUE}",
        f"```json\n{VALUE}\n```",
        f"```\n{VALUE}```",
        f"~~~ json\n{VALUE}\n~~~\n",
        f"Here you are:\n\n```json\n{VALUE}\n```\nAnything else?",
        f"```json\n{VALUE}",
        f"The answer is {VALUE}. [sic]",
        f"[not] {{this}} but {VALUE}",
        f"{VALUE} [note: checked]",
        f"As {{ said }}, [ nulls ] and [falsehoods] aside: {VALUE}",
    ],
)
def test_a_json_value_is_found_in_surrounding_text(text: str) -> None:
    assert find_json_values(text) == [VALUE]


@pytest.mark.parametrize("scalar", ["42", "-1.5", "true", "null"])
def test_a_bare_value_need_not_be_an_object(scalar: str) -> None:
    assert find_json_values(f" {scalar}\n") == [scalar]
    assert find_json_values(f"```json\n{scalar}\n```") == [scalar]


@table(
    "text",
    [
        "",
        " \n",
        "\ufeff",
        "```",
        "``````",
        "The answer is 42.",
        "{nothing} [here]",
        '{"a": {"b": 1}',
        'Sure: {"a": {"b": 1}, ',
        '[{"a": 1}, {"a": 2}',
        '[ true, {"a": 1}',
        '{"a": 1} {"b": ',
        '{"a": NaN} {"b": 1}',
        "[" * 100_000,
        "{" * 100_000,
    ],
)
def test_no_value_inside_of_broken_json_is_taken_for_the_answer(text: str) -> None:
    assert find_json_values(text) == []


def test_all_values_are_found_where_there_are_several() -> None:
    assert find_json_values('{"a": 1}\n{"a": 2} and []') == ['{"a": 1}', '{"a": 2}', "[]"]


def test_json_encoded_as_a_string_gives_the_string_and_its_content() -> None:
    assert find_json_values(r'"{\"a\": 1}"') == [r'"{\"a\": 1}"', '{"a": 1}']
    assert find_json_values('"Ulm"') == ['"Ulm"']


def test_too_many_values_give_none() -> None:
    assert len(find_json_values("{} " * 100)) == 100
    assert find_json_values("{} " * 101) == []
