"""The writing half of Cohere's chat: a plan becomes a request that is refused by nobody."""

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
from antiphon.core.stream.deltas import ReasoningState
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.dialects.cohere.encode import encode
from antiphon.dialects.cohere.quirks import PLAIN, CohereQuirks
from antiphon.dialects.cohere.reasoning_state import THINKING, TOOL_PLAN
from antiphon.wire.items import Document
from tests.support.dialect_samples.history import answer, said
from tests.support.request_validators.cohere import problems

INSISTING = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
LOOK = ToolDeclaration(name="look", description="Look.", parameters=INSISTING, strict=True)
LISTEN = ToolDeclaration(name="listen")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
GO_ON = {"role": "user", "content": "Continue."}
HI = {"role": "user", "content": "hi"}


def kept(scheme: str, *values: Any) -> Thought:
    states = tuple(ReasoningState(scheme, value, "block") for value in values)
    return Thought("as shown", states=states)


def body(*history: Step, quirks: CohereQuirks = PLAIN, **fields: Any) -> Document:
    plan = Plan(provider="p", model="m", history=history or (said("user", "hi"),), **fields)
    found = encode(plan, stream=False, quirks=quirks).body
    assert problems(found) == []
    decoded: Document = json.loads(found)
    return decoded


def messages(*history: Step, **fields: Any) -> list[Document]:
    found: list[Document] = body(*history, **fields)["messages"]
    return found


def called(*before: Step, **fields: Any) -> Document:
    """The assistant's message of a turn that ends with a call."""
    history = (said("user", "hi"), *before, Called("a", "look", "{}"), answer("a", "1"))
    return messages(*history, **fields)[1]


# --- messages -------------------------------------------------------------------------------------


def test_a_question_is_a_model_and_a_message_to_the_chat_path() -> None:
    plan = Plan(provider="p", model="m", history=(said("user", "hi"),))
    outbound = encode(plan, stream=False)
    assert outbound.path == "/v2/chat"
    assert outbound.headers == {"content-type": "application/json", "accept": "application/json"}
    assert (
        outbound.body == b'{"model":"m","stream":false,"messages":[{"role":"user","content":"hi"}]}'
    )
    assert encode(plan, stream=True).headers["accept"] == "text/event-stream"


def test_instructions_come_first_and_every_message_stays_in_its_place() -> None:
    history = (
        said("developer", "a"),
        said("user", "b", "c"),
        said("system", "d"),
        said("user", "e"),
    )
    assert messages(*history, instructions="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "a"},
        {"role": "user", "content": "b\nc"},
        {"role": "system", "content": "d"},
        {"role": "user", "content": "e"},
    ]


def test_a_turn_of_several_items_is_one_message() -> None:
    history = (
        said("user", "hi"),
        Said("assistant", (TextPart("O"), RefusalPart("ne."))),
        said("assistant", "Two."),
        said("user", "go on"),
    )
    assert messages(*history)[1] == {"role": "assistant", "content": "One.\n\nTwo."}


def test_calls_and_their_results_follow_each_other() -> None:
    history = (
        said("user", "hi"),
        Called("a", "look", '{"x": 1}'),
        Called("b", "look", "{}"),
        answer("a", "1", "2"),
        answer("b", " "),
    )
    assert messages(*history) == [
        HI,
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"x": 1}'},
                },
                {"id": "b", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1\n2"},
        {"role": "tool", "tool_call_id": "b", "content": "[no output]"},
    ]


def test_every_answer_follows_a_question_and_something_is_asked() -> None:
    spoken = said("assistant", "Well.")
    well = {"role": "assistant", "content": "Well."}
    assert messages(spoken) == [GO_ON, well, GO_ON]
    assert messages(said("system", "a"), spoken, said("user", "hi"))[1:] == [GO_ON, well, HI]
    assert messages(said("user", "hi"), said("developer", "a")) == [
        HI,
        {"role": "system", "content": "a"},
        GO_ON,
    ]


def test_a_thread_without_a_word_still_asks_for_an_answer() -> None:
    outbound = encode(Plan(provider="p", model="m", instructions=" "), stream=True)
    assert json.loads(outbound.body)["messages"] == [GO_ON]


def test_a_turn_that_has_nothing_to_say_is_no_message() -> None:
    assert messages(said("user", "hi"), Thought("hm")) == [HI]
    assert messages(said("user", "hi"), said("assistant", " ")) == [HI]


def test_words_without_a_visible_character_say_so() -> None:
    assert messages(said("user", " "))[0]["content"] == "[no text]"
    assert messages(said("system", "\n"), said("user", "hi"))[0]["content"] == "[no text]"


def test_a_call_is_rendered_under_the_name_its_tool_is_declared_by() -> None:
    identities = ToolIdentityMap([ToolIdentity("box__look", "look", namespace="box")])
    history = (Called("a", "look", "{}", "box"), Called("b", "nä.h", "{}"))
    [_, assistant, *_] = messages(
        *history, answer("a", "1"), answer("b", "2"), identities=identities
    )
    names = [call["function"]["name"] for call in assistant["tool_calls"]]
    assert names[0] == "box__look"
    assert names[1].startswith("n__h")


# --- what was thought -----------------------------------------------------------------------------


def test_a_plan_goes_back_with_its_calls_as_it_came() -> None:
    message = called(kept(TOOL_PLAN, "I will look.\n"))
    assert message["tool_plan"] == "I will look.\n"
    assert "content" not in message


def test_text_beside_calls_is_their_plan() -> None:
    assert called(said("assistant", "Let me look."))["tool_plan"] == "Let me look."
    both = called(kept(TOOL_PLAN, "I will look."), said("assistant", "Wait."))
    assert both["tool_plan"] == "I will look.\n\nWait."


