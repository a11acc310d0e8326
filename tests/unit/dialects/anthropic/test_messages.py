"""History as Anthropic messages."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.steps import (
    ImagePart,
    MessageStep,
    ReasoningStep,
    RefusalPart,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.plan.plan import Plan
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.dialects.anthropic.encode import encode
from antiphon.dialects.anthropic.quirks import AnthropicQuirks
from tests.support.dialect_samples.history import answer, call, message_step
from tests.support.request_validators.anthropic import problems
from tests.support.tables import table

Body = dict[str, Any]

PLAIN = AnthropicQuirks(thinking="adaptive", caching="off")
SIGNED = {"type": "thinking", "thinking": "hm", "signature": "s"}
REDACTED = {"type": "redacted_thinking", "data": "d"}


def thought(*blocks: Body, text: str = "") -> ReasoningStep:
    schemes = {"thinking": "anthropic.thinking"}
    redacted = "anthropic.redacted_thinking"
    states = [
        ReasoningState(schemes.get(block["type"], redacted), block, "block") for block in blocks
    ]
    return ReasoningStep(text=text, states=tuple(states))


def body(*history: Step, quirks: AnthropicQuirks = PLAIN, **fields: Any) -> Body:
    plan = Plan(provider="p", model="m", history=history, **fields)
    found = encode(plan, stream=False, quirks=quirks).body
    assert quirks.unsigned_thinking or problems(found) == []
    decoded: Body = json.loads(found)
    return decoded


def messages(*history: Step, **fields: Any) -> list[Body]:
    found: list[Body] = body(*history, **fields)["messages"]
    return found


def text(content: str) -> Body:
    return {"type": "text", "text": content}


def user(*content: Body | str) -> Body:
    blocks = [text(each) if isinstance(each, str) else each for each in content]
    return {"role": "user", "content": blocks}


def model(*content: Body | str) -> Body:
    return user(*content) | {"role": "assistant"}


def used(call_id: str, **arguments: Any) -> Body:
    return {"type": "tool_use", "id": call_id, "name": "look", "input": arguments}


def result(call_id: str, *content: Body) -> Body:
    return {"type": "tool_result", "tool_use_id": call_id, "content": list(content) or [text("1")]}


HI = message_step("user", "hi")


# --- turns ----------------------------------------------------------------------------------------


def test_every_part_is_a_block_and_every_turn_is_a_message() -> None:
    history = (
        message_step("user", "a", "b"),
        message_step("assistant", "c", "d"),
        message_step("user", "e"),
    )
    assert messages(*history) == [user("a", "b"), model("cd"), user("e")]


def test_steps_of_one_side_are_one_message() -> None:
    history = (
        HI,
        message_step("user", "ho"),
        message_step("assistant", "a"),
        message_step("assistant", "b"),
        HI,
    )
    assert messages(*history) == [user("hi", "ho"), model("a", "b"), user("hi")]


def test_the_first_and_the_last_message_are_the_users() -> None:
    assert messages() == [user("[no text]")]
    assert messages(message_step("assistant", "a")) == [
        user("[no text]"),
        model("a"),
        user("Continue."),
    ]


@pytest.mark.parametrize("blank", ["", " \n"])
def test_blank_text_is_left_out(blank: str) -> None:
    assert messages(message_step("user", blank, "a")) == [user("a")]
    assert messages(message_step("user", blank)) == [user("[no text]")]
    assert messages(HI, message_step("assistant", blank), HI) == [user("hi", "hi")]
    assert messages(message_step("assistant", blank), HI) == [user("hi")]
    history = (
        HI,
        call(),
        ToolResultStep("a", (TextPart(blank),), "look"),
        message_step("developer", blank),
    )
    assert messages(*history)[-1] == user(result("a", text("[no output]")))


def test_an_earlier_refusal_is_text() -> None:
    refused = MessageStep("assistant", (TextPart("Well, "), RefusalPart("no.")))
    assert messages(HI, refused, HI)[1] == model("Well, no.")


def test_media_keep_their_position() -> None:
    url = "https://x.test/1.png"
    image = {"type": "image", "source": {"type": "url", "url": url}}
    assert messages(MessageStep("user", (TextPart("a"), ImagePart(url)))) == [user("a", image)]
    history = (HI, call(), ToolResultStep("a", (ImagePart(url), RefusalPart("b")), "look"))
    assert messages(*history)[-1] == user(result("a", image, text("b")))


# --- instructions ---------------------------------------------------------------------------------


def test_leading_instructions_are_the_system_prompt() -> None:
    found = body(
        message_step("developer", "a", "b"),
        message_step("system", "c"),
        HI,
        instructions="Be brief.",
    )
    assert found["system"] == [text("Be brief."), text("a\nb"), text("c")]
    assert found["messages"] == [user("hi")]


def test_later_instructions_keep_their_position() -> None:
    history = (
        HI,
        call(),
        answer("a"),
        message_step("developer", "Stop."),
        message_step("user", "ho"),
    )
    instruction = "<system>\nStop.\n</system>"
    assert messages(*history)[-1] == user(result("a"), instruction, "ho")


def test_without_instructions_there_is_no_system_prompt() -> None:
    assert "system" not in body(message_step("system", " "), HI, instructions=" ")


# --- tools ----------------------------------------------------------------------------------------


def test_calls_end_a_turn_and_their_results_begin_the_next() -> None:
    history = (HI, call("a", '{"x": 1}'), message_step("assistant", "Let me look."), call("b"))
    answers = (answer("a"), answer("b", "2"), message_step("user", "ho"))
    assert messages(*history, *answers) == [
        user("hi"),
        model("Let me look.", used("a", x=1), used("b")),
        user(result("a"), result("b", text("2")), "ho"),
    ]


def test_arguments_are_sent_with_their_bytes() -> None:
    plan = Plan(provider="p", model="m", history=(HI, call("a", '{"n": 1.0e2}'), answer("a")))
    assert b'"input":{"n": 1.0e2}' in encode(plan, stream=False).body


def test_a_call_has_the_provider_name_of_its_tool() -> None:
    identities = ToolIdentityMap([ToolIdentity("look", "box__look", namespace="box")])
    history = (HI, ToolCallStep("a", "look", "{}", namespace="box"), answer("a"))
    for known in (identities, ToolIdentityMap(())):
        [_, turn, _] = messages(*history, identities=known)
        assert turn["content"][0]["name"] == "box__look"


@pytest.mark.parametrize("call_id", ["functions.look:0", "x" * 65, "é"])
def test_a_refused_id_is_replaced_in_call_and_result(call_id: str) -> None:
    history = (HI, call(call_id), call("ok"), answer(call_id), answer("ok"))
    first, again = messages(*history), messages(*history, HI, message_step("assistant", "a"))
    assert re.fullmatch("[0-9a-f]{32}", first[1]["content"][0]["id"])
    assert first[1]["content"][1]["id"] == "ok"
    assert first[2]["content"][0]["tool_use_id"] == first[1]["content"][0]["id"]
    assert again[1] == first[1]


def test_a_repeated_id_is_replaced() -> None:
    [_, first, _, second, answered] = messages(HI, call(), answer("a"), call(), answer("a"))
    assert first["content"] == [used("a")]
    [again] = second["content"]
    assert again["id"] != "a"
    assert answered["content"] == [result(again["id"])]


# --- thought --------------------------------------------------------------------------------------


def test_reasoning_blocks_are_replayed_unchanged_and_in_order() -> None:
    other = SIGNED | {"thinking": "", "signature": "t"}
    history = (
        HI,
        thought(SIGNED, REDACTED),
        message_step("assistant", "a"),
        thought(other),
        call(),
    )
    assert messages(*history, answer("a"))[1] == model(SIGNED, REDACTED, "a", other, used("a"))


def test_reasoning_state_of_another_scheme_is_left_out() -> None:
    foreign = ReasoningStep(
        "hm", states=(ReasoningState("gemini.thought_signature", "x", "block"),)
    )
    odd = ReasoningStep("hm", states=(ReasoningState("anthropic.thinking", "x", "block"),))
    history = (
        HI,
        ReasoningStep("hm", summary="hm"),
        foreign,
        odd,
        message_step("assistant", "a"),
        HI,
    )
    assert messages(*history)[1] == model("a")


def test_a_turn_never_ends_with_reasoning() -> None:
    history = (HI, message_step("assistant", "a"), thought(SIGNED, REDACTED), HI)
    assert messages(*history)[1] == model("a")
    assert messages(HI, thought(SIGNED), message_step("assistant", " "), HI) == [user("hi", "hi")]


def test_unsigned_reasoning_is_replayed_where_supported() -> None:
    quirks = AnthropicQuirks(unsigned_thinking=True)
    history = (
        HI,
        ReasoningStep("hm"),
        thought(SIGNED),
        ReasoningStep(summary="x"),
        call(),
        answer("a"),
    )
    unsigned = {"type": "thinking", "thinking": "hm", "signature": ""}
    assert messages(*history, quirks=quirks)[1] == model(unsigned, SIGNED, used("a"))


BUDGET = AnthropicQuirks(caching="off")
ON = {"type": "enabled", "budget_tokens": 8192}
OFF = {"type": "disabled"}


def test_reasoning_is_replayed_only_with_thinking_enabled() -> None:
    history = (HI, thought(SIGNED), message_step("assistant", "a"), HI)
    thinks = body(*history, quirks=BUDGET, effort="8192")
    assert (thinks["thinking"], thinks["messages"][1]) == (ON, model(SIGNED, "a"))
    for effort in (None, "none"):
        found = body(*history, quirks=BUDGET, effort=effort)
        assert found["messages"][1] == model("a")
        assert found.get("thinking") == (OFF if effort else None)


@table(
    ("rounds", "thinking"),
    [
        ((thought(SIGNED), call(), answer("a")), ON),
        ((call(), answer("a")), OFF),
        ((message_step("assistant", "a"), thought(SIGNED), call(), answer("a")), OFF),
        ((thought(SIGNED), call(), answer("a"), call("b"), answer("b")), ON),
        ((call(), answer("a"), thought(SIGNED), call("b"), answer("b")), OFF),
        ((thought(SIGNED), call(), answer("a"), HI, call("b"), answer("b")), OFF),
        ((call(), answer("a"), HI, thought(SIGNED), call("b"), answer("b")), ON),
        ((call(), answer("a"), message_step("assistant", "b"), HI), ON),
    ],
)
def test_a_turn_that_began_without_reasoning_resumes_without_thinking(
    rounds: tuple[Step, ...], thinking: Body
) -> None:
    assert body(HI, *rounds, quirks=BUDGET, effort="8192")["thinking"] == thinking
