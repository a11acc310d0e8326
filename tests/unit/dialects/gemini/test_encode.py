"""Encoding of plans as Gemini requests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from antiphon.core.history.steps import (
    MessageStep,
    RefusalPart,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.dialects.gemini.encode import encode
from antiphon.dialects.gemini.quirks import PLAIN, GeminiQuirks
from tests.support.dialect_samples.history import message_step
from tests.support.request_validators.gemini import problems
from tests.support.tables import table

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LOOK = ToolDeclaration(name="look", description="Look.", parameters=CITY, strict=True)
WAIT = ToolDeclaration(name="wait")
SUBSET = GeminiQuirks(json_schema=False)


def body(*history: Step, quirks: GeminiQuirks = PLAIN, **fields: Any) -> Document:
    plan = Plan(provider="p", model="m", history=history or (message_step("user", "hi"),), **fields)
    found = encode(plan, stream=False, quirks=quirks).body
    assert problems(found, signed=quirks.sentinel, json_beside_tools=quirks.json_beside_tools) == []
    decoded: Document = json.loads(found)
    return decoded


def system(*history: Step, **fields: Any) -> list[str]:
    return [part["text"] for part in body(*history, **fields)["systemInstruction"]["parts"]]


# --- the request ----------------------------------------------------------------------------------


def test_a_user_message_is_sent_as_contents_to_the_path_of_the_model() -> None:
    plan = Plan(provider="p", model="gemini-3-pro", history=(message_step("user", "hi"),))
    outbound = encode(plan, stream=False)
    assert outbound.path == "/models/gemini-3-pro:generateContent"
    assert outbound.headers == {"content-type": "application/json", "accept": "application/json"}
    assert outbound.body == b'{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}'


def test_a_stream_is_requested_as_server_sent_events() -> None:
    outbound = encode(Plan(provider="p", model="m"), stream=True)
    assert outbound.path == "/models/m:streamGenerateContent?alt=sse"
    assert outbound.headers["accept"] == "text/event-stream"


@table(
    ("model", "path"),
    [
        ("models/m", "/models/m:generateContent"),
        ("tunedModels/mine-1", "/tunedModels/mine-1:generateContent"),
        ("publishers/google/models/m@001", "/publishers/google/models/m@001:generateContent"),
        ("../m", "/models/m:generateContent"),
        ("a/../../m", "/a/m:generateContent"),
        ("m?x=1#é", "/models/m%3Fx%3D1%23%C3%A9:generateContent"),
    ],
)
def test_a_model_name_is_escaped_in_the_path(model: str, path: str) -> None:
    assert encode(Plan(provider="p", model=model), stream=False).path == path


# --- instructions ---------------------------------------------------------------------------------


def test_instructions_and_leading_system_messages_are_the_system_instruction() -> None:
    history = (
        message_step("developer", "a", "b"),
        message_step("system", "c"),
        message_step("user", "d"),
    )
    assert system(*history, instructions="Be brief.") == ["Be brief.", "a", "b", "c"]
    assert body(*history)["contents"] == [{"role": "user", "parts": [{"text": "d"}]}]


def test_a_refusal_in_a_system_message_is_text() -> None:
    assert system(MessageStep("system", (RefusalPart("no"),)), message_step("user", "hi")) == ["no"]


def test_later_system_messages_stay_in_their_position() -> None:
    found = body(
        message_step("user", "a"), message_step("developer", "b"), message_step("assistant", "c")
    )
    assert "systemInstruction" not in found
    assert found["contents"] == [
        {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
        {"role": "model", "parts": [{"text": "c"}]},
    ]


def test_system_messages_without_any_other_become_the_user_turn() -> None:
    found = body(message_step("system", "a"), message_step("developer", "b"), instructions="c")
    assert found["systemInstruction"] == {"parts": [{"text": "c"}]}
    assert found["contents"] == [{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}]


def test_without_system_instruction_support_instructions_open_the_user_turn() -> None:
    quirks = GeminiQuirks(system_instruction=False)
    found = body(message_step("user", "hi"), instructions="Be brief.", quirks=quirks)
    assert found == {
        "contents": [{"role": "user", "parts": [{"text": "Be brief."}, {"text": "hi"}]}]
    }


# --- tools ----------------------------------------------------------------------------------------


def test_functions_are_declared_with_their_schema_unchanged() -> None:
    assert body(declarations=(LOOK, WAIT))["tools"] == [
        {
            "functionDeclarations": [
                {"name": "look", "description": "Look.", "parametersJsonSchema": CITY},
                {"name": "wait"},
            ]
        }
    ]


@table(
    ("schema", "sent"),
    [
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"$ref": "#/$defs/A", "$defs": {}}, None),
        (
            {"type": "object", "additionalProperties": {}},
            {"type": "object", "additionalProperties": {}},
        ),
        ({"type": "object", "properties": {}}, None),
        ({"type": "object"}, None),
        ({}, None),
    ],
)
def test_a_parameter_schema_has_an_explicit_object_type_or_is_left_out(
    schema: Document, sent: Document | None
) -> None:
    declared = body(declarations=(ToolDeclaration(name="f", parameters=schema),))
    [function] = declared["tools"][0]["functionDeclarations"]
    assert function.get("parametersJsonSchema") == sent


def test_references_in_parameters_are_resolved() -> None:
    """google-gemini/gemini-cli#13326: "reference to undefined schema"; anomalyco/opencode#12295:
    "$ref was set alongside unsupported fields"."""
    city = {"type": "object", "properties": {"name": {"type": "string"}}}
    where = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/City", "title": "C"}]}
    schema = {"type": "object", "properties": {"where": where}, "$defs": {"City": city}}
    declared = body(declarations=(ToolDeclaration(name="f", parameters=schema),))
    [function] = declared["tools"][0]["functionDeclarations"]
    place = {"type": "OBJECT", "properties": {"name": {"type": "STRING"}}}
    assert function == {
        "name": "f",
        "parameters": {
            "type": "OBJECT",
            "properties": {"where": {"anyOf": [{"type": "STRING"}, place]}},
        },
    }


def test_a_model_with_a_schema_subset_gets_reduced_parameters() -> None:
    found = body(declarations=(LOOK, WAIT), quirks=SUBSET)
    assert found["tools"][0]["functionDeclarations"] == [
        {
            "name": "look",
            "description": "Look.",
            "parameters": {
                "type": "OBJECT",
                "properties": {"city": {"type": "STRING"}},
                "required": ["city"],
            },
        },
        {"name": "wait"},
    ]


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        (ToolChoice(), None),
        (ToolChoice("none"), {"mode": "NONE"}),
        (ToolChoice("required"), {"mode": "ANY"}),
        (ToolChoice("function", "look"), {"mode": "ANY", "allowedFunctionNames": ["look"]}),
        (ToolChoice("function"), {"mode": "ANY"}),
    ],
)
def test_tool_choice_becomes_a_function_calling_mode(
    choice: ToolChoice, config: Document | None
) -> None:
    found = body(declarations=(LOOK,), tool_choice=choice).get("toolConfig")
    assert found == (None if config is None else {"functionCallingConfig": config})


def test_streaming_of_call_arguments_can_be_requested() -> None:
    found = body(declarations=(LOOK,), quirks=GeminiQuirks(stream_arguments=True))
    calling = found["toolConfig"]["functionCallingConfig"]
    assert calling == {"streamFunctionCallArguments": True}


def test_a_tool_name_with_a_leading_digit_gets_an_underscore() -> None:
    declared = ToolDeclaration(name="3d-look")
    identities = ToolIdentityMap([ToolIdentity("3d-look", "3d-look")])
    found = body(
        message_step("user", "hi"),
        ToolCallStep("c", "3d-look", "{}"),
        ToolResultStep("c", (TextPart("1"),), "3d-look"),
        declarations=(declared,),
        identities=identities,
        tool_choice=ToolChoice("function", "3d-look"),
    )
    text = json.dumps(found)
    assert text.count('"_3d-look"') == 4
    assert '"3d-look"' not in text


SEARCH = ({"type": "web_search"},)


def test_web_search_is_googles_own() -> None:
    assert body(native_tools=SEARCH) == {
        "tools": [{"googleSearch": {}}],
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    }


def test_search_beside_functions_includes_server_side_invocations() -> None:
    found = body(native_tools=SEARCH, declarations=(WAIT,))
    assert found["tools"][1] == {"googleSearch": {}}
    assert found["toolConfig"] == {"includeServerSideToolInvocations": True}


def test_unknown_native_tools_are_left_out() -> None:
    assert "tools" not in body(native_tools=({"type": "hologram"}, {}))


# --- generationConfig -----------------------------------------------------------------------------


def test_supported_parameters_are_renamed_and_others_dropped() -> None:
    parameters = {
        "top_p": 0.5,
        "temperature": 0,
        "max_output_tokens": 100,
        "presence_penalty": 1,
        "frequency_penalty": None,
        "service_tier": "flex",
    }
    assert body(parameters=parameters)["generationConfig"] == {
        "maxOutputTokens": 100,
        "temperature": 0,
        "topP": 0.5,
        "presencePenalty": 1,
    }


OBJECT = OutputContract(requested="json_object", asked="json_object")
SCHEMA = OutputContract(
    requested="json_schema", asked="json_schema", name="place", schema=CITY, strict=True
)


def test_json_output_is_requested_by_mime_type_and_schema() -> None:
    mime = {"responseMimeType": "application/json"}
    assert body(contract=OBJECT)["generationConfig"] == mime
    assert body(contract=SCHEMA)["generationConfig"] == {**mime, "responseJsonSchema": CITY}
    assert body(contract=SCHEMA, quirks=SUBSET)["generationConfig"] == {
        **mime,
        "responseSchema": {
            "type": "OBJECT",
            "properties": {"city": {"type": "STRING"}},
            "required": ["city"],
            "propertyOrdering": ["city"],
        },
    }


@table(
    ("reference", "is_kept"),
    [
        ({"$ref": "#/$defs/A"}, True),
        ({"$ref": "#/$defs/A", "description": "One."}, False),
        ({"$ref": "#/$defs/B"}, False),
        ({"$ref": "#/definitions/A"}, False),
        ({"type": "array", "items": [{"$ref": "#"}]}, False),
    ],
)
def test_references_of_a_response_are_resolved_where_they_are_refused(
    reference: Document, is_kept: bool
) -> None:
    """tetsuo-ai/agenc-core#1890: only to one of `$defs`, and without other keywords."""
    schema = {"type": "object", "properties": {"a": reference}, "$defs": {"A": {"type": "string"}}}
    found = body(contract=structs.replace(SCHEMA, schema=schema))["generationConfig"]
    assert found.get("responseJsonSchema") == (schema if is_kept else None)
    assert ("responseSchema" in found) is not is_kept
    odd = {**schema, "$defs": []}
    found = body(contract=structs.replace(SCHEMA, schema=odd))["generationConfig"]
    assert ("responseSchema" in found) is ("$ref" in str(reference))


