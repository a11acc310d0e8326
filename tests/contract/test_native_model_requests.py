"""Providers with their own dialect: requests depend on the model version."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.errors import InvalidRequest
from tests.support.outbound_requests import TOOL, configured, encode_request, make_request_plan
from tests.support.tables import table

FORCED = {"type": "function", "name": "get_weather"}


@table(
    ("model", "effort", "thinking"),
    [
        ("claude-opus-5-5", "high", {"type": "adaptive", "display": "summarized"}),
        ("claude-opus-4-7", "none", {"type": "disabled"}),
        ("claude-sonnet-4-6", "high", {"type": "adaptive"}),
        ("claude-sonnet-4-5-20250929", "low", "a budget"),
        ("claude-3-5-haiku-latest", "high", None),
        ("claude-next-9", "low", {"type": "adaptive", "display": "summarized"}),
    ],
)
def test_claude_thinking_depends_on_its_version(model: str, effort: str, thinking: Any) -> None:
    body = encode_request(configured("anthropic"), model, reasoning={"effort": effort})
    found: Any = body.get("thinking")
    if thinking == "a budget":
        assert found["type"] == "enabled"
        assert 1024 <= found["budget_tokens"] < body["max_tokens"]
    else:
        assert found == thinking


def test_parameters_that_claude_ignores_while_thinking_are_reported() -> None:
    provider = configured("anthropic")
    plan = make_request_plan(
        provider, "claude-sonnet-4-5", temperature=0.5, top_p=0.5, reasoning={"effort": "low"}
    )
    assert [f"{each.code} {each.param}" for each in plan.diagnostics] == [
        "param.ignored temperature",
        "param.ignored top_p",
    ]
    plan = make_request_plan(provider, "claude-sonnet-4-5", temperature=0.5, top_p=0.5)
    assert plan.parameters == {"temperature": 0.5}
    assert [each.param for each in plan.diagnostics] == ["top_p"]
    plan = make_request_plan(
        provider, "claude-opus-5", tools=[TOOL], tool_choice=FORCED, reasoning={"effort": "low"}
    )
    assert [each.code for each in plan.diagnostics] == ["effort.degraded"]


def test_thinking_is_never_disabled_for_claude_models_that_always_think() -> None:
    provider = configured("anthropic")
    for request in ({"reasoning": {"effort": "none"}}, {"tools": [TOOL], "tool_choice": FORCED}):
        body = encode_request(provider, "claude-sonnet-5-5", **request)
        assert body.get("thinking", {}).get("type") != "disabled"
        assert "any" not in str(body.get("tool_choice"))


@pytest.mark.parametrize("prefix", ["", "us.", "global.", "arn:aws:bedrock:us-east-1:1:x/eu."])
def test_a_model_is_recognised_after_a_region_prefix(prefix: str) -> None:
    provider = configured("bedrock")
    can = provider.capabilities(f"{prefix}anthropic.claude-sonnet-4-5-20250929-v1:0")
    assert can.context_window == 200_000
    assert "json_schema" in can.formats
    assert "user" not in can.parameters


@table(
    ("model", "effort", "thinking"),
    [
        ("gemini-3.8-flash", "medium", {"thinkingLevel": "medium", "includeThoughts": True}),
        ("gemini-3-pro-preview", "medium", {"thinkingLevel": "high", "includeThoughts": True}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", "max", {"thinkingBudget": 32768, "includeThoughts": True}),
        ("gemini-2.0-flash", "high", None),
    ],
)
@table("name", ["gemini", "vertex"])
def test_gemini_thinking_depends_on_its_version(
    name: str, model: str, effort: str, thinking: Any
) -> None:
    body = encode_request(configured(name), model, reasoning={"effort": effort})
    assert body.get("generationConfig", {}).get("thinkingConfig") == thinking


def test_only_ai_studio_supports_search_together_with_functions() -> None:
    tools = [TOOL, {"type": "web_search"}]
    studio = encode_request(configured("gemini"), "gemini-3.8-flash", tools=tools)
    assert "googleSearch" in str(studio["tools"])
    with pytest.raises(InvalidRequest, match="together with functions"):
        encode_request(configured("vertex"), "gemini-3.8-flash", tools=tools)


@table(
    ("model", "effort", "value"),
    [
        ("gpt-6-astra", "max", "max"),
        ("gpt-5.6", "none", "none"),
        ("gpt-5.5", "max", "xhigh"),
        ("gpt-5-mini", "minimal", "minimal"),
        ("o4-mini", "xhigh", "high"),
        ("gpt-4o", "high", None),
    ],
)
def test_openai_efforts_depend_on_the_model(model: str, effort: str, value: str | None) -> None:
    body = encode_request(configured("openai"), model, reasoning={"effort": effort})
    assert body.get("reasoning", {}).get("effort") == value


def test_openai_gets_sampling_parameters_only_without_reasoning() -> None:
    provider = configured("openai")
    assert encode_request(provider, "gpt-4o", temperature=0.3)["temperature"] == 0.3
    assert "temperature" not in encode_request(provider, "gpt-5.5", temperature=0.3)
    quick = encode_request(provider, "gpt-5.5", temperature=0.3, reasoning={"effort": "none"})
    assert quick["temperature"] == 0.3
    assert "temperature" not in encode_request(provider, "gpt-5", temperature=0.3)


@pytest.mark.parametrize(
    ("model", "effort", "think"),
    [("qwen3:8b", "none", False), ("qwen3:8b", "low", True), ("gpt-oss:20b", "high", "high")],
)
def test_ollama_gets_think_in_the_form_of_the_model(model: str, effort: str, think: Any) -> None:
    assert (
        encode_request(configured("ollama"), model, reasoning={"effort": effort})["think"] == think
    )


@pytest.mark.parametrize("model", ["llama3.2", "qwen3-coder:30b"])
def test_ollama_gets_no_think_for_models_that_refuse_it(model: str) -> None:
    plan = make_request_plan(configured("ollama"), model, reasoning={"effort": "high"})
    assert plan.effort is None
    assert [each.code for each in plan.diagnostics] == ["effort.ignored"]


def test_ollama_is_asked_not_to_truncate_long_input() -> None:
    assert encode_request(configured("ollama"))["truncate"] is False


@pytest.mark.parametrize(
    ("effort", "think"),
    [("none", {"type": "disabled"}), ("low", {"type": "enabled", "token_budget": 1024})],
)
def test_cohere_gets_a_thinking_budget(effort: str, think: Any) -> None:
    body = encode_request(
        configured("cohere"), "command-a-reasoning-08-2025", reasoning={"effort": effort}
    )
    assert body["thinking"] == think
