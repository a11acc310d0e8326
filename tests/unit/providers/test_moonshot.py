"""Moonshot: a thinking switch, efforts of the newest model, and required reasoning."""

from __future__ import annotations

from tests.support.outbound_requests import (
    CALLED,
    TOOL,
    configured,
    encode_request,
    make_request_plan,
)
from tests.support.tables import table

PROVIDER = configured("moonshot")


@table(
    ("model", "effort", "sent"),
    [
        ("kimi-k3", "none", {"thinking": {"type": "disabled"}}),
        ("kimi-k3", "medium", {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ("kimi-k3", "max", {"thinking": {"type": "enabled"}, "reasoning_effort": "max"}),
        ("kimi-k3", None, {}),
        ("kimi-k2.6", "none", {"thinking": {"type": "disabled"}}),
        ("kimi-k2.6", "high", {"thinking": {"type": "enabled"}}),
        ("kimi-k2.7-code", "low", {"thinking": {"type": "enabled"}}),
        ("moonshot-v1-128k", "low", {}),
    ],
)
def test_thinking_is_a_switch_or_an_effort_depending_on_the_model(
    model: str, effort: str | None, sent: dict[str, object]
) -> None:
    body = encode_request(PROVIDER, model, reasoning={"effort": effort})
    assert {key: body[key] for key in body if key not in ("model", "messages")} == sent


def test_effort_none_is_degraded_for_the_coding_model() -> None:
    plan = make_request_plan(PROVIDER, "kimi-k2.7-code", reasoning={"effort": "none"})
    assert plan.effort == "enabled"
    assert [each.code for each in plan.diagnostics] == ["effort.degraded"]


def test_sampling_parameters_are_sent_only_to_old_models() -> None:
    assert "temperature" not in encode_request(PROVIDER, "kimi-k2.6", temperature=0.3)
    assert encode_request(PROVIDER, "moonshot-v1-8k", temperature=1.7)["temperature"] == 1


def test_a_tool_call_without_its_reasoning_gets_a_space() -> None:
    remembered = encode_request(PROVIDER, input=CALLED, tools=[TOOL])["messages"][1]
    assert remembered["reasoning_content"] == "Let me look."
    forgotten = encode_request(PROVIDER, input=[CALLED[0], *CALLED[2:]], tools=[TOOL])["messages"][
        1
    ]
    assert forgotten["reasoning_content"] == " "


def test_call_ids_that_repeat_in_every_turn_are_kept() -> None:
    call = {**CALLED[2], "call_id": "functions.get_weather:0"}
    output = {**CALLED[3], "call_id": "functions.get_weather:0"}
    messages = encode_request(PROVIDER, input=[CALLED[0], call, output], tools=[TOOL])["messages"]
    assert messages[1]["tool_calls"][0]["id"] == "functions.get_weather:0"
    assert messages[2]["tool_call_id"] == "functions.get_weather:0"
