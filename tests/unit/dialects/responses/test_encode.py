"""The writing half of a Responses upstream: a plan becomes a request that strict servers take."""

from __future__ import annotations

import json

import pytest

from antiphon.core.history.steps import (
    Answered,
    AudioPart,
    Called,
    FilePart,
    ImagePart,
    Part,
    RefusalPart,
    Role,
    Said,
    TextPart,
)
from antiphon.core.plan.plan import Plan, ToolChoice, ToolDeclaration
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.dialects.responses.dialect import ResponsesDialect
from antiphon.dialects.responses.encode import encode
from antiphon.dialects.responses.quirks import PLAIN, ResponsesQuirks
from antiphon.wire.items import Document
from tests.support.dialect_samples.history import answer, call, said
from tests.support.dialect_samples.responses_history import IN_PLAIN, body, items
from tests.support.request_validators.responses import problems

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
def test_a_stream_is_asked_for_in_the_body_and_the_headers(stream: bool, accept: str) -> None:
    outbound = encode(Plan(provider="p", model="m"), stream=stream)
    assert outbound.path == "/responses"
    assert outbound.headers == {"content-type": "application/json", "accept": accept}
    assert json.loads(outbound.body)["stream"] is stream


def test_a_history_of_nothing_is_still_a_request() -> None:
    nothing = encode(Plan(provider="p", model="m"), stream=True).body
    assert problems(nothing) == []
    [item] = json.loads(nothing)["input"]
    assert item["role"] == "user"


def test_instructions_hold_what_the_plan_and_the_format_say() -> None:
    contract = OutputContract(requested="json_object", asked="text")
    assert body(instructions="Be brief.")["instructions"] == "Be brief."
    told = body(instructions="Be brief.", contract=contract)["instructions"]
    assert told == f"Be brief.\n\n{contract.instruction()}"


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
def test_a_format_is_asked_for_in_text(contract: OutputContract, form: Document) -> None:
    assert body(contract=contract)["text"] == {"format": form}


def test_parameters_go_by_their_own_names_where_they_belong() -> None:
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


@pytest.mark.parametrize(
    ("fields", "include"),
    [
        ({}, None),
        ({"replay_reasoning": "always"}, ["reasoning.encrypted_content"]),
        ({"replay_reasoning": "always", "quirks": IN_PLAIN}, None),
        ({"include_logprobs": True}, ["message.output_text.logprobs"]),
        (
            {"include_logprobs": True, "replay_reasoning": "tool_turns"},
            ["reasoning.encrypted_content", "message.output_text.logprobs"],
        ),
    ],
)
def test_what_comes_only_if_asked_for_is_asked_for(
    fields: Document, include: list[str] | None
) -> None:
    assert body(**fields).get("include") == include


def test_a_patch_has_the_last_word_but_for_the_place_of_the_input() -> None:
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
            "parameters": {"type": "object"},
            "strict": True,
        },
        {"type": "function", "name": "bare", "parameters": {"type": "object", "properties": {}}},
    ]


def test_a_providers_own_tools_go_as_they_came() -> None:
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
def test_the_choice_of_a_tool(choice: ToolChoice, expected: object) -> None:
    assert body(declarations=(LOOK,), tool_choice=choice)["tool_choice"] == expected


# --- what was said --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "developer_role", "expected"),
    [
        ("system", False, "system"),
        ("developer", False, "system"),
        ("developer", True, "developer"),
        ("user", True, "user"),
    ],
)
def test_roles(role: Role, developer_role: bool, expected: str) -> None:
    [item] = items(said(role, "x", "y"), developer_role=developer_role)
    texts = [{"type": "input_text", "text": text} for text in "xy"]
    assert item == {"type": "message", "role": expected, "content": texts}


def test_an_assistants_words_are_one_text() -> None:
    words = Said("assistant", (TextPart("a"), RefusalPart("b")))
    assert items(words) == [{"type": "message", "role": "assistant", "content": "ab"}]


