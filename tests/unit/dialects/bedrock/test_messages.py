"""History as Converse messages."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.steps import (
    FilePart,
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
from antiphon.core.tools.declaration import ToolDeclaration
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.dialects.bedrock.encode import encode
from antiphon.dialects.bedrock.quirks import PLAIN, BedrockQuirks
from tests.support.dialect_samples.history import answer, call, message_step
from tests.support.request_validators.bedrock import problems
from tests.support.request_validators.converse_model import offences

Body = dict[str, Any]

SIGNED = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "cw=="}}}
REDACTED = {"reasoningContent": {"redactedContent": "eA=="}}
APART = BedrockQuirks(separate_tool_messages=True)
PIXEL = "data:image/png;base64,eA=="


def thought(*blocks: Body) -> ReasoningStep:
    return ReasoningStep(
        text="hm", states=tuple(ReasoningState("bedrock.reasoning", b, "block") for b in blocks)
    )


def body(*history: Step, quirks: BedrockQuirks = PLAIN, **fields: Any) -> Body:
    plan = Plan(provider="p", model="m", history=history, **fields)
    found = encode(plan, stream=False, quirks=quirks).body
    assert problems(found, separate_tool_messages=quirks.separate_tool_messages) == []
    decoded: Body = json.loads(found)
    assert offences(decoded) == []
    return decoded


def messages(*history: Step, **fields: Any) -> list[Body]:
    found: list[Body] = body(*history, **fields)["messages"]
    return found


def user(*content: Body | str) -> Body:
    blocks = [{"text": each} if isinstance(each, str) else each for each in content]
    return {"role": "user", "content": blocks}


def model(*content: Body | str) -> Body:
    return user(*content) | {"role": "assistant"}


def use(call_id: str = "a", **given: Any) -> Body:
    return {"toolUse": {"toolUseId": call_id, "name": "look", "input": given}}


def result(call_id: str = "a", *content: Body | str) -> Body:
    return {"toolResult": {"toolUseId": call_id, "content": user(*content or ("1",))["content"]}}


HI, GO = message_step("user", "hi"), message_step("user", "go on")


# --- turns ----------------------------------------------------------------------------------------


def test_messages_of_user_and_assistant_alternate() -> None:
    assert messages(HI, GO, message_step("assistant", "a"), message_step("assistant", "b"), HI) == [
        user("hi", "go on"),
        model("a", "b"),
        user("hi"),
    ]


def test_results_come_before_the_text_of_their_message() -> None:
    assert messages(
        HI, message_step("assistant", "wait"), call("a"), call("b"), answer("a"), answer("b"), GO
    ) == [
        user("hi"),
        model("wait", use("a"), use("b")),
        user(result("a"), result("b"), "go on"),
    ]


def test_calls_come_last_in_their_turn() -> None:
    assert messages(HI, call(), message_step("assistant", "done"), answer("a"))[1] == model(
        "done", use()
    )


def test_arguments_are_sent_with_their_bytes() -> None:
    plan = Plan(
        provider="p", model="m", history=(HI, call("a", '{"n": 1.50,  "m": 1e5}'), answer("a"))
    )
    assert b'"input":{"n": 1.50,  "m": 1e5}' in encode(plan, stream=True).body


def test_a_conversation_begins_and_ends_with_the_user() -> None:
    assert messages() == [user("[no text]")]
    assert messages(message_step("assistant", "a")) == [
        user("[no text]"),
        model("a"),
        user("Continue."),
    ]
    assert messages(call(), answer("a"))[0] == user("[no text]")


def test_blank_text_is_left_out_and_an_empty_turn_gets_a_placeholder() -> None:
    assert messages(message_step("user", " \n", "hi", "")) == [user("hi")]
    assert messages(
        message_step("user", " "), message_step("assistant", "a"), message_step("user", "\t")
    ) == [
        user("[no text]"),
        model("a"),
        user("[no text]"),
    ]
    assert messages(HI, message_step("assistant", " "), GO) == [user("hi", "go on")]


def test_an_empty_result_gets_a_placeholder() -> None:
    assert messages(HI, call(), answer("a", " "))[2] == user(result("a", "[no output]"))


def test_an_earlier_refusal_is_text() -> None:
    assert messages(HI, MessageStep("assistant", (RefusalPart("no"),)), GO)[1] == model("no")


# --- instructions ---------------------------------------------------------------------------------


def test_leading_instructions_are_the_system_prompt() -> None:
    found = body(
        message_step("developer", "a", "b"),
        message_step("system", "c"),
        HI,
        instructions="Be brief.",
    )
    assert found["system"] == [{"text": "Be brief."}, {"text": "a\nb"}, {"text": "c"}]
    assert found["messages"] == [user("hi")]


def test_later_instructions_keep_their_position() -> None:
    found = body(
        HI,
        message_step("assistant", "a"),
        message_step("developer", "b"),
        message_step("system", " "),
    )
    assert "system" not in found
    assert found["messages"][-1] == user("<system>\nb\n</system>")


# --- thought --------------------------------------------------------------------------------------


def test_reasoning_is_replayed_unchanged_and_in_order() -> None:
    history = (HI, thought(SIGNED, REDACTED), message_step("assistant", "ok"), call(), answer("a"))
    assert messages(*history)[1] == model(SIGNED, REDACTED, "ok", use())


def test_reasoning_state_of_another_scheme_is_left_out() -> None:
    foreign = ReasoningStep(
        text="hm", states=(ReasoningState("anthropic.thinking", SIGNED, "block"),)
    )
    odd = ReasoningStep(states=(ReasoningState("bedrock.reasoning", "text", "block"),))
    for step in (ReasoningStep(text="hm", summary="h"), foreign, odd):
        assert messages(HI, step, message_step("assistant", "ok"), GO)[1] == model("ok")


def test_a_turn_never_ends_with_reasoning() -> None:
    assert messages(HI, message_step("assistant", "ok"), thought(SIGNED), GO)[1] == model("ok")
    assert messages(HI, thought(SIGNED), message_step("assistant", " "), GO) == [
        user("hi", "go on")
    ]


def test_reasoning_before_a_call_is_kept() -> None:
    assert messages(HI, call(), thought(SIGNED), answer("a"))[1] == model(SIGNED, use())


# --- ids and names --------------------------------------------------------------------------------


@pytest.mark.parametrize("call_id", ["", "functions.look:0", "é", "x" * 65, "\ud800"])
def test_a_refused_id_is_replaced_in_call_and_result(call_id: str) -> None:
    found = messages(HI, call(call_id), answer(call_id))
    given = found[1]["content"][0]["toolUse"]["toolUseId"]
    assert re.fullmatch("[0-9a-f]{32}", given)
    assert found[2]["content"][0]["toolResult"]["toolUseId"] == given
    assert messages(HI, call(call_id), answer(call_id)) == found


def test_a_repeated_id_is_replaced() -> None:
    found = messages(HI, call(), answer("a", "1"), call(), answer("a", "2"), call("b"), answer("b"))
    given = [b["toolUse"]["toolUseId"] for m in found[1::2] for b in m["content"]]
    answered = [b["toolResult"]["toolUseId"] for m in found[2::2] for b in m["content"]]
    assert given == answered
    assert given[0] == "a"
    assert given[2] == "b"
    assert len(set(given)) == 3


def test_a_call_has_the_provider_name_of_its_tool() -> None:
    identities = ToolIdentityMap([ToolIdentity("box__look", "look", namespace="box")])
    inside = ToolCallStep("a", "look", "{}", "box")
    found = messages(HI, inside, answer("a"), identities=identities)
    assert found[1]["content"][0]["toolUse"]["name"] == "box__look"
    named = messages(HI, ToolCallStep("a", "é", "{}"), answer("a"))
    assert re.fullmatch("__[0-9a-f]{8}", named[1]["content"][0]["toolUse"]["name"])


# --- media ----------------------------------------------------------------------------------------


def test_images_keep_their_position() -> None:
    parts = (TextPart("see"), ImagePart(PIXEL), TextPart("this"))
    image = {"image": {"format": "png", "source": {"bytes": "eA=="}}}
    assert messages(MessageStep("user", parts)) == [user("see", image, "this")]
    found = messages(HI, call(), ToolResultStep("a", (ImagePart(PIXEL),), "look"))
    assert found[2] == user(result("a", image))


def test_a_file_without_text_gets_a_placeholder() -> None:
    file = FilePart(filename="a.pdf", data="data:application/pdf;base64,eA==")
    [turn] = messages(MessageStep("user", (file,)), MessageStep("user", (file, TextPart("hi"))))
    kinds = [next(iter(block)) for block in turn["content"]]
    assert kinds == ["text", "document", "document", "text"]
    assert turn["content"][0] == {"text": "[see the file]"}


# --- models that keep words and calls apart -------------------------------------------------------


def test_text_and_calls_are_separated_for_models_that_require_it() -> None:
    history = (HI, message_step("assistant", "wait"), call(), answer("a"), GO)
    assert messages(*history, quirks=APART) == [
        user("hi"),
        model("wait"),
        user("Continue."),
        model(use()),
        user(result()),
        model("Continue."),
        user("go on"),
    ]


def test_separate_messages_stay_unchanged() -> None:
    history = (HI, call(), answer("a"), message_step("assistant", "ok"), GO)
    assert messages(*history, quirks=APART) == messages(*history)


# --- the cache ------------------------------------------------------------------------------------

MARK = {"cachePoint": {"type": "default"}}


def test_cache_points_follow_the_last_two_user_messages() -> None:
    quirks = BedrockQuirks(caching=True)
    history = (HI, message_step("assistant", "a"), GO, message_step("assistant", "b"), HI)
    found = body(*history, quirks=quirks, instructions="Be brief.")
    assert found["system"] == [{"text": "Be brief."}, MARK]
    assert found["messages"] == [
        user("hi"),
        model("a"),
        user("go on", MARK),
        model("b"),
        user("hi", MARK),
    ]
    assert body(HI, quirks=quirks) == {"messages": [user("hi", MARK)]}


def test_tools_that_are_declared_stay_declared() -> None:
    look = ToolDeclaration(name="look", description="Look.")
    found = body(HI, call(), answer("a"), declarations=(look,))
    assert [tool["toolSpec"]["name"] for tool in found["toolConfig"]["tools"]] == ["look"]


def test_an_error_is_marked_as_one() -> None:
    failed = ToolResultStep("a", (TextPart("no"),), is_error=True)
    plan = Plan(provider="p", model="m", history=(message_step("user", "hi"), call("a"), failed))
    [_, _, last] = json.loads(encode(plan, stream=False).body)["messages"]
    assert last["content"][0]["toolResult"]["status"] == "error"


def test_a_prefill_is_the_last_message() -> None:
    history = (message_step("user", "hi"), message_step("assistant", "{"))
    plan = Plan(provider="p", model="m", history=history, parameters={"prefill": True})
    assert json.loads(encode(plan, stream=False).body)["messages"][-1]["role"] == "assistant"
