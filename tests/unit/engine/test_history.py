"""The stored history of a request: when it is large."""

from __future__ import annotations

from typing import Any

from antiphon.engine.history import History, name_session
from tests.support.tables import table

SHORT = {"type": "message", "role": "user", "content": "Hi"}
LONG = "x" * 300_000


@table(
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


def test_a_session_never_quotes_a_cache_key_that_is_a_text() -> None:
    uuid = "6f1c8a5e-2b7d-4c1a-9e3f-0a1b2c3d4e5f"
    assert name_session(uuid) == uuid
    named = name_session("the patient's name")
    assert named is not None
    assert named == name_session("the patient's name") != name_session("another")
    assert named.startswith("key-")
    assert "patient" not in named
