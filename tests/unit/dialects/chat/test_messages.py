"""History as Chat Completions messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.capabilities import ReplayReasoning
from antiphon.core.deltas import ReasoningState
from antiphon.core.history.pairing import pair_calls
from antiphon.core.history.read_items import read_items
from antiphon.core.history.steps import (
    AudioPart,
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
from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.dialects.call_ids import CallIdFormat
from antiphon.dialects.chat.encode import encode
from antiphon.dialects.chat.quirks import PLAIN, ChatQuirks
from tests.support import captured_requests as captured
from tests.support.dialect_samples.history import answer, message_step
from tests.support.request_validators.chat import problems


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


def test_instructions_come_first_and_messages_keep_their_order() -> None:
    history = (
        message_step("developer", "a"),
        message_step("user", "b"),
        message_step("developer", "c"),
        message_step("system", "d"),
    )
    assert messages(*history, instructions="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "system", "content": "c"},
        {"role": "system", "content": "d"},
    ]


def test_the_developer_role_is_used_where_it_is_supported() -> None:
    [developer, system] = messages(
        message_step("developer", "a"), message_step("system", "b"), developer_role=True
    )
    assert (developer["role"], system["role"]) == ("developer", "system")


def test_text_parts_are_joined_to_one_string() -> None:
    [message] = messages(message_step("user", "<skills>", "<rules>"))
    assert message["content"] == "<skills>\n<rules>"


def test_text_of_the_model_is_joined_without_a_separator() -> None:
    parts = (TextPart("Well, "), TextPart("I "), RefusalPart("cannot."))
    [message] = messages(MessageStep("assistant", parts))
    assert message == {"role": "assistant", "content": "Well, I cannot."}


def test_a_turn_of_several_items_is_one_message() -> None:
    history = (
        ReasoningStep("hm"),
        message_step("assistant", "One."),
        message_step("assistant", "Two."),
        ToolCallStep("a", "look", '{"x": 1}'),
        ToolCallStep("b", "look", "{}"),
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
    steps = ToolCallStep("a", "look", "{}"), answer("a", "1")
    [assistant, _] = messages(*steps)
    assert "content" not in assistant
    [assistant, _] = messages(*steps, quirks=ChatQuirks(content_beside_calls=True))
    assert assistant["content"] is None


def test_a_turn_of_reasoning_alone_gives_no_message() -> None:
    assert messages(message_step("user", "hi"), ReasoningStep("hm")) == [
        {"role": "user", "content": "hi"}
    ]


@pytest.mark.parametrize(
    ("replay", "on_calls", "on_words"),
    [("never", None, None), ("tool_turns", "hm so", None), ("always", "hm so", "sum")],
)
def test_reasoning_is_replayed_as_planned(
    replay: ReplayReasoning, on_calls: str | None, on_words: str | None
) -> None:
    called, _, spoke = messages(
        ReasoningStep("hm "),
        ReasoningStep("so"),
        ToolCallStep("a", "look", "{}"),
        answer("a", "1"),
        ReasoningStep(summary="sum"),
        message_step("assistant", "Done."),
        replay_reasoning=replay,
    )
    assert called.get("reasoning_content") == on_calls
    assert spoke.get("reasoning_content") == on_words


@pytest.mark.parametrize("replay", ["tool_turns", "always"])
def test_required_reasoning_is_sent_empty_if_it_is_lost(
    replay: ReplayReasoning,
) -> None:
    history = (
        ToolCallStep("a", "look", "{}"),
        answer("a", "1"),
        message_step("assistant", "Done."),
    )
    required = ChatQuirks(reasoning_field="thinking", reasoning_required=True)
    called, _, spoke = messages(*history, replay_reasoning=replay, quirks=required)
    assert (called["thinking"], spoke.get("thinking")) == ("", None)
    called, *_ = messages(*history, replay_reasoning=replay)
    assert "reasoning_content" not in called


def test_media_give_a_list_of_parts() -> None:
    parts = (
        TextPart("look"),
        ImagePart("https://x.test/1", "low"),
        ImagePart("https://x.test/2", "original"),
        FilePart(filename="a.pdf", data="data:application/pdf;base64,AA=="),
        FilePart(url="https://x.test/b.pdf"),
        FilePart(file_id="file_1"),
        AudioPart("AA==", "wav"),
    )
    [message] = messages(MessageStep("user", parts))
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


def test_a_tool_result_with_an_image_is_a_list_of_parts() -> None:
    parts = (TextPart("seen"), ImagePart("https://x.test/1"))
    [_, tool] = messages(ToolCallStep("a", "look", "{}"), ToolResultStep("a", parts))
    assert [part["type"] for part in tool["content"]] == ["text", "image_url"]


def test_a_call_has_the_provider_name_of_its_tool() -> None:
    identities = ToolIdentityMap([ToolIdentity("box__look", "look", namespace="box")])
    history = (
        ToolCallStep("a", "look", "{}", "box"),
        ToolCallStep("b", "look", "{}"),
        ToolCallStep("c", "nä.h", "{}"),
    )
    [assistant, *_] = messages(
        *history, *(answer(call_id, "1") for call_id in "abc"), identities=identities
    )
    names = [call["function"]["name"] for call in assistant["tool_calls"]]
    assert names[:2] == ["box__look", "look"]
    assert names[2].startswith("n__h")


def test_calls_become_text_for_a_provider_without_tools() -> None:
    history = (message_step("user", "hi"), ToolCallStep("a", "look", "{}"), answer("a", "rain"))
    found = messages(*history, quirks=ChatQuirks(plain_dialogue=True))
    assert [message["role"] for message in found] == ["user", "assistant", "user"]
    assert all(message.keys() == {"role", "content"} for message in found)


def test_a_call_and_its_result_share_an_accepted_id() -> None:
    history = (
        message_step("user", "hi"),
        ToolCallStep("look:0", "look", "{}"),
        ToolCallStep("look:1", "look", "{}"),
        answer("look:0", "rain"),
        answer("look:1", "sun"),
        ToolCallStep("look:0", "look", "{}"),
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


def test_reasoning_details_are_replayed_instead_of_the_text() -> None:
    state = ReasoningState("openrouter.reasoning_details", [DETAIL])
    history = (
        message_step("user", "hi"),
        ReasoningStep("hm", states=(state,)),
        message_step("assistant", "ho"),
    )
    [_, message] = messages(
        *history, replay_reasoning="always", quirks=ChatQuirks(replay_details=True)
    )
    assert message == {"role": "assistant", "content": "ho", "reasoning_details": [DETAIL]}
    [_, message] = messages(*history, replay_reasoning="always", quirks=ChatQuirks())
    assert message == {"role": "assistant", "content": "ho", "reasoning_content": "hm"}


def test_reasoning_without_details_is_replayed_as_text() -> None:
    history = (message_step("user", "hi"), ReasoningStep("hm"), message_step("assistant", "ho"))
    quirks = ChatQuirks(replay_details=True)
    [_, message] = messages(*history, replay_reasoning="always", quirks=quirks)
    assert message["reasoning_content"] == "hm"


def test_a_signature_is_replayed_with_its_call_or_text() -> None:
    history = (
        message_step("user", "hi"),
        ReasoningStep(states=(SIGNED,)),
        ToolCallStep("a", "look", "{}"),
    )
    [_, message, *_] = messages(*history, quirks=ChatQuirks(replay_signatures=True))
    [call] = message["tool_calls"]
    assert call["extra_content"] == {"google": {"thought_signature": "sig"}}
    [_, message, *_] = messages(*history, quirks=ChatQuirks())
    assert "extra_content" not in message["tool_calls"][0]


def test_lost_reasoning_gets_a_placeholder_where_it_is_required() -> None:
    history = (message_step("user", "hi"), ToolCallStep("a", "look", "{}"), answer("a", "rain"))
    quirks = ChatQuirks(reasoning_required=True, lost_reasoning=" ")
    [_, message, _] = messages(*history, replay_reasoning="tool_turns", quirks=quirks)
    assert message["reasoning_content"] == " "


def test_a_captured_thread_keeps_its_text() -> None:
    if not captured.bodies():
        pytest.skip(captured.ABSENT)
    request = captured.bodies()["03-followup-shell-output"]
    steps, diagnostics = read_items(
        request["input"], inputs=frozenset({"text"}), tool_output_images=False
    )
    history, mended = pair_calls(steps)
    *_, user, assistant, tool = messages(*history)
    assert diagnostics == mended == ()
    assert user == {"role": "user", "content": "please go"}
    assert assistant["tool_calls"][0]["function"]["name"] == "exec_command"
    assert tool["content"].endswith("hi-from-shell\n")
