"""The stored history of a request: when it is large."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.engine.history import History

SHORT = {"type": "message", "role": "user", "content": "Hi"}
LONG = "x" * 300_000


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([SHORT] * 300, False),
        ([SHORT] * 301, True),
        ([{**SHORT, "content": LONG}], True),
        ([{**SHORT, "content": [{"type": "input_text", "text": LONG}, "?", None]}], True),
        ([{"type": "function_call_output", "call_id": "c", "output": LONG}], True),
        ([{**SHORT, "content": [{"type": "input_text", "text": "Hi"}]}], False),
    ],
)
def test_a_history_is_large_by_its_items_or_by_its_text(
    items: list[dict[str, Any]], expected: bool
) -> None:
    assert History(items, is_cut=False).is_large is expected