def test_a_label_of_an_assistants_words_goes_back() -> None:
    words = Said("assistant", (TextPart("a"),), "commentary")
    assert items(words) == [
        {"type": "message", "role": "assistant", "content": "a", "phase": "commentary"}
    ]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (ImagePart("u", "low"), {"type": "input_image", "image_url": "u", "detail": "low"}),
        (ImagePart("u", "vivid"), {"type": "input_image", "image_url": "u", "detail": "auto"}),
        (ImagePart("u"), {"type": "input_image", "image_url": "u", "detail": "auto"}),
        (
            FilePart("a.txt", data="data:,x", file_id="f"),
            {"type": "input_file", "filename": "a.txt", "file_data": "data:,x"},
        ),
        (
            FilePart(data="data:,x"),
            {"type": "input_file", "filename": "file", "file_data": "data:,x"},
        ),
        (FilePart("a.txt", url="u", file_id="f"), {"type": "input_file", "file_id": "f"}),
        (FilePart("a.txt", url="u"), {"type": "input_file", "file_url": "u"}),
        (RefusalPart("no"), {"type": "input_text", "text": "no"}),
    ],
)
def test_parts(part: Part, expected: Document) -> None:
    assert items(Said("user", (part,)))[0]["content"] == [expected]


def test_sound_is_sent_as_it_came() -> None:
    plan = Plan(provider="p", model="m", history=(Said("user", (AudioPart("d", "wav"),)),))
    [item] = json.loads(encode(plan, stream=False).body)["input"]
    assert item["content"] == [
        {"type": "input_audio", "input_audio": {"data": "d", "format": "wav"}}
    ]


# --- calls ----------------------------------------------------------------------------------------


def test_calls_and_answers_go_in_pairs() -> None:
    assert items(call("a"), call("b"), answer("a"), answer("b", "2")) == [
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "function_call_output", "call_id": "b", "output": "2"},
    ]


def test_an_answer_may_hold_an_image() -> None:
    shown = Answered("a", (TextPart("see"), ImagePart("u")))
    assert items(call(), shown)[1]["output"] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "u", "detail": "auto"},
    ]


def test_an_answer_of_several_texts_is_one_string() -> None:
    told = Answered("a", (TextPart("x"), TextPart("y")))
    assert items(call(), told)[1]["output"] == "x\ny"


@pytest.mark.parametrize("call_id", ["", "x" * 65, "\ud83d" * 70])
def test_an_id_of_no_acceptable_length_is_replaced_on_both_sides(call_id: str) -> None:
    called, output = items(call(call_id), answer(call_id))
    assert called["call_id"] == output["call_id"]
    assert 0 < len(called["call_id"]) <= 64


def test_an_id_that_every_server_takes_is_kept() -> None:
    assert items(call("functions.look:0"), answer("functions.look:0"))[0]["call_id"] == (
        "functions.look:0"
    )


def test_an_id_that_comes_again_in_a_later_turn_becomes_another() -> None:
    turns = [step for n in range(3) for step in (call(), answer("a", str(n)))]
    found = items(*turns)
    ids = [item["call_id"] for item in found]
    assert ids[0] == "a"
    assert ids[::2] == ids[1::2]
    assert len(set(ids)) == 3
    assert items(*turns[:4]) == found[:4]


def test_a_call_goes_by_the_name_that_its_provider_knows() -> None:
    known = ToolIdentityMap([ToolIdentity("box__look", "look", namespace="box")])
    call = Called("a", "look", "{}", namespace="box")
    for identities in (known, ToolIdentityMap()):
        assert items(call, answer("a"), identities=identities)[0]["name"] == "box__look"


# --- the dialect ----------------------------------------------------------------------------------


def test_the_dialect_writes_with_its_quirks() -> None:
    plan = Plan(provider="p", model="m", replay_reasoning="always")
    for quirks in (PLAIN, IN_PLAIN):
        written = ResponsesDialect(quirks).encode(plan, stream=True)
        assert written == encode(plan, stream=True, quirks=quirks)
