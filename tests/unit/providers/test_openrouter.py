"""OpenRouter: efforts, costs, and replayed state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.steps import MessageStep, ReasoningStep, TextPart, ToolCallStep
from antiphon.core.plan.plan import Plan
from antiphon.errors import InvalidRequest
from tests.support.outbound_requests import configured, encode_request
from tests.support.vendor_answers import STREAMED, WHOLE

PROVIDER = configured("openrouter")


def replay(deltas: list[Any]) -> Any:
    """Return the message of the turn in the next request, with its state."""
    states = tuple(each for each in deltas if isinstance(each, ReasoningState))
    history = (
        MessageStep("user", (TextPart("hi"),)),
        ReasoningStep("Let me see.", states=states),
        ToolCallStep("call_1", "get_weather", "{}"),
    )
    plan = Plan(provider="openrouter", model="m", history=history)
    return json.loads(PROVIDER.dialect.encode(plan, stream=False).body)["messages"][1]


def test_streamed_reasoning_details_are_replayed_as_one_list() -> None:
    framer, decoder = PROVIDER.dialect.framer(), PROVIDER.dialect.decoder()
    frames = [*framer.feed(STREAMED["openrouter"]), *framer.close()]
    message = replay([delta for frame in frames for delta in decoder.feed(frame)])
    assert message["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "Let me see."}
    ]
    assert message.keys() == {"role", "content", "reasoning_details", "tool_calls"}


def test_reasoning_details_of_a_whole_answer_are_replayed_unchanged() -> None:
    [sent] = json.loads(WHOLE["openrouter"])["choices"][0]["message"]["reasoning_details"]
    message = replay(PROVIDER.dialect.decode(WHOLE["openrouter"]))
    assert message["reasoning_details"] == [sent]


def test_an_effort_is_sent_in_the_reasoning_object_up_to_xhigh() -> None:
    assert encode_request(PROVIDER, reasoning={"effort": "max"})["reasoning"] == {"effort": "xhigh"}
    assert "reasoning" not in encode_request(PROVIDER)


def test_usage_with_cost_is_requested() -> None:
    assert encode_request(PROVIDER)["usage"] == {"include": True}


def test_native_search_uses_openrouters_tool_if_configured() -> None:
    search = [{"type": "web_search"}]
    with pytest.raises(InvalidRequest):
        encode_request(PROVIDER, tools=search)
    native = configured("openrouter", web_search="native")
    assert encode_request(native, tools=search)["tools"] == [{"type": "openrouter:web_search"}]


def test_a_breakpoint_is_requested_for_models_that_need_one() -> None:
    body = encode_request(PROVIDER, "anthropic/claude-sonnet-4.5")
    assert body["cache_control"] == {"type": "ephemeral"}
    assert [*body][-1] == "messages"
    assert "cache_control" not in encode_request(PROVIDER, "openai/gpt-5.4")
