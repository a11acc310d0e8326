"""Histories as Gemini turns, with every signature on its part."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.steps import (
    MessageStep,
    ReasoningStep,
    RefusalPart,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.dialects.gemini.encode import encode
from antiphon.dialects.gemini.messages import OPENING, SENTINEL
from antiphon.dialects.gemini.quirks import PLAIN, GeminiQuirks
from tests.support.dialect_samples.gemini_history import answer, turns
from tests.support.dialect_samples.history import message_step
from tests.support.tables import table

USER = {"role": "user", "parts": [{"text": "hi"}]}
STRICT = GeminiQuirks(sentinel=True)


def model(*own: Step, quirks: GeminiQuirks = PLAIN) -> list[Document]:
    """The parts of a model turn; results of its calls are added."""
    calls = [step for step in own if isinstance(step, ToolCallStep)]
    answers = [answer(call.call_id, "1") for call in calls]
    _, turn, *_ = turns(message_step("user", "hi"), *own, *answers, quirks=quirks)
    assert turn["role"] == "model"
    parts: list[Document] = turn["parts"]
    return parts


# --- turns ----------------------------------------------------------------------------------------


def test_turns_alternate_and_consecutive_messages_share_a_turn() -> None:
    history = (
        message_step("user", "a"),
        message_step("user", "b"),
        message_step("assistant", "c"),
        message_step("assistant", "d"),
    )
    assert turns(*history, message_step("user", "e")) == [
        {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
        {"role": "model", "parts": [{"text": "c"}, {"text": "d"}]},
        {"role": "user", "parts": [{"text": "e"}]},
    ]


def test_the_first_turn_is_the_users() -> None:
    opening = {"role": "user", "parts": [{"text": OPENING}]}
    assert turns(message_step("assistant", "a")) == [
        opening,
        {"role": "model", "parts": [{"text": "a"}]},
    ]
    assert turns() == [opening]


def test_empty_messages_are_left_out() -> None:
    assert turns(
        message_step("user", "hi"),
        message_step("assistant", ""),
        ReasoningStep("hm"),
        message_step("user", ""),
    ) == [USER]


def test_text_parts_of_the_model_are_joined_without_a_separator() -> None:
    parts = (TextPart("Well, "), RefusalPart("no."))
    assert model(MessageStep("assistant", parts)) == [{"text": "Well, no."}]


# --- calls and results ----------------------------------------------------------------------------


def test_parallel_calls_are_one_turn_and_their_results_the_next() -> None:
    history = (
        message_step("user", "hi"),
        message_step("assistant", "Let me look."),
        ToolCallStep("a1", "look", '{"x": 1}'),
        ToolCallStep("b2", "look", "{}"),
        answer("a1", "1", "2"),
        answer("b2"),
        message_step("user", "Well?"),
        message_step("developer", "Hurry."),
    )
    assert turns(*history) == [
        USER,
        {
            "role": "model",
            "parts": [
                {"text": "Let me look."},
                {"functionCall": {"name": "look", "id": "a1", "args": {"x": 1}}},
                {"functionCall": {"name": "look", "id": "b2", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "name": "look",
                        "id": "a1",
                        "response": {"output": "1\n2"},
                    }
                },
                {"functionResponse": {"name": "look", "id": "b2", "response": {"output": ""}}},
            ],
        },
        {"role": "user", "parts": [{"text": "Well?"}, {"text": "Hurry."}]},
    ]


def test_a_call_uses_the_declared_name_of_its_tool() -> None:
    known = ToolIdentityMap([ToolIdentity("files__read_1", "read", namespace="files")])
    history = (
        message_step("user", "hi"),
        ToolCallStep("x", "read", "{}", "files"),
        ToolCallStep("y", "read", "{}"),
        ToolResultStep("x", (TextPart("1"),), "read"),
        ToolResultStep("y", (TextPart("1"),), "read"),
    )
    _, call, answers = turns(*history, identities=known)
    names = ["files__read_1", "read"]
    assert [part["functionCall"]["name"] for part in call["parts"]] == names
    assert [part["functionResponse"]["name"] for part in answers["parts"]] == names


@pytest.mark.parametrize(
    ("call_id", "quirks", "sent"),
    [
        ("v3yybtcf", PLAIN, "v3yybtcf"),
        ("toolu_1", PLAIN, "toolu_1"),
        ("call_1", PLAIN, None),
        ("", PLAIN, None),
        ("v3yybtcf", GeminiQuirks(call_ids=False), None),
    ],
)
def test_call_ids_are_sent_unless_a_gateway_generated_them(
    call_id: str, quirks: GeminiQuirks, sent: str | None
) -> None:
    history = (
        message_step("user", "hi"),
        ToolCallStep(call_id, "look", "{}"),
        answer(call_id, "1"),
    )
    _, call, response = turns(*history, quirks=quirks)
    assert call["parts"][0]["functionCall"].get("id") == sent
    assert response["parts"][0]["functionResponse"].get("id") == sent


@table("text", ["", "nope", "[1]", "null", '{"a": ', "[" * 5000])
def test_arguments_that_are_not_an_object_are_wrapped_in_one(text: str) -> None:
    [part] = model(ToolCallStep("a", "look", text))
    assert part["functionCall"]["args"] == {"arguments": text}


def test_a_result_without_a_call_keeps_the_name_of_its_tool() -> None:
    plan = Plan(provider="p", model="m", history=(ToolResultStep("x", (TextPart("1"),), "9"),))
    body = json.loads(encode(plan, stream=False).body)
    assert body["contents"][0]["parts"][0]["functionResponse"]["name"] == "_9"


# --- reasoning state ------------------------------------------------------------------------------


def signature(value: Any, attach: Any = "text") -> ReasoningState:
    return ReasoningState("gemini.thought_signature", value, attach)


def reasoning_step(*states: ReasoningState) -> ReasoningStep:
    return ReasoningStep("", "A summary.", states=states)


def signature_at(sig: str, **position: int) -> ReasoningState:
    return signature({"signature": sig, **position})


def echo_state(part: Document, **position: int) -> ReasoningState:
    return ReasoningState("gemini.part", {"part": part, **position}, "turn")


CODE: Document = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "Y29k"}
RESULT: Document = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}


def call_part(**more: Any) -> Document:
    return {"functionCall": {"name": "look", "id": "a", "args": {}}, **more}


def test_a_signature_is_sent_back_on_the_call_after_it() -> None:
    own = (
        reasoning_step(signature("c2ln", "tool")),
        ToolCallStep("a", "look", "{}"),
        ToolCallStep("b", "look", "{}"),
    )
    first, second = model(*own, quirks=STRICT)
    assert first == call_part(thoughtSignature="c2ln")
    assert "thoughtSignature" not in second


def test_a_signature_without_its_call_is_left_out() -> None:
    own = (
        reasoning_step(signature("c2ln", "tool")),
        message_step("assistant", "Hm."),
        ToolCallStep("a", "look", "{}"),
    )
    assert model(*own) == [{"text": "Hm."}, call_part()]


def test_only_the_first_foreign_call_of_a_turn_gets_the_sentinel() -> None:
    own = (ReasoningStep("hm"), ToolCallStep("a", "look", "{}"), ToolCallStep("b", "look", "{}"))
    first, second = model(*own, quirks=STRICT)
    assert first == call_part(thoughtSignature=SENTINEL)
    assert "thoughtSignature" not in second
    assert model(ToolCallStep("a", "look", "{}")) == [call_part()]
    assert model(message_step("assistant", "a"), quirks=STRICT) == [{"text": "a"}]


def test_a_signature_is_sent_back_on_its_range_of_text() -> None:
    own = (
        message_step("assistant", "The end"),
        reasoning_step(signature_at("c2ln", start=0, end=4)),
    )
    assert model(*own) == [{"text": "The ", "thoughtSignature": "c2ln"}, {"text": "end"}]
    own = (
        message_step("assistant", "The end"),
        reasoning_step(signature_at("c2ln", start=0, end=7)),
    )
    assert model(*own) == [{"text": "The end", "thoughtSignature": "c2ln"}]
    own = (
        message_step("assistant", "The end"),
        reasoning_step(signature_at("c2ln", start=7, end=7)),
    )
    assert model(*own) == [{"text": "The end"}, {"text": "", "thoughtSignature": "c2ln"}]


def test_a_signature_without_a_range_follows_the_text() -> None:
    own = (message_step("assistant", "a"), reasoning_step(signature_at("c2ln")))
    assert model(*own) == [{"text": "a"}, {"text": "", "thoughtSignature": "c2ln"}]
    assert model(ToolCallStep("a", "look", "{}"), reasoning_step(signature_at("c2ln"))) == [
        call_part(),
        {"text": "", "thoughtSignature": "c2ln"},
    ]


def test_a_bare_signature_covers_all_of_the_text() -> None:
    own = (message_step("assistant", "a"), reasoning_step(signature("c2ln")))
    assert model(*own) == [{"text": "a", "thoughtSignature": "c2ln"}]


def test_parts_are_echoed_in_their_position() -> None:
    own = (
        reasoning_step(echo_state(CODE), echo_state(RESULT)),
        message_step("assistant", "one two"),
        reasoning_step(
            echo_state(CODE, start=3),
            echo_state(RESULT, start=3),
            signature_at("c2ln", start=7, end=7),
        ),
    )
    assert model(*own) == [
        *(CODE, RESULT),
        {"text": "one"},
        *(CODE, RESULT),
        {"text": " two"},
        {"text": "", "thoughtSignature": "c2ln"},
    ]


def test_state_between_text_and_a_call_applies_to_both() -> None:
    own = (
        message_step("assistant", "ab"),
        reasoning_step(signature_at("dA==", start=0, end=1), signature("c2ln", "tool")),
        ToolCallStep("a", "look", "{}"),
    )
    assert model(*own) == [
        {"text": "a", "thoughtSignature": "dA=="},
        {"text": "b"},
        call_part(thoughtSignature="c2ln"),
    ]


def test_a_position_beyond_a_changed_text_is_its_end() -> None:
    own = (
        message_step("assistant", "ab"),
        reasoning_step(signature_at("c2ln", start=5, end=9), echo_state(CODE, start=7)),
    )
    assert model(*own) == [{"text": "ab"}, {"text": "", "thoughtSignature": "c2ln"}, CODE]


@table(
    "odd",
    [
        signature(5),
        signature({"sig": "x"}),
        signature(5, "tool"),
        ReasoningState("gemini.part", {"part": "odd"}, "turn"),
        ReasoningState("gemini.part", "odd", "turn"),
        ReasoningState("anthropic.signature", "odd", "block"),
        ReasoningState("anthropic.signature", {"signature": "x"}, "text"),
    ],
)
def test_malformed_or_foreign_state_is_left_out(odd: ReasoningState) -> None:
    own = (message_step("assistant", "a"), reasoning_step(odd), ToolCallStep("a", "look", "{}"))
    assert model(*own) == [{"text": "a"}, call_part()]


def test_an_error_is_marked_as_one() -> None:
    failed = ToolResultStep("a", (TextPart("no"),), is_error=True)
    found = turns(message_step("user", "hi"), ToolCallStep("a", "look", "{}"), failed)
    assert found[-1]["parts"][0]["functionResponse"]["response"] == {"error": "no"}
