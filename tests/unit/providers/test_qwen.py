"""Qwen: thinking budgets, streaming only, and replayed reasoning."""

from __future__ import annotations

from tests.support.outbound_requests import (
    CALLED,
    TOOL,
    configured,
    encode_request,
    make_request_plan,
)
from tests.support.tables import table

PROVIDER = configured("qwen")


@table(
    ("model", "effort", "sent"),
    [
        ("qwen-plus", "none", {"enable_thinking": False}),
        ("qwen-plus", "low", {"enable_thinking": True, "thinking_budget": 2048}),
        ("qwen3.8-max", "high", {"enable_thinking": True, "reasoning_effort": "high"}),
        ("qwen3.8-max", "none", {"enable_thinking": False}),
        ("qwen3-coder-plus", "high", {}),
        ("qwen-plus", None, {}),
    ],
)
def test_an_effort_is_a_budget_or_a_value_depending_on_the_model(
    model: str, effort: str | None, sent: dict[str, object]
) -> None:
    body = encode_request(PROVIDER, model, reasoning={"effort": effort})
    fields = ("enable_thinking", "thinking_budget", "reasoning_effort")
    assert {key: body[key] for key in body if key in fields} == sent


def test_reasoning_is_replayed_together_with_preserve_thinking() -> None:
    body = encode_request(PROVIDER, "qwen3.7-max", input=CALLED, tools=[TOOL])
    assert body["preserve_thinking"] is True
    assert body["messages"][1]["reasoning_content"] == "Let me look."
    body = encode_request(PROVIDER, "qwen-plus", input=CALLED, tools=[TOOL])
    assert "preserve_thinking" not in body
    assert "reasoning_content" not in body["messages"][1]


def test_a_request_without_streaming_is_sent_as_a_stream() -> None:
    body = encode_request(PROVIDER, stream=False)
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


def test_a_named_tool_disables_thinking() -> None:
    choice = {"type": "function", "name": "get_weather"}
    plan = make_request_plan(PROVIDER, "qwen-plus", tools=[TOOL], tool_choice=choice)
    assert plan.effort == "none"
    assert [each.code for each in plan.diagnostics] == ["effort.degraded"]
