"""Xiaomi MiMo: requests without anything that it refuses."""

from __future__ import annotations

import json

import pytest

from antiphon.errors import InvalidRequest
from tests.support.outbound_requests import (
    CALLED,
    TOOL,
    configured,
    encode_request,
    make_request_plan,
)

PROVIDER = configured("xiaomi")


@pytest.mark.parametrize(
    ("effort", "value"),
    [
        ("minimal", "low"),
        ("medium", "medium"),
        ("high", "high"),
        ("xhigh", "high"),
        ("max", "high"),
    ],
)
def test_efforts_above_high_are_sent_as_high(effort: str, value: str) -> None:
    body = encode_request(PROVIDER, reasoning={"effort": effort})
    assert body["thinking"] == {"type": "enabled"}
    assert body["reasoning_effort"] == value


def test_effort_none_disables_thinking_and_allows_sampling() -> None:
    body = encode_request(PROVIDER, reasoning={"effort": "none"}, temperature=0.3, top_p=0.5)
    assert body["thinking"] == {"type": "disabled"}
    assert (body["temperature"], body["top_p"]) == (0.3, 0.5)
    assert "reasoning_effort" not in body


def test_sampling_parameters_are_ignored_while_thinking() -> None:
    for effort in (None, "low"):
        body = encode_request(PROVIDER, reasoning={"effort": effort}, temperature=0.3, top_p=0.5)
        assert body.keys().isdisjoint({"temperature", "top_p"})


def test_refused_fields_are_not_sent() -> None:
    nested = {
        **TOOL,
        "strict": True,
        "parameters": {
            **TOOL["parameters"],
            "properties": {"places": {"type": "array", "items": TOOL["parameters"]}},
        },
    }
    body = encode_request(
        PROVIDER, tools=[nested], parallel_tool_calls=False, user="alice", stream=True
    )
    text = json.dumps(body)
    for refused in ("strict", "additionalProperties", "parallel_tool_calls", "stream_options"):
        assert refused not in text
    assert body["tools"][0]["function"]["parameters"]["properties"]["places"]["items"]["required"]


def test_a_schema_for_additional_properties_is_kept() -> None:
    open_ended = {
        **TOOL,
        "parameters": {"type": "object", "additionalProperties": {"type": "null"}},
    }
    [tool] = encode_request(PROVIDER, tools=[open_ended])["tools"]
    assert tool["function"]["parameters"]["additionalProperties"] == {"type": "null"}


def test_null_content_is_sent_as_an_empty_string() -> None:
    messages = encode_request(PROVIDER, input=CALLED, tools=[TOOL])["messages"]
    assert [message["content"] for message in messages] == ["What is the forecast?", "", "Rain."]


def test_reasoning_is_replayed_with_its_tool_calls_even_if_empty() -> None:
    remembered = encode_request(PROVIDER, input=CALLED, tools=[TOOL])["messages"][1]
    assert remembered["reasoning_content"] == "Let me look."
    forgotten = encode_request(PROVIDER, input=[CALLED[0], *CALLED[2:]], tools=[TOOL])["messages"][
        1
    ]
    assert forgotten["reasoning_content"] == ""


def test_degraded_parameters_are_reported() -> None:
    plan = make_request_plan(PROVIDER, tools=[TOOL], tool_choice="required", temperature=0.5)
    assert plan.tool_choice.mode == "auto"
    assert [f"{each.code} {each.param}" for each in plan.diagnostics] == [
        "tool.degraded tools[0].parameters",
        "tool_choice.degraded tool_choice",
        "param.ignored temperature",
    ]


def test_native_search_uses_the_vendors_tool_if_configured() -> None:
    search = [{"type": "web_search"}]
    with pytest.raises(InvalidRequest):
        encode_request(PROVIDER, tools=search)
    native = configured("xiaomi", web_search="native")
    assert encode_request(native, tools=search)["tools"] == [
        {"type": "web_search", "max_keyword": 3, "limit": 3}
    ]
