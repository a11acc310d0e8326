"""The writing half of Chat Completions: a plan becomes a request that strict servers take."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.history.pairing import paired
from antiphon.core.history.read_items import canonical
from antiphon.core.history.steps import (
    Answered,
    AudioPart,
    Called,
    FilePart,
    ImagePart,
    RefusalPart,
    Said,
    Step,
    TextPart,
    Thought,
)
from antiphon.core.plan.plan import Plan, ReplayReasoning, ToolChoice, ToolDeclaration
from antiphon.core.stream.deltas import ReasoningState
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.dialects.call_ids import CallIdFormat
from antiphon.dialects.chat.encode import encode
from antiphon.dialects.chat.quirks import PLAIN, ChatQuirks
from antiphon.wire.items import Document
from tests.support import captured_requests as captured
from tests.support.dialect_samples.history import answer, said
from tests.support.request_validators.chat import problems

LOOK = ToolDeclaration(name="look", description="Look.", parameters={"type": "object"}, strict=True)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def body(*history: Step, quirks: ChatQuirks = PLAIN, **fields: Any) -> Document:
    plan = Plan(provider="p", model="m", history=history or (said("user", "hi"),), **fields)
    found = encode(plan, stream=False, quirks=quirks).body
    if quirks is PLAIN:
        assert problems(found) == []
    decoded: Document = json.loads(found)
    return decoded


def messages(*history: Step, **fields: Any) -> list[Document]:
    found: list[Document] = body(*history, **fields)["messages"]
    return found


# --- messages -------------------------------------------------------------------------------------


def test_a_question_is_a_model_and_a_message_to_the_chat_completions_path() -> None:
    plan = Plan(provider="p", model="m", history=(said("user", "hi"),))
    outbound = encode(plan, stream=False)
    assert outbound.path == "/chat/completions"
    assert outbound.headers == {"content-type": "application/json", "accept": "application/json"}
    assert outbound.body == b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'


def test_instructions_come_first_and_every_message_stays_in_its_place() -> None:
    history = (
        said("developer", "a"),
        said("user", "b"),
        said("developer", "c"),
        said("system", "d"),
    )
    assert messages(*history, instructions="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "system", "content": "c"},
        {"role": "system", "content": "d"},
    ]


def test_the_developer_role_is_used_where_it_is_known() -> None:
    [developer, system] = messages(said("developer", "a"), said("system", "b"), developer_role=True)
    assert (developer["role"], system["role"]) == ("developer", "system")


def test_text_parts_are_one_string() -> None:
    [message] = messages(said("user", "<skills>", "<rules>"))
    assert message["content"] == "<skills>\n<rules>"


def test_a_models_own_words_are_joined_as_it_wrote_them() -> None:
    parts = (TextPart("Well, "), TextPart("I "), RefusalPart("cannot."))
    [message] = messages(Said("assistant", parts))
    assert message == {"role": "assistant", "content": "Well, I cannot."}


def test_a_turn_of_several_items_is_one_message() -> None:
    history = (
        Thought("hm"),
        said("assistant", "One."),
        said("assistant", "Two."),
        Called("a", "look", '{"x": 1}'),
        Called("b", "look", "{}"),
        answer("a", "1"),
        answer("b", "2"),
    )
    assert messages(*history) == [
        {
            "role": "assistant",
            "content": "One.\n\nTwo.",
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"x": 1}'},
                },
                {"id": "b", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
    ]


def test_a_turn_that_only_calls_has_no_content() -> None:
    [assistant, _] = messages(Called("a", "look", "{}"), answer("a", "1"))
    assert assistant["content"] is None


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
    assert called.get("reasoning_content") == on_calls
    assert spoke.get("reasoning_content") == on_words


@pytest.mark.parametrize("replay", ["tool_turns", "always"])
def test_reasoning_that_is_required_is_sent_empty_where_none_is_known(
    replay: ReplayReasoning,
) -> None:
    history = (Called("a", "look", "{}"), answer("a", "1"), said("assistant", "Done."))
    required = ChatQuirks(reasoning_field="thinking", reasoning_required=True)
    called, _, spoke = messages(*history, replay_reasoning=replay, quirks=required)
    assert (called["thinking"], spoke.get("thinking")) == ("", None)
    called, *_ = messages(*history, replay_reasoning=replay)
    assert "reasoning_content" not in called


def test_media_make_a_list_of_parts() -> None:
    parts = (
        TextPart("look"),
        ImagePart("https://x.test/1", "low"),
        ImagePart("https://x.test/2", "original"),
        FilePart(filename="a.pdf", data="data:application/pdf;base64,AA=="),
        FilePart(url="https://x.test/b.pdf"),
        FilePart(file_id="file_1"),
        AudioPart("AA==", "wav"),
    )
    [message] = messages(Said("user", parts))
    assert message["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://x.test/1", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://x.test/2"}},
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
        },
        {"type": "file", "file": {"file_data": "https://x.test/b.pdf"}},
        {"type": "file", "file": {"file_id": "file_1"}},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    ]


def test_an_answer_with_an_image_is_a_list_of_parts() -> None:
    parts = (TextPart("seen"), ImagePart("https://x.test/1"))
    [_, tool] = messages(Called("a", "look", "{}"), Answered("a", parts))
    assert [part["type"] for part in tool["content"]] == ["text", "image_url"]


def test_a_call_is_rendered_under_the_name_its_tool_is_declared_by() -> None:
    identities = ToolIdentityMap([ToolIdentity("box__look", "look", namespace="box")])
    history = (
        Called("a", "look", "{}", "box"),
        Called("b", "look", "{}"),
        Called("c", "nä.h", "{}"),
    )
    [assistant, *_] = messages(
        *history, *(answer(call_id, "1") for call_id in "abc"), identities=identities
    )
    names = [call["function"]["name"] for call in assistant["tool_calls"]]
    assert names[:2] == ["box__look", "look"]
    assert names[2].startswith("n__h")


# --- tools, formats, parameters -------------------------------------------------------------------


def test_tools_are_functions_and_native_tools_stand_behind_them() -> None:
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
def test_a_choice_of_tools_is_sent_with_the_tools_and_only_then(
    choice: ToolChoice, sent: Any
) -> None:
    assert body(declarations=(LOOK,), tool_choice=choice)["tool_choice"] == sent
    assert body(tool_choice=choice).keys() == {"model", "messages"}


def test_a_format_is_asked_for_in_the_nested_shape() -> None:
    asked = OutputContract(
        requested="json_schema",
        asked="json_schema",
        name="trip",
        description="A trip.",
        schema=SCHEMA,
        strict=True,
    )
    schema = {"name": "trip", "description": "A trip.", "schema": SCHEMA, "strict": True}
    found = body(contract=asked)["response_format"]
    assert found == {"type": "json_schema", "json_schema": schema}
    plain = OutputContract(requested="json_schema", asked="json_schema", name="t", schema=SCHEMA)
    found = body(contract=plain)["response_format"]
    assert found == {"type": "json_schema", "json_schema": {"name": "t", "schema": SCHEMA}}


def test_a_format_that_cannot_be_asked_for_is_told_once_and_first() -> None:
    contract = OutputContract(
        requested="json_schema", asked="json_object", name="trip", schema=SCHEMA
    )
    found = body(said("user", "hi"), contract=contract, instructions="Be brief.")
    assert found["response_format"] == {"type": "json_object"}
    first, last = found["messages"]
    assert first["role"] == "system"
    assert first["content"].startswith("Be brief.\n\nAnswer with one JSON value")
    assert last == {"role": "user", "content": "hi"}
    alone = messages(said("user", "hi"), contract=contract)
    assert alone[0]["content"].startswith("Answer with one JSON value")


def test_parameters_go_by_their_chat_names_in_a_fixed_order() -> None:
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
def test_probabilities_are_asked_for_in_two_fields(
    parameters: dict[str, Any], include: bool, sent: dict[str, Any]
) -> None:
    found = body(parameters=parameters, include_logprobs=include)
    assert {name: found[name] for name in found if "logprobs" in name} == sent


def test_quirks_rename_and_leave_out() -> None:
    quirks = ChatQuirks(
        max_tokens_field="max_completion_tokens", user_field=None, effort_field=None
    )
    given = {"max_output_tokens": 9, "user": "me"}
    found = body(parameters=given, effort="high", quirks=quirks)
    assert found.keys() == {"model", "max_completion_tokens", "messages"}


def test_a_stream_asks_for_usage_unless_the_provider_minds() -> None:
    plan = Plan(provider="p", model="m", history=(said("user", "hi"),))
    outbound = encode(plan, stream=True)
    assert outbound.headers["accept"] == "text/event-stream"
    assert problems(outbound.body) == []
    found = json.loads(outbound.body)
    assert (found["stream"], found["stream_options"]) == (True, {"include_usage": True})
    found = json.loads(encode(plan, stream=True, quirks=ChatQuirks(stream_usage=False)).body)
    assert found.keys() == {"model", "stream", "messages"}


def test_a_patch_has_the_last_word_but_messages_stay_last() -> None:
    def patch(sent: Document, plan: Plan) -> Document:
        return sent | {"thinking": {"type": plan.effort}}

    found = body(effort="high", quirks=ChatQuirks(patch=patch, effort_field=None))
    assert list(found) == ["model", "thinking", "messages"]
    assert found["thinking"] == {"type": "high"}


def test_fields_of_every_request_are_there() -> None:
    assert body(quirks=ChatQuirks(fields={"usage": {"include": True}}))["usage"] == {
        "include": True
    }


@pytest.mark.parametrize(
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
def test_an_effort_is_said_as_the_provider_wants_it(
    quirks: ChatQuirks, effort: str | None, sent: Document
) -> None:
    found = body(effort=effort, quirks=quirks)
    assert {name: found[name] for name in found if name not in ("model", "messages")} == sent


@pytest.mark.parametrize(("mode", "word"), [("auto", None), ("none", "none"), ("required", "any")])
def test_a_choice_is_said_in_the_providers_words(mode: Any, word: str | None) -> None:
    quirks = ChatQuirks(required_choice="any", free_choice=None)
    found = body(declarations=(LOOK,), tool_choice=ToolChoice(mode), quirks=quirks)
    assert found.get("tool_choice") == word
    assert found["tools"]


def test_notes_in_a_schema_are_left_out_where_they_are_refused() -> None:
    schema = {"$schema": "x", "type": "object", "properties": {"$schema": {"type": "string"}}}
    tool = ToolDeclaration(name="look", parameters=schema)
    found = body(declarations=(tool,), quirks=ChatQuirks(schema_drops=frozenset({"$schema"})))
    assert found["tools"][0]["function"]["parameters"] == {
        "type": "object",
        "properties": {"$schema": {"type": "string"}},
    }


def test_who_only_streams_is_asked_for_a_stream() -> None:
    plan = Plan(provider="p", model="m", history=(said("user", "hi"),))
    outbound = encode(plan, stream=False, quirks=ChatQuirks(only_streams=True))
    assert json.loads(outbound.body)["stream"] is True
    assert outbound.headers["accept"] == "text/event-stream"


def test_who_knows_no_tools_is_told_of_them_in_words() -> None:
    history = (said("user", "hi"), Called("a", "look", "{}"), answer("a", "rain"))
    found = messages(*history, quirks=ChatQuirks(plain_dialogue=True))
    assert [message["role"] for message in found] == ["user", "assistant", "user"]
    assert all(message.keys() == {"role", "content"} for message in found)


def test_ids_are_the_same_on_both_sides_in_the_form_that_is_taken() -> None:
    history = (
        said("user", "hi"),
        Called("look:0", "look", "{}"),
        Called("look:1", "look", "{}"),
        answer("look:0", "rain"),
        answer("look:1", "sun"),
        Called("look:0", "look", "{}"),
        answer("look:0", "snow"),
    )
    found = messages(*history, quirks=ChatQuirks(call_ids=CallIdFormat("[a-z0-9]{9}", 9)))
    called = [call["id"] for message in found for call in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in found if message["role"] == "tool"]
    assert called == answered
    assert len(set(called)) == 3
    assert all(len(each) == 9 for each in called)


DETAIL = {"type": "reasoning.text", "text": "hm", "index": 0}
SIGNED = ReasoningState("gemini.thought_signature", "sig", "tool")


def test_blocks_of_reasoning_go_back_in_place_of_the_reasoning() -> None:
    state = ReasoningState("openrouter.reasoning_details", [DETAIL])
    history = (said("user", "hi"), Thought("hm", states=(state,)), said("assistant", "ho"))
    [_, told] = messages(
        *history, replay_reasoning="always", quirks=ChatQuirks(replay_details=True)
    )
    assert told == {"role": "assistant", "content": "ho", "reasoning_details": [DETAIL]}
    [_, told] = messages(*history, replay_reasoning="always", quirks=ChatQuirks())
    assert told == {"role": "assistant", "content": "ho", "reasoning_content": "hm"}


def test_reasoning_without_blocks_goes_back_as_ever() -> None:
    history = (said("user", "hi"), Thought("hm"), said("assistant", "ho"))
    quirks = ChatQuirks(replay_details=True)
    [_, told] = messages(*history, replay_reasoning="always", quirks=quirks)
    assert told["reasoning_content"] == "hm"


def test_a_signature_goes_back_where_it_is_wanted() -> None:
    history = (said("user", "hi"), Thought(states=(SIGNED,)), Called("a", "look", "{}"))
    [_, told, *_] = messages(*history, quirks=ChatQuirks(replay_signatures=True))
    [call] = told["tool_calls"]
    assert call["extra_content"] == {"google": {"thought_signature": "sig"}}
    [_, told, *_] = messages(*history, quirks=ChatQuirks())
    assert "extra_content" not in told["tool_calls"][0]


def test_reasoning_that_is_lost_is_replaced_where_it_is_required() -> None:
    history = (said("user", "hi"), Called("a", "look", "{}"), answer("a", "rain"))
    quirks = ChatQuirks(reasoning_required=True, lost_reasoning=" ")
    [_, told, _] = messages(*history, replay_reasoning="tool_turns", quirks=quirks)
    assert told["reasoning_content"] == " "


# --- what real clients send -----------------------------------------------------------------------


def test_a_captured_thread_keeps_its_words() -> None:
    if not captured.bodies():
        pytest.skip(captured.ABSENT)
    request = captured.bodies()["03-followup-shell-output"]
    steps, diagnostics = canonical(
        request["input"], inputs=frozenset({"text"}), tool_output_images=False
    )
    history, mended = paired(steps)
    *_, user, assistant, tool = messages(*history)
    assert diagnostics == mended == ()
    assert user == {"role": "user", "content": "please go"}
    assert assistant["tool_calls"][0]["function"]["name"] == "exec_command"
    assert tool["content"].endswith("hi-from-shell\n")
