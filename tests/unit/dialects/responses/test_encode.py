"""Encoding of plans as Responses API requests."""

from __future__ import annotations

import json

import pytest

from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.dialects.responses.encode import encode
from antiphon.dialects.responses.quirks import ResponsesQuirks
from tests.support.dialect_samples.responses_history import IN_PLAIN, body
from tests.support.request_validators.responses import problems
from tests.support.tables import table

LOOK = ToolDeclaration(name="look", description="Look.", parameters={"type": "object"}, strict=True)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


# --- the body -------------------------------------------------------------------------------------


def test_the_smallest_request() -> None:
    assert body() == {
        "model": "m",
        "store": False,
        "stream": False,
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "hi"}],
            }
        ],
    }


@pytest.mark.parametrize(
    ("stream", "accept"), [(True, "text/event-stream"), (False, "application/json")]
)
def test_streaming_is_requested_in_body_and_headers(stream: bool, accept: str) -> None:
    outbound = encode(Plan(provider="p", model="m"), stream=stream)
    assert outbound.path == "/responses"
    assert outbound.headers == {"content-type": "application/json", "accept": accept}
    assert json.loads(outbound.body)["stream"] is stream


def test_an_empty_history_is_still_a_valid_request() -> None:
    nothing = encode(Plan(provider="p", model="m"), stream=True).body
    assert problems(nothing) == []
    [item] = json.loads(nothing)["input"]
    assert item["role"] == "user"


def test_instructions_contain_those_of_the_plan_and_the_format() -> None:
    contract = OutputContract(requested="json_object", asked="text")
    assert body(instructions="Be brief.")["instructions"] == "Be brief."
    instructions = body(instructions="Be brief.", contract=contract)["instructions"]
    assert instructions == f"Be brief.\n\n{contract.instruction()}"


@pytest.mark.parametrize(
    ("contract", "form"),
    [
        (OutputContract(requested="json_object", asked="json_object"), {"type": "json_object"}),
        (
            OutputContract(requested="json_schema", asked="json_schema", name="n", schema=SCHEMA),
            {"type": "json_schema", "name": "n", "schema": SCHEMA},
        ),
        (
            OutputContract(
                requested="json_schema",
                asked="json_schema",
                name="n",
                description="d",
                schema=SCHEMA,
                strict=True,
            ),
            {
                "type": "json_schema",
                "name": "n",
                "description": "d",
                "schema": SCHEMA,
                "strict": True,
            },
        ),
    ],
)
def test_a_format_is_requested_in_text(contract: OutputContract, form: Document) -> None:
    assert body(contract=contract)["text"] == {"format": form}


def test_parameters_keep_their_names_inside_their_fields() -> None:
    parameters = {
        "temperature": 0.5,
        "max_output_tokens": 99,
        "verbosity": "low",
        "summary": "auto",
        "top_p": None,
    }
    found = body(parameters=parameters, effort="high")
    assert found["temperature"] == 0.5
    assert found["max_output_tokens"] == 99
    assert found["text"] == {"verbosity": "low"}
    assert found["reasoning"] == {"summary": "auto", "effort": "high"}
    assert "top_p" not in found


@table(
    ("fields", "include"),
    [
        ({}, None),
        ({"replay_reasoning": "always"}, ["reasoning.encrypted_content"]),
        ({"replay_reasoning": "always", "quirks": IN_PLAIN}, None),
        ({"include_logprobs": True}, ["message.output_text.logprobs"]),
        ({"include": ("file_search_call.results",)}, ["file_search_call.results"]),
        (
            {"include_logprobs": True, "replay_reasoning": "tool_turns"},
            ["reasoning.encrypted_content", "message.output_text.logprobs"],
        ),
    ],
)
def test_optional_output_is_requested_in_include(
    fields: Document, include: list[str] | None
) -> None:
    assert body(**fields).get("include") == include


def test_a_patch_changes_the_body_but_input_stays_last() -> None:
    quirks = ResponsesQuirks(patch=lambda body, plan: {**body, "provider": plan.provider})
    found = body(quirks=quirks)
    assert list(found)[-2:] == ["provider", "input"]


# --- tools ----------------------------------------------------------------------------------------


def test_functions_are_declared_flat() -> None:
    bare = ToolDeclaration(name="bare")
    assert body(declarations=(LOOK, bare))["tools"] == [
        {
            "type": "function",
            "name": "look",
            "description": "Look.",
            "parameters": {"type": "object", "properties": {}},
            "strict": True,
        },
        {"type": "function", "name": "bare", "parameters": {"type": "object", "properties": {}}},
    ]


def test_native_tools_are_sent_unchanged() -> None:
    search = {"type": "web_search", "search_context_size": "low"}
    found = body(native_tools=(search,))
    assert found["tools"] == [search]
    assert found["tool_choice"] == "auto"


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoice(), "auto"),
        (ToolChoice("none"), "none"),
        (ToolChoice("required"), "required"),
        (ToolChoice("function", "look"), {"type": "function", "name": "look"}),
    ],
)
def test_tool_choice_is_encoded(choice: ToolChoice, expected: object) -> None:
    assert body(declarations=(LOOK,), tool_choice=choice)["tool_choice"] == expected
