"""Hosts of open models, and self-hosted servers."""

from __future__ import annotations

from typing import Any

from tests.support.outbound_requests import (
    CALLED,
    TOOL,
    Document,
    configured,
    encode_request,
    make_request_plan,
)
from tests.support.tables import table


@table(
    ("name", "model", "effort", "sent"),
    [
        ("groq", "openai/gpt-oss-120b", "xhigh", {"reasoning_effort": "high"}),
        ("groq", "qwen/qwen3.8-27b", "low", {"reasoning_effort": "default"}),
        ("cerebras", "qwen-3.8-27b", "none", {"reasoning_effort": "none"}),
        ("cerebras", "zai-glm-4.7", "high", {}),
        ("xai", "grok-4.7", "max", {"reasoning_effort": "xhigh"}),
        ("xai", "grok-4.5", "max", {"reasoning_effort": "high"}),
        ("xai", "grok-4.20-non-reasoning", "high", {}),
        ("fireworks", "accounts/fireworks/models/kimi-k3", "max", {"reasoning_effort": "max"}),
        (
            "fireworks",
            "accounts/fireworks/models/gpt-oss-120b",
            "max",
            {"reasoning_effort": "high"},
        ),
        ("fireworks", "accounts/fireworks/models/llama-v3p3-70b", "max", {}),
        ("together", "openai/gpt-oss-20b", "low", {"reasoning_effort": "low"}),
        ("together", "meta-llama/Llama-3.3-70B-Instruct-Turbo", "low", {}),
        ("azure", "o4-mini", "max", {"reasoning_effort": "high"}),
        ("github", "openai/gpt-5-mini", "low", {"reasoning_effort": "low"}),
        ("github", "openai/gpt-4.1", "low", {}),
        ("vllm", "m", "high", {"reasoning_effort": "high"}),
        ("vllm", "m", "none", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("sglang", "m", "none", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("llamacpp", "m", "low", {"chat_template_kwargs": {"reasoning_effort": "low"}}),
        ("llamacpp", "m", "none", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("lmstudio", "m", "high", {}),
    ],
)
def test_an_effort_is_sent_in_the_form_of_host_and_model(
    name: str, model: str, effort: str, sent: dict[str, Any]
) -> None:
    body = encode_request(configured(name), model, reasoning={"effort": effort})
    fields = ("reasoning_effort", "chat_template_kwargs")
    assert {key: body[key] for key in body if key in fields} == sent


def test_groq_separates_the_reasoning_of_qwen_from_the_text() -> None:
    provider = configured("groq")
    assert encode_request(provider, "qwen/qwen3-32b")["reasoning_format"] == "parsed"
    assert "reasoning_format" not in encode_request(provider, "openai/gpt-oss-20b")


def test_a_call_id_too_long_for_azure_is_shortened_in_call_and_output() -> None:
    long = [CALLED[0], *({**item, "call_id": "x" * 41} for item in CALLED[2:])]
    messages = encode_request(configured("azure"), input=long, tools=[TOOL])["messages"]
    assert messages[1]["tool_calls"][0]["id"] == messages[2]["tool_call_id"]
    assert len(messages[2]["tool_call_id"]) == 40
    messages = encode_request(configured("azure"), input=CALLED, tools=[TOOL])["messages"]
    assert messages[2]["tool_call_id"] == "call_1"


def test_lm_studio_never_gets_json_object() -> None:
    provider = configured("lmstudio")
    form: Document = {"text": {"format": {"type": "json_object"}}}
    assert "response_format" not in encode_request(provider, **form)
    assert [each.code for each in make_request_plan(provider, **form).diagnostics] == [
        "format.degraded"
    ]


def test_perplexity_gets_tool_calls_as_text_in_alternating_roles() -> None:
    provider = configured("perplexity")
    thread = [*CALLED, {"role": "user", "content": "And tomorrow?"}]
    messages = encode_request(provider, input=thread, instructions="Be brief.")["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert "get_weather" in messages[2]["content"]
    assert messages[3]["content"].endswith("Rain.\n\nAnd tomorrow?")
    plan = make_request_plan(provider, tools=[TOOL])
    assert plan.declarations == ()
    assert [each.code for each in plan.diagnostics] == ["tool.ignored"]
