"""Histories as messages of Cohere requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.capabilities import ReplayReasoning
from antiphon.core.deltas import ReasoningState
from antiphon.core.history.steps import (
    MessageStep,
    ReasoningStep,
    RefusalPart,
    Step,
    TextPart,
    ToolCallStep,
)
from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.dialects.cohere.encode import encode
from antiphon.dialects.cohere.quirks import CohereQuirks
from antiphon.dialects.cohere.reasoning_state import THINKING, TOOL_PLAN
from tests.support.dialect_samples.cohere_history import messages
from tests.support.dialect_samples.history import answer, message_step

GO_ON = {"role": "user", "content": "Continue."}


HI = {"role": "user", "content": "hi"}


def reasoning_with_states(scheme: str, *values: Any) -> ReasoningStep:
    states = tuple(ReasoningState(scheme, value, "block") for value in values)
    return ReasoningStep("as shown", states=states)


def message_with_call(*before: Step, **fields: Any) -> Document:
    """The assistant message of a turn that ends with a call."""
    history = (
        message_step("user", "hi"),
        *before,
        ToolCallStep("a", "look", "{}"),
        answer("a", "1"),
    )
    return messages(*history, **fields)[1]


def test_instructions_come_first_and_messages_keep_their_order() -> None:
    history = (
        message_step("developer", "a"),
        message_step("user", "b", "c"),
        message_step("system", "d"),
        message_step("user", "e"),
    )
    assert messages(*history, instructions="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "a"},
        {"role": "user", "content": "b\nc"},
        {"role": "system", "content": "d"},
        {"role": "user", "content": "e"},
    ]


def test_a_turn_of_several_items_is_one_message() -> None:
    history = (
        message_step("user", "hi"),
        MessageStep("assistant", (TextPart("O"), RefusalPart("ne."))),
        message_step("assistant", "Two."),
        message_step("user", "go on"),
    )
    assert messages(*history)[1] == {"role": "assistant", "content": "One.\n\nTwo."}


def test_results_follow_their_calls() -> None:
    history = (
        message_step("user", "hi"),
        ToolCallStep("a", "look", '{"x": 1}'),
        ToolCallStep("b", "look", "{}"),
        answer("a", "1", "2"),
        answer("b", " "),
    )
    assert messages(*history) == [
        HI,
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"x": 1}'},
                },
                {"id": "b", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1\n2"},
        {"role": "tool", "tool_call_id": "b", "content": "[no output]"},
    ]


def test_assistant_messages_follow_a_user_message_and_one_ends_the_history() -> None:
    spoken = message_step("assistant", "Well.")
    well = {"role": "assistant", "content": "Well."}
    assert messages(spoken) == [GO_ON, well, GO_ON]
    assert messages(message_step("system", "a"), spoken, message_step("user", "hi"))[1:] == [
        GO_ON,
        well,
        HI,
    ]
    assert messages(message_step("user", "hi"), message_step("developer", "a")) == [
        HI,
        {"role": "system", "content": "a"},
        GO_ON,
    ]


def test_an_empty_history_has_one_user_message() -> None:
    outbound = encode(Plan(provider="p", model="m", instructions=" "), stream=True)
    assert json.loads(outbound.body)["messages"] == [GO_ON]


def test_a_turn_without_text_or_calls_is_left_out() -> None:
    assert messages(message_step("user", "hi"), ReasoningStep("hm")) == [HI]
    assert messages(message_step("user", "hi"), message_step("assistant", " ")) == [HI]


def test_blank_text_becomes_a_placeholder() -> None:
    assert messages(message_step("user", " "))[0]["content"] == "[no text]"
    assert (
        messages(message_step("system", "\n"), message_step("user", "hi"))[0]["content"]
        == "[no text]"
    )


def test_a_call_uses_the_declared_name_of_its_tool() -> None:
    identities = ToolIdentityMap([ToolIdentity("box__look", "look", namespace="box")])
    history = (ToolCallStep("a", "look", "{}", "box"), ToolCallStep("b", "nä.h", "{}"))
    [_, assistant, *_] = messages(
        *history, answer("a", "1"), answer("b", "2"), identities=identities
    )
    names = [call["function"]["name"] for call in assistant["tool_calls"]]
    assert names[0] == "box__look"
    assert names[1].startswith("n__h")


def test_a_tool_plan_is_sent_back_unchanged() -> None:
    message = message_with_call(reasoning_with_states(TOOL_PLAN, "I will look.\n"))
    assert message["tool_plan"] == "I will look.\n"
    assert "content" not in message


def test_text_beside_calls_becomes_the_tool_plan() -> None:
    assert (
        message_with_call(message_step("assistant", "Let me look."))["tool_plan"] == "Let me look."
    )
    both = message_with_call(
        reasoning_with_states(TOOL_PLAN, "I will look."), message_step("assistant", "Wait.")
    )
    assert both["tool_plan"] == "I will look.\n\nWait."


def test_thinking_blocks_are_sent_back_beside_calls() -> None:
    message = message_with_call(
        reasoning_with_states(THINKING, "hm", "so"),
        reasoning_with_states(TOOL_PLAN, "plan"),
        message_step("assistant", "Wait."),
    )
    assert "tool_plan" not in message
    assert [block["thinking"] for block in message["content"]] == ["hm", "so", "plan", "Wait."]


def test_thinking_of_other_providers_is_left_out() -> None:
    foreign = reasoning_with_states("anthropic.thinking", {"thinking": "hm"})
    for thought in (ReasoningStep("hm"), foreign, reasoning_with_states(THINKING, 1)):
        assert message_with_call(thought).keys() == {"role", "tool_calls"}


def test_thinking_is_left_out_while_thinking_is_off() -> None:
    message = message_with_call(
        reasoning_with_states(THINKING, "hm"),
        reasoning_with_states(TOOL_PLAN, "plan"),
        effort="disabled",
    )
    assert message["tool_plan"] == "plan"
    assert "content" not in message


@pytest.mark.parametrize(
    ("replay", "content"),
    [
        ("never", "Done."),
        ("tool_turns", "Done."),
        (
            "always",
            [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Done."}],
        ),
    ],
)
def test_thinking_before_an_answer_is_sent_back_only_if_replay_is_always(
    replay: ReplayReasoning, content: Any
) -> None:
    history = (
        message_step("user", "hi"),
        reasoning_with_states(THINKING, "hm"),
        message_step("assistant", "Done."),
    )
    found = messages(*history, message_step("user", "hi"), replay_reasoning=replay)
    assert found[1] == {"role": "assistant", "content": content}


def test_results_can_be_sent_as_documents() -> None:
    quirks = CohereQuirks(tool_results="documents")
    history = (
        message_step("user", "hi"),
        ToolCallStep("a", "look", "{}"),
        ToolCallStep("b", "look", "{}"),
    )
    results = (answer("a", '{"x": 1e2}', "two", "[1]"), answer("b", " "))
    plan = Plan(provider="p", model="m", history=history + results)
    assert b'"data":{"x": 1e2}' in encode(plan, stream=True, quirks=quirks).body
    *_, first, second = messages(*history, *results, quirks=quirks)
    assert [block["document"]["data"] for block in first["content"]] == [
        {"x": 100},
        {"content": "two"},
        {"content": "[1]"},
    ]
    assert second["content"] == [
        {"type": "document", "document": {"data": {"content": "[no output]"}}}
    ]
