"""DeepSeek: the thinking switch, efforts, and what thinking excludes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.outbound_requests import (
    CALLED,
    TOOL,
    Document,
    configured,
    encode_request,
    make_request_plan,
)
from tests.support.tables import table

PROVIDER = configured("deepseek")
SAMPLING: Document = {
    "temperature": 0.3,
    "top_p": 0.9,
    "presence_penalty": 1,
    "frequency_penalty": 1,
}


@table(
    ("effort", "value"),
    [
        ("minimal", "low"),
        ("low", "low"),
        ("medium", "high"),
        ("high", "high"),
        ("xhigh", "high"),
        ("max", "max"),
    ],
)
def test_every_effort_is_sent_as_the_vendors_value(effort: str, value: str) -> None:
    body = encode_request(PROVIDER, reasoning={"effort": effort})
    assert body["thinking"] == {"type": "enabled"}
    assert body["reasoning_effort"] == value


def test_effort_none_disables_thinking() -> None:
    body = encode_request(PROVIDER, reasoning={"effort": "none"})
    assert body["thinking"] == {"type": "disabled"}
    assert "reasoning_effort" not in body


def test_without_an_effort_no_thinking_parameter_is_sent() -> None:
    body = encode_request(PROVIDER)
    assert body.keys() == {"model", "messages"}


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}])
def test_a_forced_tool_call_disables_thinking(choice: Any) -> None:
    body = encode_request(PROVIDER, tools=[TOOL], tool_choice=choice, reasoning={"effort": "high"})
    assert body["thinking"] == {"type": "disabled"}
    assert "reasoning_effort" not in body
    assert body["tool_choice"] not in ("auto", "none")


@pytest.mark.parametrize(("choice", "sent"), [("auto", None), ("none", "none")])
def test_a_free_tool_choice_keeps_thinking_enabled(choice: str, sent: str | None) -> None:
    body = encode_request(PROVIDER, tools=[TOOL], tool_choice=choice, reasoning={"effort": "high"})
    assert body["thinking"] == {"type": "enabled"}
    assert body.get("tool_choice") == sent


def test_sampling_parameters_are_sent_only_without_thinking() -> None:
    assert (
        encode_request(PROVIDER, reasoning={"effort": "none"}, **SAMPLING).items()
        >= SAMPLING.items()
    )
    for effort in (None, "low"):
        body = encode_request(PROVIDER, reasoning={"effort": effort}, **SAMPLING)
        assert body.keys().isdisjoint(SAMPLING)


def test_parameters_ignored_while_thinking_are_reported() -> None:
    plan = make_request_plan(PROVIDER, reasoning={"effort": "low"}, **SAMPLING)
    assert {diagnostic.param for diagnostic in plan.diagnostics} == SAMPLING.keys()
    forced = make_request_plan(
        PROVIDER, tools=[TOOL], tool_choice="required", reasoning={"effort": "low"}
    )
    assert [diagnostic.code for diagnostic in forced.diagnostics] == ["effort.degraded"]


def test_reasoning_is_replayed_with_its_tool_calls_even_if_empty() -> None:
    remembered = encode_request(PROVIDER, input=CALLED, tools=[TOOL])["messages"][1]
    assert remembered["reasoning_content"] == "Let me look."
    forgotten = encode_request(PROVIDER, input=[CALLED[0], *CALLED[2:]], tools=[TOOL])["messages"][
        1
    ]
    assert forgotten["reasoning_content"] == ""


def test_the_user_is_sent_in_the_vendors_field() -> None:
    assert encode_request(PROVIDER, user="alice")["user_id"] == "alice"


@pytest.mark.parametrize(
    ("model", "sees"),
    [("deepseek-v4-pro", False), ("deepseek-flash", True), ("deepseek-v4-flash", True)],
)
def test_only_the_flash_models_accept_images(model: str, sees: bool) -> None:
    assert ("image" in PROVIDER.capabilities(model).inputs) is sees
