"""Encoding of plans as Ollama chat requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.plan.plan import Plan
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.dialects.ollama.encode import encode
from antiphon.dialects.ollama.quirks import OllamaQuirks
from tests.support.dialect_samples.history import message_step
from tests.support.dialect_samples.ollama_history import body, messages
from tests.support.tables import table

LOOK = ToolDeclaration(name="look", description="Look.", parameters={"type": "object"}, strict=True)
LISTEN = ToolDeclaration(name="listen")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


# --- messages -------------------------------------------------------------------------------------


def test_a_user_message_is_sent_to_the_chat_path() -> None:
    plan = Plan(provider="p", model="m", history=(message_step("user", "hi"),))
    outbound = encode(plan, stream=False)
    assert outbound.path == "/api/chat"
    assert outbound.headers == {"content-type": "application/json", "accept": "application/json"}
    assert (
        outbound.body == b'{"model":"m","stream":false,"messages":[{"role":"user","content":"hi"}]}'
    )


def test_streaming_is_requested_explicitly() -> None:
    outbound = encode(Plan(provider="p", model="m"), stream=True)
    assert outbound.headers["accept"] == "application/x-ndjson"
    assert json.loads(outbound.body)["stream"] is True


# --- tools, formats, parameters -------------------------------------------------------------------


def test_tools_are_functions() -> None:
    look = {
        "name": "look",
        "description": "Look.",
        "parameters": {"properties": {}, "type": "object"},
    }
    listen = {"name": "listen", "parameters": {"properties": {}, "type": "object"}}
    assert body(declarations=(LOOK, LISTEN))["tools"] == [
        {"type": "function", "function": look},
        {"type": "function", "function": listen},
    ]


@pytest.mark.parametrize(
    ("choice", "offered"),
    [
        (ToolChoice(), ["look", "listen"]),
        (ToolChoice("required"), ["look", "listen"]),
        (ToolChoice("function", "listen"), ["listen"]),
        (ToolChoice("none"), []),
    ],
)
def test_tool_choice_filters_the_declared_tools(choice: ToolChoice, offered: list[str]) -> None:
    tools = body(declarations=(LOOK, LISTEN), tool_choice=choice).get("tools", [])
    assert [tool["function"]["name"] for tool in tools] == offered


def test_a_format_is_requested_by_its_schema() -> None:
    asked = OutputContract(requested="json_schema", asked="json_schema", name="t", schema=SCHEMA)
    assert body(contract=asked)["format"] == SCHEMA
    asked = OutputContract(requested="json_object", asked="json_object")
    assert body(contract=asked)["format"] == "json"
    assert "format" not in body()


def test_an_unsupported_format_is_described_in_the_instructions() -> None:
    contract = OutputContract(requested="json_schema", asked="text", name="trip", schema=SCHEMA)
    first, last = messages(message_step("user", "hi"), contract=contract, instructions="Be brief.")
    assert first["content"].startswith("Be brief.\n\nAnswer with one JSON value")
    assert last == {"role": "user", "content": "hi"}


@table(
    ("effort", "think"),
    [
        ("none", False),
        ("false", False),
        ("low", "low"),
        ("high", "high"),
        ("max", "max"),
        ("true", True),
        ("xhigh", True),
    ],
)
def test_effort_becomes_a_level_or_a_switch(effort: str, think: Any) -> None:
    assert body(effort=effort)["think"] == think
    assert "think" not in body()


def test_parameters_become_options_in_a_fixed_order() -> None:
    given = {"top_p": 0.5, "temperature": None, "max_output_tokens": 9, "user": "me"}
    found = body(parameters=given)
    assert list(found["options"].items()) == [("num_predict", 9), ("top_p", 0.5)]
    assert body(parameters=dict(reversed(given.items()))) == found
    assert "options" not in body(parameters={"user": "me"})


def test_quirks_add_options_and_fields_to_every_request() -> None:
    quirks = OllamaQuirks(options={"num_ctx": 8192, "top_p": 1}, fields={"keep_alive": "5m"})
    found = body(parameters={"top_p": 0.5}, quirks=quirks)
    assert found["options"] == {"num_ctx": 8192, "top_p": 0.5}
    assert found["keep_alive"] == "5m"
    assert list(found)[-1] == "messages"


@pytest.mark.parametrize(
    ("parameters", "include", "sent"),
    [
        ({"top_logprobs": 3}, True, {"logprobs": True, "top_logprobs": 3}),
        ({"top_logprobs": 0}, True, {"logprobs": True}),
        ({"top_logprobs": 3}, False, {}),
    ],
)
def test_logprobs_are_requested_where_included(
    parameters: dict[str, Any], include: bool, sent: dict[str, Any]
) -> None:
    found = body(parameters=parameters, include_logprobs=include)
    assert {name: found[name] for name in found if "logprobs" in name} == sent


def test_stop_sequences_top_k_and_a_seed_are_options() -> None:
    found = body(parameters={"stop": ("END",), "top_k": 40, "seed": 7})
    assert found["options"] == {"stop": ["END"], "top_k": 40, "seed": 7}
