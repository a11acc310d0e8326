"""Thoughts in the content of Gemini's Chat endpoint."""

from __future__ import annotations

from typing import Any

from antiphon.dialects.chat.thoughts import ThoughtSplitter
from tests.support.tables import table

MARK = {"google": {"thought": True}}


@table(
    ("contents", "expected"),
    [
        (
            [("<thought>a", MARK), ("b", MARK), ("</thought>c", None), ("</thought>d", None)],
            [("a", ""), ("b", ""), ("", "c"), ("", "</thought>d")],
        ),
        (
            [("<thought>a", MARK), ("", None), (None, None), ("</thought>b", {})],
            [("a", ""), ("", ""), ("", None), ("", "b")],
        ),
        (
            [("<thought>a</thought>b", MARK), ("</thought>c", None)],
            [("a", "b"), ("", "</thought>c")],
        ),
        ([("a", {"google": {"thought": False}}), ("b", [])], [("", "a"), ("", "b")]),
        ([([{"type": "text"}], MARK)], [("", [{"type": "text"}])]),
    ],
)
def test_marked_content_is_a_thought_up_to_its_closing_tag(
    contents: list[tuple[Any, Any]], expected: list[tuple[str, Any]]
) -> None:
    splitter = ThoughtSplitter()
    assert [splitter.split(content, extra) for content, extra in contents] == expected