@pytest.mark.parametrize("tools", [{"declarations": (WAIT,)}, {"native_tools": SEARCH}])
def test_beside_tools_the_instructions_ask_for_json(tools: Any) -> None:
    assert "JSON" in system(contract=OBJECT, **tools)[0]
    [instruction] = system(contract=SCHEMA, **tools)
    assert "'place'" in instruction
    assert "generationConfig" not in body(contract=SCHEMA, **tools)
    quirks = GeminiQuirks(json_beside_tools=True)
    found = body(contract=SCHEMA, quirks=quirks, **tools)
    assert found["generationConfig"]["responseJsonSchema"] == CITY
    assert "systemInstruction" not in found


def test_a_degraded_format_is_described_in_the_instructions() -> None:
    contract = OutputContract(requested="json_schema", asked="json_object", schema=CITY)
    found = body(contract=contract)
    assert found["generationConfig"] == {"responseMimeType": "application/json"}
    assert "JSON Schema" in found["systemInstruction"]["parts"][0]["text"]


def test_without_a_schema_only_the_mime_type_is_sent() -> None:
    contract = OutputContract(requested="json_schema", asked="json_schema")
    assert body(contract=contract)["generationConfig"] == {"responseMimeType": "application/json"}


@table(
    ("how", "effort", "config"),
    [
        ("level", "low", {"thinkingLevel": "low", "includeThoughts": True}),
        ("level", None, {"includeThoughts": True}),
        ("budget", "1024", {"thinkingBudget": 1024, "includeThoughts": True}),
        ("budget", "-1", {"thinkingBudget": -1, "includeThoughts": True}),
        ("budget", "0", {"thinkingBudget": 0}),
        ("budget", "lots", {"includeThoughts": True}),
        (None, "low", None),
    ],
)
def test_effort_is_a_level_or_a_budget(
    how: Any, effort: str | None, config: Document | None
) -> None:
    found = body(effort=effort, quirks=GeminiQuirks(effort=how))
    assert found.get("generationConfig") == (config and {"thinkingConfig": config})


def test_reasoning_summaries_can_be_left_out() -> None:
    quirks = GeminiQuirks(effort="level", include_thoughts=False)
    assert "generationConfig" not in body(quirks=quirks)
    found = body(quirks=quirks, effort="high")["generationConfig"]
    assert found == {"thinkingConfig": {"thinkingLevel": "high"}}


# --- quirks by model ------------------------------------------------------------------------------


def test_a_request_is_encoded_with_the_quirks_of_its_model() -> None:
    quirks = GeminiQuirks(models=(("m", GeminiQuirks(effort="level")),))
    assert "thinkingConfig" in body(quirks=quirks)["generationConfig"]


def test_stop_sequences_top_k_and_a_seed_are_part_of_the_configuration() -> None:
    given = {"stop": ("END",), "top_k": 40, "seed": 7}
    expected = {"stopSequences": ["END"], "topK": 40, "seed": 7}
    assert body(parameters=given)["generationConfig"] == expected
