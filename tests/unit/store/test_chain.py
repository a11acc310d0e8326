"""The history items of a chain of turns."""

from __future__ import annotations

from typing import Any

from antiphon.store.chain import build_history
from tests.support.tables import table
from tests.support.turns import turn


def item(type: str, **fields: Any) -> dict[str, Any]:
    return {"type": type, **fields}


def test_history_is_the_input_and_output_of_every_turn_in_order() -> None:
    turns = [
        turn("a", input=(item("message", n=1), item("message", n=2)), output=(item("x", n=3),)),
        turn("b", "a", input=(), output=()),
        turn("c", "b", input=(item("function_call_output", n=4),), output=(item("y", n=5),)),
    ]
    assert [one["n"] for one in build_history(turns)] == [1, 2, 3, 4, 5]


def test_instructions_of_earlier_turns_are_not_replayed() -> None:
    answered = turn("a", response={"id": "a", "instructions": "Speak like a pirate."})
    assert "pirate" not in str(build_history([answered]))


@table("type", ["function_call", "custom_tool_call", "shell_call", "apply_patch_call"])
@table("status", ["incomplete", "in_progress"])
def test_a_truncated_tool_call_is_left_out_of_the_history(type: str, status: str) -> None:
    message = item("message", status="incomplete")
    truncated = turn(
        "a", status="incomplete", input=(), output=(message, item(type, status=status))
    )
    assert build_history([truncated]) == [message]


@table(
    "kept",
    [
        item("function_call", status="completed"),
        item("function_call"),
        item("reasoning", status="incomplete"),
        item("function_call_output", status="incomplete"),
        item("vendor:call", status="incomplete"),
        {"type": None, "status": "incomplete"},
        {"role": "user", "content": "no type at all"},
    ],
)
def test_every_other_output_item_is_kept_unchanged(kept: dict[str, Any]) -> None:
    assert build_history([turn("a", input=(), output=(kept,))]) == [kept]


def test_truncated_calls_in_the_input_are_kept() -> None:
    sent = item("function_call", status="incomplete")
    assert build_history([turn("a", input=(sent,), output=())]) == [sent]