def test_thoughts_go_back_with_their_calls_block_by_block() -> None:
    message = called(
        kept(THINKING, "hm", "so"), kept(TOOL_PLAN, "plan"), said("assistant", "Wait.")
    )
    assert "tool_plan" not in message
    assert [block["thinking"] for block in message["content"]] == ["hm", "so", "plan", "Wait."]


def test_thoughts_of_others_stay_behind() -> None:
    foreign = kept("anthropic.thinking", {"thinking": "hm"})
    for thought in (Thought("hm"), foreign, kept(THINKING, 1)):
        assert called(thought).keys() == {"role", "tool_calls"}


def test_thoughts_stay_behind_while_thinking_is_off() -> None:
    message = called(kept(THINKING, "hm"), kept(TOOL_PLAN, "plan"), effort="disabled")
    assert message["tool_plan"] == "plan"
    assert "content" not in message


@pytest.mark.parametrize(
    ("replay", "content"),
    [
        ("never", "Done."),
        ("tool_turns", "Done."),
        (
            "always",
            [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Done."}],
        ),
    ],
)
def test_thoughts_before_an_answer_go_back_only_if_all_do(
    replay: ReplayReasoning, content: Any
) -> None:
    history = (said("user", "hi"), kept(THINKING, "hm"), said("assistant", "Done."))
    found = messages(*history, said("user", "hi"), replay_reasoning=replay)
    assert found[1] == {"role": "assistant", "content": content}


# --- media and results ----------------------------------------------------------------------------


def test_images_make_a_list_of_blocks() -> None:
    parts = (
        TextPart("look"),
        TextPart(" "),
        ImagePart("https://x.test/1", "low"),
        ImagePart("data:image/png;base64,AAAA", "original"),
    )
    [message] = messages(Said("user", parts))
    assert message["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://x.test/1", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (FilePart(filename="a.pdf"), "[file a.pdf omitted: this model takes no files]"),
        (FilePart(), "[file without a name omitted: this model takes no files]"),
        (AudioPart("AA==", "wav"), "[audio omitted: this model takes no audio]"),
    ],
)
def test_what_a_model_does_not_take_says_so(part: Part, text: str) -> None:
    assert messages(Said("user", (part,))) == [{"role": "user", "content": text}]


def test_a_result_cannot_hold_an_image() -> None:
    result = Answered("a", (ImagePart("https://x.test/1"),), "look")
    tool = messages(said("user", "hi"), Called("a", "look", "{}"), result)[-1]
    assert tool["content"] == "[image omitted: it cannot be shown here]"


def test_results_are_documents_where_they_are_to_be_cited() -> None:
    quirks = CohereQuirks(tool_results="documents")
    history = (said("user", "hi"), Called("a", "look", "{}"), Called("b", "look", "{}"))
    results = (answer("a", '{"x": 1e2}', "two", "[1]"), answer("b", " "))
    plan = Plan(provider="p", model="m", history=history + results)
    assert b'"data":{"x": 1e2}' in encode(plan, stream=True, quirks=quirks).body
    *_, first, second = messages(*history, *results, quirks=quirks)
    assert [block["document"]["data"] for block in first["content"]] == [
        {"x": 100},
        {"content": "two"},
        {"content": "[1]"},
    ]
    assert second["content"] == [
        {"type": "document", "document": {"data": {"content": "[no output]"}}}
    ]


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
def test_a_choice_is_a_word_and_a_tool_that_has_to_be_called_stands_alone(
    choice: ToolChoice, word: str, offered: list[str]
) -> None:
    found = body(declarations=(LOOK, LISTEN), tool_choice=choice)
    assert found["tool_choice"] == word
    assert [tool["function"]["name"] for tool in found["tools"]] == offered
    assert body(tool_choice=choice).keys() == {"model", "stream", "messages"}


def test_tools_are_strict_if_all_of_them_are_and_insist_on_something() -> None:
    lax = ToolDeclaration(name="lax", parameters=INSISTING)
    idle = ToolDeclaration(name="idle", parameters={"type": "object"}, strict=True)
    assert body(declarations=(LOOK,))["strict_tools"] is True
    for other in (LISTEN, lax, idle):
        assert "strict_tools" not in body(declarations=(LOOK, other))


def test_a_format_is_asked_for_as_a_json_object() -> None:
    asked = OutputContract(requested="json_schema", asked="json_schema", name="t", schema=SCHEMA)
    assert body(contract=asked)["response_format"] == {"type": "json_object", "json_schema": SCHEMA}
    asked = OutputContract(requested="json_object", asked="json_object")
    assert body(contract=asked)["response_format"] == {"type": "json_object"}
    assert "response_format" not in body()


def test_beside_tools_a_format_is_told_and_not_asked_for() -> None:
    asked = OutputContract(requested="json_schema", asked="json_schema", name="t", schema=SCHEMA)
    found = body(contract=asked, declarations=(LOOK,), instructions="Be brief.")
    assert "response_format" not in found
    assert found["messages"][0]["content"].startswith("Be brief.\n\nAnswer with one JSON value")


def test_parameters_go_by_their_native_names_within_their_bounds() -> None:
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
        ("max", {"type": "enabled"}),
    ],
)
def test_an_effort_is_a_budget_or_a_switch(effort: str, thinking: Document) -> None:
    assert body(effort=effort)["thinking"] == thinking
    assert "thinking" not in body()


def test_quirks_are_fields_of_every_request() -> None:
    quirks = CohereQuirks(budgets={"low": 7}, fields={"citation_options": {"mode": "FAST"}})
    found = body(effort="low", quirks=quirks)
    assert found["thinking"]["token_budget"] == 7
    assert found["citation_options"] == {"mode": "FAST"}
    assert list(found)[-1] == "messages"
