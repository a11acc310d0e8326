"""What a Responses upstream is reminded of: its own reasoning, just as it made it."""

from __future__ import annotations

import pytest

from antiphon.core.history.pairing import paired
from antiphon.core.history.read_items import canonical
from antiphon.core.history.steps import Thought
from antiphon.core.plan.plan import ReplayReasoning
from antiphon.core.stream.deltas import ReasoningState
from antiphon.dialects.responses.items import SCHEME
from antiphon.dialects.responses.quirks import ResponsesQuirks
from antiphon.wire.items import Document
from tests.support import captured_requests as captured
from tests.support.dialect_samples.history import answer, call, said
from tests.support.dialect_samples.responses_history import IN_PLAIN, items, sealed


def test_sealed_reasoning_goes_back_as_it_came() -> None:
    summary = [{"type": "summary_text", "text": "hm"}]
    thought = Thought(summary="hm", states=(sealed(summary=summary, format="v1"), sealed("rs_2")))
    found = items(thought, call(), answer("a"), replay_reasoning="always")
    assert found[:2] == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": summary,
            "encrypted_content": "gAAA",
            "format": "v1",
        },
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAA"},
    ]


@pytest.mark.parametrize(
    "thought",
    [
        Thought(text="hm"),
        Thought(summary="hm", encrypted="foreign"),
        Thought(states=(ReasoningState("other.scheme", {"id": "x"}),)),
        Thought(states=(ReasoningState(SCHEME, "odd"),)),
    ],
)
def test_reasoning_that_the_provider_did_not_make_is_left_out(thought: Thought) -> None:
    [item] = items(thought, said("assistant", "a"), replay_reasoning="always")
    assert item["type"] == "message"


@pytest.mark.parametrize(
    ("replay", "with_call", "goes_back"),
    [
        ("never", True, False),
        ("tool_turns", True, True),
        ("tool_turns", False, False),
        ("always", False, True),
    ],
)
def test_the_plan_says_which_turns_are_reminded(
    replay: ReplayReasoning, with_call: bool, goes_back: bool
) -> None:
    turn = (call(), answer("a")) if with_call else (said("assistant", "a"),)
    found = items(Thought(states=(sealed(),)), *turn, replay_reasoning=replay)
    assert (found[0]["type"] == "reasoning") == goes_back


def test_reasoning_that_led_to_nothing_is_left_out() -> None:
    late = Thought(states=(sealed(),))
    history = (call(), late, answer("a"))
    assert [item["type"] for item in items(*history, replay_reasoning="always")] == [
        "function_call",
        "function_call_output",
    ]
    quirks = ResponsesQuirks(trailing_reasoning=True)
    found = items(*history, quirks=quirks, replay_reasoning="always")
    assert found[1]["type"] == "reasoning"


def test_a_turn_that_only_thought_is_left_out() -> None:
    assert items(Thought(states=(sealed(),)), said("user", "hi"), replay_reasoning="always") == (
        items(said("user", "hi"))
    )


@pytest.mark.parametrize(
    ("thought", "expected"),
    [
        (Thought(text="hm"), {"id": "rs_1", "summary": []}),
        (Thought(summary="hm"), {"id": "rs_1", "summary": []}),
        (
            Thought(text="hm", states=(sealed(),)),
            {"id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        ),
    ],
)
def test_reasoning_goes_back_in_plain_where_it_is_taken(
    thought: Thought, expected: Document
) -> None:
    [item, _] = items(thought, said("assistant", "a"), replay_reasoning="always", quirks=IN_PLAIN)
    content = [{"type": "reasoning_text", "text": "hm"}]
    assert item == {"type": "reasoning", "content": content, **expected}


# --- real clients ---------------------------------------------------------------------------------


def test_every_captured_history_renders_to_a_valid_request() -> None:
    if not captured.bodies():
        pytest.skip(captured.ABSENT)
    inputs = frozenset({"text", "image"})
    for request in captured.bodies().values():
        steps, _ = canonical(request.get("input", []), inputs=inputs, tool_output_images=True)
        history, _ = paired(steps)
        found = items(*history, replay_reasoning="always", developer_role=True)
        assert len(found) >= 1
