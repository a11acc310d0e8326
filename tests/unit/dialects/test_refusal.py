"""Words for refusals of Claude, with and without an explanation."""

from __future__ import annotations

from antiphon.core.deltas import Delta, Refusal
from antiphon.dialects.refusal import read_refusal
from tests.support.tables import table

SILENT = "The model refused to respond."


@table(
    ("reason", "details", "expected"),
    [
        ("end_turn", None, []),
        ("refusal", None, [Refusal(SILENT)]),
        ("refusal", {"category": None, "explanation": None}, [Refusal(SILENT)]),
        ("refusal", {"category": "bio"}, [Refusal(f"{SILENT} Category: bio.")]),
        ("refusal", {"category": "bio", "explanation": "No."}, [Refusal("No.")]),
        ("refusal", {"reason": "content_filter", "explanation": None}, []),
        ("refusal", "bio", [Refusal(SILENT)]),
    ],
)
def test_a_refusal_has_words(reason: str, details: object, expected: list[Delta]) -> None:
    assert read_refusal(reason, details) == expected
