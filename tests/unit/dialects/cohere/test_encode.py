"""Encoding of plans as Cohere chat requests."""

from __future__ import annotations

import pytest

from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.dialects.cohere.encode import encode
from antiphon.dialects.cohere.quirks import CohereQuirks
from tests.support.dialect_samples.cohere_history import body
from tests.support.dialect_samples.history import message_step

INSISTING = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
LOOK = ToolDeclaration(name="look", description="Look.", parameters=INSISTING, strict=True)
LISTEN = ToolDeclaration(name="listen")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


# --- messages -------------------------------------------------------------------------------------


def test_a_user_message_is_sent_to_the_chat_path() -> None:
    plan = Plan(provider="p", model="m", history=(message_step("user", "hi"),))
    outbound = encode(plan, stream=False)
    assert outbound.path == "/v2/chat"
    assert outbound.headers == {"content-type": "application/json", "accept": "application/json"}
    assert (
        outbound.body == b'{"model":"m","stream":false,"messages":[{"role":"user","content":"hi"}]}'
    )
    assert encode(plan, stream=True).headers["accept"] == "text/event-stream"


# --- tools, formats, parameters -------------------------------------------------------------------


def test_tools_are_functions() -> None:
    look = {"name": "look", "description": "Look.", "parameters": INSISTING}
    listen = {"name": "listen", "parameters": {"type": "object", "properties": {}}}
    found = body(declarations=(LOOK, LISTEN))
    assert found["tools"] == [
        {"type": "function", "function": look},
        {"type": "function", "function": listen},
    ]
    assert "tool_choice" not in found


@pytest.mark.parametrize(
    ("choice", "word", "offered"),
    [
        (ToolChoice("none"), "NONE", ["look", "listen"]),
        (ToolChoice("required"), "REQUIRED", ["look", "listen"]),
        (ToolChoice("function", "listen"), "REQUIRED", ["listen"]),
    ],
)
def test_tool_choice_is_a_keyword_and_a_forced_tool_is_declared_alone(
    choice: ToolChoice, word: str, offered: list[str]
) -> None:
    found = body(declarations=(LOOK, LISTEN), tool_choice=choice)
    assert found["tool_choice"] == word
    assert [tool["function"]["name"] for tool in found["tools"]] == offered
    assert body(tool_choice=choice).keys() == {"model", "stream", "messages"}


def test_tools_are_strict_if_all_are_and_have_required_parameters() -> None:
    lax = ToolDeclaration(name="lax", parameters=INSISTING)
    idle = ToolDeclaration(name="idle", parameters={"type": "object"}, strict=True)
    assert body(declarations=(LOOK,))["strict_tools"] is True
    for other in (LISTEN, lax, idle):
        assert "strict_tools" not in body(declarations=(LOOK, other))


def test_a_format_is_requested_as_a_json_object() -> None:
    asked = OutputContract(requested="json_schema", asked="json_schema", name="t", schema=SCHEMA)
    assert body(contract=asked)["response_format"] == {"type": "json_object", "json_schema": SCHEMA}
    asked = OutputContract(requested="json_object", asked="json_object")
    assert body(contract=asked)["response_format"] == {"type": "json_object"}
    assert "response_format" not in body()


def test_beside_tools_a_format_is_described_in_the_instructions() -> None:
    asked = OutputContract(requested="json_schema", asked="json_schema", name="t", schema=SCHEMA)
    found = body(contract=asked, declarations=(LOOK,), instructions="Be brief.")
    assert "response_format" not in found
    assert found["messages"][0]["content"].startswith("Be brief.\n\nAnswer with one JSON value")


def test_parameters_are_renamed_and_clamped() -> None:
    given = {
        "top_p": 1,
        "temperature": 1.7,
        "presence_penalty": -2,
        "frequency_penalty": 0.5,
        "max_output_tokens": 9,
        "user": "me",
    }
    found = body(parameters=given)
    assert list(found.items())[1:-2] == [
        ("frequency_penalty", 0.5),
        ("max_tokens", 9),
        ("presence_penalty", 0),
        ("temperature", 1),
        ("p", 0.99),
    ]
    assert body(parameters=dict(reversed(given.items()))) == found
    assert "temperature" not in body(parameters={"temperature": None})


@pytest.mark.parametrize(
    ("effort", "thinking"),
    [
        ("none", {"type": "disabled"}),
        ("disabled", {"type": "disabled"}),
        ("low", {"type": "enabled", "token_budget": 1024}),
        ("2048", {"type": "enabled", "token_budget": 2048}),
        ("max", {"type": "enabled"}),
    ],
)
def test_effort_becomes_a_thinking_budget_or_a_switch(effort: str, thinking: Document) -> None:
    assert body(effort=effort)["thinking"] == thinking
    assert "thinking" not in body()


def test_quirks_add_fields_to_every_request() -> None:
    quirks = CohereQuirks(budgets={"low": 7}, fields={"citation_options": {"mode": "FAST"}})
    found = body(effort="low", quirks=quirks)
    assert found["thinking"]["token_budget"] == 7
    assert found["citation_options"] == {"mode": "FAST"}
    assert list(found)[-1] == "messages"


def test_stop_sequences_top_k_and_a_seed_have_their_own_names() -> None:
    found = body(parameters={"stop": ("END",), "top_k": 40, "seed": 7})
    assert (found["stop_sequences"], found["k"], found["seed"]) == (["END"], 40, 7)
    assert "stop_sequences" not in body(parameters={"stop": ()})
