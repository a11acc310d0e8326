"""Zhipu: three kinds of thinking, and its own fields."""

from __future__ import annotations

import pytest

from tests.support.outbound_requests import (
    CALLED,
    TOOL,
    configured,
    encode_request,
    make_request_plan,
)
from tests.support.tables import table

PROVIDER = configured("zhipu")


@table(
    ("model", "effort", "switch", "value"),
    [
        ("glm-5.3", "minimal", "enabled", "low"),
        ("glm-5.3", "low", "enabled", "low"),
        ("glm-5.3", "medium", "enabled", "high"),
        ("glm-5.3", "max", "enabled", "max"),
        ("glm-5.3-flash", "low", "enabled", "low"),
        ("glm-5.2", "none", "disabled", None),
        ("glm-5.2", "minimal", "disabled", None),
        ("glm-5.2", "low", "enabled", "high"),
        ("glm-5.2", "xhigh", "enabled", "max"),
        ("glm-4.7", "none", "disabled", None),
        ("glm-4.7", "minimal", "enabled", None),
        ("glm-4.5-air", "max", "enabled", None),
        ("glm-5-turbo", "high", "enabled", None),
    ],
)
def test_effort_is_a_value_or_a_switch_depending_on_the_model(
    model: str, effort: str, switch: str, value: str | None
) -> None:
    body = encode_request(PROVIDER, model, reasoning={"effort": effort})
    assert body["thinking"] == {"type": switch, "clear_thinking": False}
    assert body.get("reasoning_effort") == value


def test_effort_none_is_degraded_to_low_for_a_model_that_always_thinks() -> None:
    plan = make_request_plan(PROVIDER, "glm-5.3", reasoning={"effort": "none"})
    assert plan.effort == "low"
    assert [diagnostic.code for diagnostic in plan.diagnostics] == ["effort.degraded"]


def test_reasoning_is_replayed_in_all_turns() -> None:
    history = [*CALLED[:2], {"role": "assistant", "content": "Rain."}, *CALLED]
    messages = encode_request(PROVIDER, input=history, tools=[TOOL])["messages"]
    assert [message.get("reasoning_content") for message in messages] == [
        None,
        "Let me look.",
        None,
        "Let me look.",
        None,
    ]


def test_tool_stream_is_requested_for_models_that_support_it() -> None:
    assert encode_request(PROVIDER, tools=[TOOL], stream=True)["tool_stream"] is True
    assert "tool_stream" not in encode_request(PROVIDER, tools=[TOOL])
    assert "tool_stream" not in encode_request(PROVIDER, stream=True)
    assert "tool_stream" not in encode_request(PROVIDER, "glm-4.5-air", tools=[TOOL], stream=True)


def test_stream_options_are_not_sent() -> None:
    assert "stream_options" not in encode_request(PROVIDER, stream=True)


def test_a_bracketed_suffix_of_the_model_name_is_removed() -> None:
    assert encode_request(PROVIDER, "glm-5.3[1m]")["model"] == "glm-5.3"
    assert PROVIDER.capabilities("glm-5.3[1m]").context_window == 1_048_576


@pytest.mark.parametrize(("given", "sent"), [(0, 0), (0.5, 0.5), (2, 1)])
def test_a_temperature_is_clamped_to_the_vendors_range(given: float, sent: float) -> None:
    assert encode_request(PROVIDER, temperature=given)["temperature"] == sent


@pytest.mark.parametrize(
    ("given", "sent"), [("alice-1", "alice-1"), ("alice", None), ("a" * 200, None)]
)
def test_a_user_id_of_a_refused_length_is_not_sent(given: str, sent: str | None) -> None:
    assert encode_request(PROVIDER, user=given).get("user_id") == sent
    reported = [
        f"{each.code} {each.param}" for each in make_request_plan(PROVIDER, user=given).diagnostics
    ]
    assert reported == ["param.ignored user"] * (sent is None)


def test_native_search_uses_the_vendors_tool() -> None:
    search = {"type": "web_search", "search_context_size": "high"}
    [function, native] = encode_request(PROVIDER, tools=[TOOL, search])["tools"]
    assert function["type"] == "function"
    assert native["type"] == "web_search"
    assert native["web_search"]["content_size"] == "high"


def test_search_can_be_ignored_by_configuration() -> None:
    provider = configured("zhipu", web_search="ignore")
    assert "tools" not in encode_request(provider, tools=[{"type": "web_search"}])


@pytest.mark.parametrize(
    ("model", "inputs"), [("glm-4.6v", {"text", "image"}), ("glm-4.6", {"text"})]
)
def test_only_the_vision_models_accept_images(model: str, inputs: set[str]) -> None:
    assert PROVIDER.capabilities(model).inputs == inputs
