"""Validation of `text` and `reasoning`."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.dialects.responses.parse_format import output_format, reasoning_options, text_options
from antiphon.errors import InvalidRequest
from tests.support.tables import table

SCHEMA: dict[str, Any] = {"type": "json_schema", "name": "trip", "schema": {"type": "object"}}


@pytest.mark.parametrize(
    "value",
    [
        {"type": "text"},
        {"type": "json_object"},
        SCHEMA,
        {**SCHEMA, "description": "A trip.", "strict": True},
        {**SCHEMA, "description": None, "strict": None},
    ],
)
def test_a_valid_format_is_returned_unchanged(value: dict[str, Any]) -> None:
    assert output_format(value, "text.format") == value


@table(
    ("value", "param", "code"),
    [
        ({}, "text.format.type", "missing_required_parameter"),
        ({"type": "xml"}, "text.format.type", "invalid_value"),
        (
            {"type": "json_schema", "name": "trip"},
            "text.format.schema",
            "missing_required_parameter",
        ),
        ({**SCHEMA, "name": "a trip"}, "text.format.name", "invalid_value"),
        ({**SCHEMA, "name": "x" * 65}, "text.format.name", "invalid_value"),
        ({**SCHEMA, "schema": "{}"}, "text.format.schema", "invalid_type"),
        ({**SCHEMA, "strict": "yes"}, "text.format.strict", "invalid_type"),
    ],
)
def test_an_invalid_format_is_rejected(value: dict[str, Any], param: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        output_format(value, "text.format")
    assert (caught.value.param, caught.value.wire_code) == (param, code)


def test_verbosity_is_one_of_three_levels() -> None:
    assert text_options({"verbosity": "low"}, "text") == {"verbosity": "low"}
    with pytest.raises(InvalidRequest, match=r"'text.verbosity' cannot be 'lo'.*mean 'low'"):
        text_options({"verbosity": "lo"}, "text")


def test_any_effort_is_accepted_but_not_an_empty_one() -> None:
    options = {"effort": "ultra", "summary": "auto", "context": "all_turns", "mode": "pro"}
    assert reasoning_options(options, "reasoning") == options
    with pytest.raises(InvalidRequest, match=r"'reasoning.effort' must not be empty"):
        reasoning_options({"effort": " "}, "reasoning")
    with pytest.raises(InvalidRequest, match=r"'reasoning.summary' cannot be 'long'"):
        reasoning_options({"summary": "long"}, "reasoning")
