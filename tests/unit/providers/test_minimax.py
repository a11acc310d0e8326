"""MiniMax: split reasoning, adaptive thinking, and fields that are never sent."""

from __future__ import annotations

import pytest

from tests.support.outbound_requests import (
    CALLED,
    TOOL,
    configured,
    encode_request,
    make_request_plan,
)

PROVIDER = configured("minimax")


def test_reasoning_split_is_requested() -> None:
    assert encode_request(PROVIDER)["reasoning_split"] is True
    assert encode_request(PROVIDER, "MiniMax-M2")["reasoning_split"] is True


@pytest.mark.parametrize(
    ("effort", "switch"), [("none", "disabled"), ("low", "adaptive"), ("max", "adaptive")]
)
def test_thinking_is_adaptive_or_disabled(effort: str, switch: str) -> None:
    body = encode_request(PROVIDER, reasoning={"effort": effort})
    assert body["thinking"] == {"type": switch}
    assert "reasoning_effort" not in body


def test_older_models_ignore_the_effort_with_a_diagnostic() -> None:
    plan = make_request_plan(PROVIDER, "MiniMax-M2.7-highspeed", reasoning={"effort": "none"})
    assert plan.effort is None
    assert [diagnostic.code for diagnostic in plan.diagnostics] == ["effort.ignored"]
    assert "thinking" not in encode_request(PROVIDER, "MiniMax-M2.7", reasoning={"effort": "none"})


def test_the_token_limit_is_sent_as_max_completion_tokens() -> None:
    assert encode_request(PROVIDER, max_output_tokens=64)["max_completion_tokens"] == 64


@pytest.mark.parametrize(("given", "sent"), [(0, 0.01), (0.7, 0.7), (1.7, 1)])
def test_a_temperature_is_clamped_to_the_vendors_range(given: float, sent: float) -> None:
    assert encode_request(PROVIDER, temperature=given)["temperature"] == sent


def test_all_reasoning_is_replayed() -> None:
    messages = encode_request(PROVIDER, input=CALLED, tools=[TOOL])["messages"]
    assert messages[1]["reasoning_content"] == "Let me look."
    said = [*CALLED[:2], {"role": "assistant", "content": "Rain."}]
    assert (
        encode_request(PROVIDER, input=said)["messages"][1]["reasoning_content"] == "Let me look."
    )


def test_no_reasoning_is_invented_for_turns_without_it() -> None:
    messages = encode_request(PROVIDER, input=[CALLED[0], *CALLED[2:]], tools=[TOOL])["messages"]
    assert "reasoning_content" not in messages[1]


@pytest.mark.parametrize(("model", "sees"), [("MiniMax-M3", True), ("minimax-m2.5", False)])
def test_model_names_are_case_insensitive(model: str, sees: bool) -> None:
    assert ("image" in PROVIDER.capabilities(model).inputs) is sees
