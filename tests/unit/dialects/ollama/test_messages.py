"""Histories as messages of Ollama requests."""

from __future__ import annotations

import json

import pytest

from antiphon.core.capabilities import ReplayReasoning
from antiphon.core.history.steps import (
    MessageStep,
    ReasoningStep,
    RefusalPart,
    TextPart,
    ToolCallStep,
)
from antiphon.core.plan.plan import Plan
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.dialects.ollama.encode import encode
from tests.support.dialect_samples.history import answer, message_step
from tests.support.dialect_samples.ollama_history import messages


def test_an_empty_history_has_one_user_message() -> None:
    outbound = encode(Plan(provider="p", model="m"), stream=True)
    assert json.loads(outbound.body)["messages"] == [{"role": "user", "content": ""}]


def test_instructions_come_first_and_messages_keep_their_order() -> None:
    history = (
        message_step("developer", "a"),
        message_step("user", "b", "c"),
        message_step("system", "d"),
    )
    assert messages(*history, instructions="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "a"},
        {"role": "user", "content": "b\nc"},
        {"role": "system", "content": "d"},
    ]


def test_a_turn_of_several_items_is_one_message() -> None:
    history = (
        ReasoningStep("hm"),
        MessageStep("assistant", (TextPart("O"), RefusalPart("ne."))),
        message_step("assistant", "Two."),
        ToolCallStep("a", "look", '{"x":  1e2}'),
        ToolCallStep("b", "look", "{}"),
        answer("a", "1"),
        answer("b", "2"),
    )
    plan = Plan(provider="p", model="m", history=history)
    sent = encode(plan, stream=False).body
    assert b'"arguments":{"x":  1e2}' in sent  # as the model wrote it
    assert messages(*history) == [
        {
            "role": "assistant",
            "content": "One.\n\nTwo.",
            "tool_calls": [
                {"id": "a", "function": {"name": "look", "arguments": {"x": 100}}},
                {"id": "b", "function": {"name": "look", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "1", "tool_name": "look", "tool_call_id": "a"},
        {"role": "tool", "content": "2", "tool_name": "look", "tool_call_id": "b"},
    ]


def test_a_turn_of_reasoning_alone_is_not_sent() -> None:
    assert messages(message_step("user", "hi"), ReasoningStep("hm")) == [
        {"role": "user", "content": "hi"}
    ]


@pytest.mark.parametrize(
    ("replay", "on_calls", "on_words"),
    [("never", None, None), ("tool_turns", "hm so", None), ("always", "hm so", "sum")],
)
def test_the_plan_decides_whether_reasoning_is_sent_back(
    replay: ReplayReasoning, on_calls: str | None, on_words: str | None
) -> None:
    called, _, spoke = messages(
        ReasoningStep("hm "),
        ReasoningStep("so"),
        ToolCallStep("a", "look", "{}"),
        answer("a", "1"),
        ReasoningStep(summary="sum"),
        message_step("assistant", "Done."),
        replay_reasoning=replay,
    )
    assert called.get("thinking") == on_calls
    assert spoke.get("thinking") == on_words


def test_calls_and_results_use_the_declared_name_of_their_tool() -> None:
    identities = ToolIdentityMap([ToolIdentity("box__look", "look", namespace="box")])
    history = (ToolCallStep("a", "look", "{}", "box"), ToolCallStep("b", "nä.h", "{}"))
    results = (answer("a", "1"), answer("b", "2"))
    [assistant, first, second] = messages(*history, *results, identities=identities)
    names = [call["function"]["name"] for call in assistant["tool_calls"]]
    assert names[0] == first["tool_name"] == "box__look"
    assert names[1] == second["tool_name"]
    assert names[1].startswith("n__h")
