"""Chat Completions encoder: a plan becomes a request that strict servers accept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.history.steps import (
    Step,
)
from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.dialects.chat.encode import encode
from antiphon.dialects.chat.quirks import PLAIN, ChatQuirks
from tests.support.dialect_samples.history import message_step
from tests.support.request_validators.chat import problems
from tests.support.tables import table

LOOK = ToolDeclaration(name="look", description="Look.", parameters={"type": "object"}, strict=True)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def body(*history: Step, quirks: ChatQuirks = PLAIN, **fields: Any) -> Document:
    plan = Plan(provider="p", model="m", history=history or (message_step("user", "hi"),), **fields)
    found = encode(plan, stream=False, quirks=quirks).body
    if quirks is PLAIN:
        assert problems(found) == []
    decoded: Document = json.loads(found)
    return decoded


def messages(*history: Step, **fields: Any) -> list[Document]:
    found: list[Document] = body(*history, **fields)["messages"]
    return found


def test_a_minimal_request_has_a_model_and_messages() -> None:
    plan = Plan(provider="p", model="m", history=(message_step("user", "hi"),))
    outbound = encode(plan, stream=False)
    assert outbound.path == "/chat/completions"
    assert outbound.headers == {"content-type": "application/json", "accept": "application/json"}
    assert outbound.body == b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'


def test_tools_are_functions_and_native_tools_follow_them() -> None:
    native = {"type": "web_search", "web_search": {"enable": True}}
    found = body(declarations=(LOOK, ToolDeclaration(name="bare")), native_tools=(native,))
    look = {
        "name": "look",
        "description": "Look.",
        "parameters": {"type": "object"},
        "strict": True,
    }
    bare = {"name": "bare", "parameters": {"type": "object", "properties": {}}}
    assert found["tools"] == [
        {"type": "function", "function": look},
        {"type": "function", "function": bare},
        native,
    ]
    assert found["tool_choice"] == "auto"


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (ToolChoice("none"), "none"),
        (ToolChoice("required"), "required"),
        (ToolChoice("function", "look"), {"type": "function", "function": {"name": "look"}}),
    ],
)
def test_tool_choice_is_sent_only_with_tools(choice: ToolChoice, sent: Any) -> None:
    assert body(declarations=(LOOK,), tool_choice=choice)["tool_choice"] == sent
    assert body(tool_choice=choice).keys() == {"model", "messages"}


def test_response_format_is_nested() -> None:
    contract = OutputContract(
        requested="json_schema",
        asked="json_schema",
        name="trip",
        description="A trip.",
        schema=SCHEMA,
        strict=True,
    )
    schema = {"name": "trip", "description": "A trip.", "schema": SCHEMA, "strict": True}
    found = body(contract=contract)["response_format"]
    assert found == {"type": "json_schema", "json_schema": schema}
    plain = OutputContract(requested="json_schema", asked="json_schema", name="t", schema=SCHEMA)
    found = body(contract=plain)["response_format"]
    assert found == {"type": "json_schema", "json_schema": {"name": "t", "schema": SCHEMA}}


def test_an_unsupported_format_becomes_an_instruction_in_the_system_message() -> None:
    contract = OutputContract(
        requested="json_schema", asked="json_object", name="trip", schema=SCHEMA
    )
    found = body(message_step("user", "hi"), contract=contract, instructions="Be brief.")
    assert found["response_format"] == {"type": "json_object"}
    first, last = found["messages"]
    assert first["role"] == "system"
    assert first["content"].startswith("Be brief.\n\nAnswer with one JSON value")
    assert last == {"role": "user", "content": "hi"}
    alone = messages(message_step("user", "hi"), contract=contract)
    assert alone[0]["content"].startswith("Answer with one JSON value")


def test_parameters_have_their_chat_names_in_a_fixed_order() -> None:
    given = {
        "verbosity": "low",
        "user": "old",
        "top_p": 0.5,
        "temperature": None,
        "safety_identifier": "new",
        "max_output_tokens": 9,
    }
    found = body(parameters=given, effort="high")
    del found["messages"]
    assert list(found.items()) == [
        ("model", "m"),
        ("max_tokens", 9),
        ("user", "new"),
        ("top_p", 0.5),
        ("verbosity", "low"),
        ("reasoning_effort", "high"),
    ]
    assert body(parameters=dict(reversed(given.items())), effort="high").keys() >= found.keys()


@pytest.mark.parametrize(
    ("parameters", "include", "sent"),
    [
        ({"top_logprobs": 3}, False, {"top_logprobs": 3, "logprobs": True}),
        ({"top_logprobs": 0}, True, {"logprobs": True}),
        ({"top_logprobs": 0}, False, {}),
        ({}, True, {"logprobs": True}),
    ],
)
def test_logprobs_are_requested_by_two_fields(
    parameters: dict[str, Any], include: bool, sent: dict[str, Any]
) -> None:
    found = body(parameters=parameters, include_logprobs=include)
    assert {name: found[name] for name in found if "logprobs" in name} == sent


def test_quirks_rename_and_leave_out_fields() -> None:
    quirks = ChatQuirks(
        max_tokens_field="max_completion_tokens", user_field=None, effort_field=None
    )
    given = {"max_output_tokens": 9, "user": "me"}
    found = body(parameters=given, effort="high", quirks=quirks)
    assert found.keys() == {"model", "max_completion_tokens", "messages"}


def test_a_stream_requests_usage_unless_the_provider_refuses() -> None:
    plan = Plan(provider="p", model="m", history=(message_step("user", "hi"),))
    outbound = encode(plan, stream=True)
    assert outbound.headers["accept"] == "text/event-stream"
    assert problems(outbound.body) == []
    found = json.loads(outbound.body)
    assert (found["stream"], found["stream_options"]) == (True, {"include_usage": True})
    found = json.loads(encode(plan, stream=True, quirks=ChatQuirks(stream_usage=False)).body)
    assert found.keys() == {"model", "stream", "messages"}


def test_a_patch_is_applied_last_and_messages_stay_last() -> None:
    def patch(sent: Document, plan: Plan) -> Document:
        return sent | {"thinking": {"type": plan.effort}}

    found = body(effort="high", quirks=ChatQuirks(patch=patch, effort_field=None))
    assert list(found) == ["model", "thinking", "messages"]
    assert found["thinking"] == {"type": "high"}


def test_quirk_fields_are_in_every_request() -> None:
    assert body(quirks=ChatQuirks(fields={"usage": {"include": True}}))["usage"] == {
        "include": True
    }


@table(
    ("quirks", "effort", "sent"),
    [
        (ChatQuirks(effort_field="reasoning.effort"), "low", {"reasoning": {"effort": "low"}}),
        (ChatQuirks(effort_field="reasoning.effort"), None, {}),
        (ChatQuirks(thinking_on={"a": 1}), "low", {"a": 1, "reasoning_effort": "low"}),
        (ChatQuirks(thinking_on={"a": 1}), None, {}),
        (ChatQuirks(thinking_off={"a": 0}), "none", {"a": 0}),
        (ChatQuirks(thinking_off={"a": 0}), "low", {"reasoning_effort": "low"}),
        (ChatQuirks(thinking_off={}), "none", {}),
        (ChatQuirks(), "none", {"reasoning_effort": "none"}),
        (ChatQuirks(effort_field=None, thinking_off={"a": 0}), "none", {}),
    ],
)
def test_effort_has_the_providers_form(
    quirks: ChatQuirks, effort: str | None, sent: Document
) -> None:
    found = body(effort=effort, quirks=quirks)
    assert {name: found[name] for name in found if name not in ("model", "messages")} == sent


@pytest.mark.parametrize(("mode", "word"), [("auto", None), ("none", "none"), ("required", "any")])
def test_tool_choice_has_the_providers_values(mode: Any, word: str | None) -> None:
    quirks = ChatQuirks(required_choice="any", free_choice=None)
    found = body(declarations=(LOOK,), tool_choice=ToolChoice(mode), quirks=quirks)
    assert found.get("tool_choice") == word
    assert found["tools"]


def test_refused_schema_keywords_are_left_out() -> None:
    schema = {"$schema": "x", "type": "object", "properties": {"$schema": {"type": "string"}}}
    tool = ToolDeclaration(name="look", parameters=schema)
    found = body(declarations=(tool,), quirks=ChatQuirks(schema_drops=frozenset({"$schema"})))
    assert found["tools"][0]["function"]["parameters"] == {
        "type": "object",
        "properties": {"$schema": {"type": "string"}},
    }


def test_a_provider_that_only_streams_gets_a_stream_request() -> None:
    plan = Plan(provider="p", model="m", history=(message_step("user", "hi"),))
    outbound = encode(plan, stream=False, quirks=ChatQuirks(only_streams=True))
    assert json.loads(outbound.body)["stream"] is True
    assert outbound.headers["accept"] == "text/event-stream"


# --- what real clients send -----------------------------------------------------------------------


def test_a_seed_may_have_another_name() -> None:
    given = {"seed": 7, "stop": ("END",), "top_k": 40, "logit_bias": {"1": 5}}
    assert body(parameters=given).items() >= {**given, "stop": ["END"]}.items()
    found = body(parameters=given, quirks=ChatQuirks(seed_field="random_seed"))
    assert found["random_seed"] == 7
    assert "seed" not in found


def test_a_prefill_is_no_field_of_the_body() -> None:
    assert "prefill" not in body(parameters={"prefill": True})
