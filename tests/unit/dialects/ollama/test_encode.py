"""The writing half of Ollama's own API: a plan becomes a request that servers can read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.history.steps import (
    Answered,
    AudioPart,
    Called,
    FilePart,
    ImagePart,
    Part,
    RefusalPart,
    Said,
    Step,
    TextPart,
    Thought,
)
from antiphon.core.plan.plan import Plan, ReplayReasoning, ToolChoice, ToolDeclaration
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.dialects.ollama.encode import encode
from antiphon.dialects.ollama.quirks import PLAIN, OllamaQuirks
from antiphon.wire.items import Document
from tests.support.dialect_samples.history import answer, said
from tests.support.request_validators.ollama import problems

LOOK = ToolDeclaration(name="look", description="Look.", parameters={"type": "object"}, strict=True)
LISTEN = ToolDeclaration(name="listen")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
PIXEL = "data:image/png;base64,AAAA"


def body(*history: Step, quirks: OllamaQuirks = PLAIN, **fields: Any) -> Document:
    plan = Plan(provider="p", model="m", history=history or (said("user", "hi"),), **fields)
    found = encode(plan, stream=False, quirks=quirks).body
    assert problems(found) == []
    decoded: Document = json.loads(found)
    return decoded


def messages(*history: Step, **fields: Any) -> list[Document]:
    found: list[Document] = body(*history, **fields)["messages"]
    return found


# --- messages -------------------------------------------------------------------------------------


def test_a_question_is_a_model_and_a_message_to_the_chat_path() -> None:
    plan = Plan(provider="p", model="m", history=(said("user", "hi"),))
    outbound = encode(plan, stream=False)
    assert outbound.path == "/api/chat"
    assert outbound.headers == {"content-type": "application/json", "accept": "application/json"}
    assert (
        outbound.body == b'{"model":"m","stream":false,"messages":[{"role":"user","content":"hi"}]}'
    )


def test_a_stream_is_asked_for_in_so_many_words() -> None:
    outbound = encode(Plan(provider="p", model="m"), stream=True)
    assert outbound.headers["accept"] == "application/x-ndjson"
    assert json.loads(outbound.body)["stream"] is True


def test_a_thread_without_a_word_still_asks_for_an_answer() -> None:
    outbound = encode(Plan(provider="p", model="m"), stream=True)
    assert json.loads(outbound.body)["messages"] == [{"role": "user", "content": ""}]


def test_instructions_come_first_and_every_message_stays_in_its_place() -> None:
    history = (said("developer", "a"), said("user", "b", "c"), said("system", "d"))
    assert messages(*history, instructions="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "a"},
        {"role": "user", "content": "b\nc"},
        {"role": "system", "content": "d"},
    ]


def test_a_turn_of_several_items_is_one_message() -> None:
    history = (
        Thought("hm"),
        Said("assistant", (TextPart("O"), RefusalPart("ne."))),
        said("assistant", "Two."),
        Called("a", "look", '{"x":  1e2}'),
        Called("b", "look", "{}"),
        answer("a", "1"),
        answer("b", "2"),
    )
    plan = Plan(provider="p", model="m", history=history)
    sent = encode(plan, stream=False).body
    assert b'"arguments":{"x":  1e2}' in sent  # as the model wrote it
    assert messages(*history) == [
        {
            "role": "assistant",
            "content": "One.\n\nTwo.",
            "tool_calls": [
                {"id": "a", "function": {"name": "look", "arguments": {"x": 100}}},
                {"id": "b", "function": {"name": "look", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "1", "tool_name": "look", "tool_call_id": "a"},
        {"role": "tool", "content": "2", "tool_name": "look", "tool_call_id": "b"},
    ]


def test_a_turn_that_only_thought_is_no_message() -> None:
    assert messages(said("user", "hi"), Thought("hm")) == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("replay", "on_calls", "on_words"),
    [("never", None, None), ("tool_turns", "hm so", None), ("always", "hm so", "sum")],
)
def test_reasoning_goes_back_as_the_plan_says(
    replay: ReplayReasoning, on_calls: str | None, on_words: str | None
) -> None:
    called, _, spoke = messages(
        Thought("hm "),
        Thought("so"),
        Called("a", "look", "{}"),
        answer("a", "1"),
        Thought(summary="sum"),
        said("assistant", "Done."),
        replay_reasoning=replay,
    )
    assert called.get("thinking") == on_calls
    assert spoke.get("thinking") == on_words


def test_calls_and_results_go_by_the_name_their_tool_is_declared_by() -> None:
    identities = ToolIdentityMap([ToolIdentity("box__look", "look", namespace="box")])
    history = (Called("a", "look", "{}", "box"), Called("b", "nä.h", "{}"))
    results = (answer("a", "1"), answer("b", "2"))
    [assistant, first, second] = messages(*history, *results, identities=identities)
    names = [call["function"]["name"] for call in assistant["tool_calls"]]
    assert names[0] == first["tool_name"] == "box__look"
    assert names[1] == second["tool_name"]
    assert names[1].startswith("n__h")


def test_images_stand_beside_the_text() -> None:
    parts = (TextPart("look"), ImagePart(PIXEL), TextPart("well"))
    [message] = messages(Said("user", parts))
    assert message == {"role": "user", "content": "look\nwell", "images": ["AAAA"]}
    [message] = messages(Said("user", (ImagePart(PIXEL),)))
    assert message == {"role": "user", "content": "", "images": ["AAAA"]}


def test_an_image_of_a_result_stands_beside_it() -> None:
    [_, tool] = messages(Called("a", "look", "{}"), Answered("a", (ImagePart(PIXEL),), "look"))
    assert tool["images"] == ["AAAA"]


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (ImagePart("https://x.test/1.png"), "[image: https://x.test/1.png]"),
        (ImagePart("data:image/png;base64,"), "[image omitted: it cannot be read]"),
        (ImagePart("data:image/png;base64,A"), "[image omitted: it cannot be read]"),
        (ImagePart("data:image/png;base64,Ä"), "[image omitted: it cannot be read]"),
        (ImagePart("data:image/svg+xml,<svg/>"), "[image omitted: it cannot be read]"),
        (FilePart(filename="a.pdf"), "[file a.pdf omitted: this model takes no files]"),
        (FilePart(), "[file without a name omitted: this model takes no files]"),
        (AudioPart("AA==", "wav"), "[audio omitted: this model takes no audio]"),
    ],
)
def test_what_a_server_does_not_take_says_so(part: Part, text: str) -> None:
    assert messages(Said("user", (part,))) == [{"role": "user", "content": text}]


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
def test_a_choice_is_a_shorter_list(choice: ToolChoice, offered: list[str]) -> None:
    tools = body(declarations=(LOOK, LISTEN), tool_choice=choice).get("tools", [])
    assert [tool["function"]["name"] for tool in tools] == offered


def test_a_schema_keeps_what_a_server_can_read_and_nothing_else() -> None:
    given = {
        "type": ["object", "null"],
        "properties": {
            "any": True,
            "some": {"type": ["string", None], "description": 1, "enum": ["a", 1]},
            "deep": {"anyOf": [{"type": "string"}, False], "properties": {"x": 1}, "minimum": 0},
            "odd": {"type": {}, "required": "x"},
        },
        "required": ["any", 1],
        "$defs": {"a": True},
    }
    tool = ToolDeclaration(name="look", parameters=given)
    [sent] = body(declarations=(tool,))["tools"]
    assert sent["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "any": {},
            "some": {"type": ["string"], "enum": ["a", 1]},
            "deep": {"anyOf": [{"type": "string"}, {}], "properties": {"x": {}}, "minimum": 0},
            "odd": {},
        },
        "required": ["any"],
        "$defs": {"a": True},
    }


def test_a_format_is_asked_for_by_its_schema() -> None:
    asked = OutputContract(requested="json_schema", asked="json_schema", name="t", schema=SCHEMA)
    assert body(contract=asked)["format"] == SCHEMA
    asked = OutputContract(requested="json_object", asked="json_object")
    assert body(contract=asked)["format"] == "json"
    assert "format" not in body()


def test_a_format_that_cannot_be_asked_for_is_told_once_and_first() -> None:
    contract = OutputContract(requested="json_schema", asked="text", name="trip", schema=SCHEMA)
    first, last = messages(said("user", "hi"), contract=contract, instructions="Be brief.")
    assert first["content"].startswith("Be brief.\n\nAnswer with one JSON value")
    assert last == {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
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
def test_an_effort_is_a_level_or_a_switch(effort: str, think: Any) -> None:
    assert body(effort=effort)["think"] == think
    assert "think" not in body()


def test_parameters_are_options_in_a_fixed_order() -> None:
    given = {"top_p": 0.5, "temperature": None, "max_output_tokens": 9, "user": "me"}
    found = body(parameters=given)
    assert list(found["options"].items()) == [("num_predict", 9), ("top_p", 0.5)]
    assert body(parameters=dict(reversed(given.items()))) == found
    assert "options" not in body(parameters={"user": "me"})


def test_quirks_are_options_and_fields_of_every_request() -> None:
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
def test_probabilities_are_asked_for_where_they_are_wanted(
    parameters: dict[str, Any], include: bool, sent: dict[str, Any]
) -> None:
    found = body(parameters=parameters, include_logprobs=include)
    assert {name: found[name] for name in found if "logprobs" in name} == sent
