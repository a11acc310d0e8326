"""Limits for the schemas of all strict tools of a request."""

from __future__ import annotations

from typing import Any

from antiphon.core.capabilities import StrictLimits
from antiphon.core.plan.strict_tools import exceeds
from tests.support.tables import table

LIMITS = StrictLimits(tools=3, optional=2, unions=1)
TEXT: dict[str, Any] = {"type": "string"}
ONE: dict[str, Any] = {"properties": {"a": TEXT}}
EITHER: dict[str, Any] = {"anyOf": [TEXT, {"type": "null"}]}


@table(
    ("schemas", "exceeded"),
    [
        ([], False),
        ([None, {}, {"properties": [], "required": 5, "$defs": [], "items": True}], False),
        ([{}, {}, {}, {}], True),
        ([ONE, ONE], False),
        ([ONE, ONE, ONE], True),
        ([ONE, ONE, {**ONE, "required": ["a", {}]}], False),
        ([ONE, {"properties": {"a": ONE}}], True),
        ([ONE, {"items": {"$defs": {"a": {"allOf": [ONE, ONE]}}}}], True),
        ([EITHER], False),
        ([EITHER, {"type": ["string", "null"]}], True),
        ([EITHER, {"type": ["string"]}], False),
        ([{"oneOf": [EITHER]}], True),
    ],
)
def test_tools_optional_arguments_and_unions_are_counted_together(
    schemas: list[Any], exceeded: bool
) -> None:
    assert exceeds(LIMITS, schemas) is exceeded
