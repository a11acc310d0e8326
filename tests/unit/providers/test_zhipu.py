"""Zhipu's three kinds of thinking, and the fields that only it has."""

from __future__ import annotations

import pytest

from tests.support.outbound_requests import CALLED, TOOL, asked, configured, planned

PROVIDER = configured("zhipu")


@pytest.mark.parametrize(
    ("model", "effort", "switch", "word"),
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
def test_effort_is_a_word_or_a_switch_by_the_model(
    model: str, effort: str, switch: str, word: str | None
) -> None:
    body = asked(PROVIDER, model, reasoning={"effort": effort})
    assert body["thinking"] == {"type": switch, "clear_thinking": False}
    assert body.get("reasoning_effort") == word


def test_a_model_that_always_thinks_is_told_to_think_little_and_the_client_hears_of_it() -> None:
    plan = planned(PROVIDER, "glm-5.3", reasoning={"effort": "none"})
    assert plan.effort == "low"
    assert [diagnostic.code for diagnostic in plan.diagnostics] == ["effort.degraded"]


def test_reasoning_is_kept_over_all_turns() -> None:
    history = [*CALLED[:2], {"role": "assistant", "content": "Rain."}, *CALLED]
    messages = asked(PROVIDER, input=history, tools=[TOOL])["messages"]
    assert [message.get("reasoning_content") for message in messages] == [
        None,
        "Let me look.",
        None,
        "Let me look.",
        None,
    ]


def test_arguments_of_calls_are_streamed_where_the_model_can() -> None:
    assert asked(PROVIDER, tools=[TOOL], stream=True)["tool_stream"] is True
    assert "tool_stream" not in asked(PROVIDER, tools=[TOOL])
    assert "tool_stream" not in asked(PROVIDER, stream=True)
    assert "tool_stream" not in asked(PROVIDER, "glm-4.5-air", tools=[TOOL], stream=True)


def test_usage_in_a_stream_comes_without_asking() -> None:
    assert "stream_options" not in asked(PROVIDER, stream=True)


def test_a_bracketed_name_is_sent_without_its_brackets() -> None:
    assert asked(PROVIDER, "glm-5.3[1m]")["model"] == "glm-5.3"
    assert PROVIDER.capabilities("glm-5.3[1m]").context_window == 1_048_576


@pytest.mark.parametrize(("given", "sent"), [(0, 0), (0.5, 0.5), (2, 1)])
def test_a_temperature_is_kept_within_the_vendors_range(given: float, sent: float) -> None:
    assert asked(PROVIDER, temperature=given)["temperature"] == sent


@pytest.mark.parametrize(
    ("given", "sent"), [("alice-1", "alice-1"), ("alice", None), ("a" * 200, None)]
)
def test_a_user_id_of_a_refused_length_stays_here(given: str, sent: str | None) -> None:
    assert asked(PROVIDER, user=given).get("user_id") == sent
    told = [f"{each.code} {each.param}" for each in planned(PROVIDER, user=given).diagnostics]
    assert told == ["param.ignored user"] * (sent is None)


def test_a_search_is_the_vendors_own() -> None:
    search = {"type": "web_search", "search_context_size": "high"}
    [function, native] = asked(PROVIDER, tools=[TOOL, search])["tools"]
    assert function["type"] == "function"
    assert native["type"] == "web_search"
    assert native["web_search"]["content_size"] == "high"


def test_configuration_can_leave_the_search_out() -> None:
    provider = configured("zhipu", web_search="ignore")
    assert "tools" not in asked(provider, tools=[{"type": "web_search"}])


@pytest.mark.parametrize(
    ("model", "inputs"), [("glm-4.6v", {"text", "image"}), ("glm-4.6", {"text"})]
)
def test_only_the_vision_models_see(model: str, inputs: set[str]) -> None:
    assert PROVIDER.capabilities(model).inputs == inputs
