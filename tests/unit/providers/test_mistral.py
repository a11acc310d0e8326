"""Mistral: call ids of nine characters, its tool choice, and refused fields."""

from __future__ import annotations

import re

import pytest

from tests.support.outbound_requests import (
    CALLED,
    TOOL,
    Document,
    configured,
    encode_request,
    make_request_plan,
)

PROVIDER = configured("mistral")


def test_every_call_id_has_nine_characters_in_call_and_output() -> None:
    messages = encode_request(PROVIDER, input=CALLED, tools=[TOOL])["messages"]
    [call] = messages[1]["tool_calls"]
    assert re.fullmatch("[a-zA-Z0-9]{9}", call["id"])
    assert messages[2]["tool_call_id"] == call["id"]


def test_a_valid_call_id_is_kept() -> None:
    own = [CALLED[0], *({**item, "call_id": "Ab3dEf9hI"} for item in CALLED[2:])]
    assert (
        encode_request(PROVIDER, input=own, tools=[TOOL])["messages"][2]["tool_call_id"]
        == "Ab3dEf9hI"
    )


def test_a_named_tool_is_sent_as_the_only_one_with_choice_any() -> None:
    request: Document = {
        "tools": [TOOL, {**TOOL, "name": "other"}],
        "tool_choice": {"type": "function", "name": "get_weather"},
    }
    body = encode_request(PROVIDER, **request)
    assert body["tool_choice"] == "any"
    assert [tool["function"]["name"] for tool in body["tools"]] == ["get_weather"]
    codes = [each.code for each in make_request_plan(PROVIDER, **request).diagnostics]
    assert "tool_choice.degraded" in codes


def test_refused_fields_are_not_sent() -> None:
    parameters = {**TOOL["parameters"], "$schema": "x", "$id": "y"}
    tool = {**TOOL, "parameters": parameters, "strict": True}
    body = encode_request(PROVIDER, tools=[tool], user="alice", stream=True, input=CALLED)
    text = str(body)
    for refused in ("strict", "$schema", "$id", "additionalProperties", "stream_options", "user_"):
        assert refused not in text
    assert "reasoning_content" not in text


@pytest.mark.parametrize(
    ("effort", "value", "codes"),
    [("none", "none", []), ("low", "high", ["effort.degraded"]), ("max", "high", [])],
)
def test_effort_is_high_or_none(effort: str, value: str, codes: list[str]) -> None:
    plan = make_request_plan(PROVIDER, "mistral-medium-3.5", reasoning={"effort": effort})
    assert (plan.effort, [each.code for each in plan.diagnostics]) == (value, codes)


def test_a_last_assistant_message_is_sent_as_a_prefix() -> None:
    begun = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert encode_request(PROVIDER, input=begun)["messages"][-1] == {
        "role": "assistant",
        "content": "b",
        "prefix": True,
    }
    assert "prefix" not in str(encode_request(PROVIDER, input="a"))
