"""Histories as input items of Responses API requests."""

from __future__ import annotations

import json

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
    Part,
    ReasoningStep,
    RefusalPart,
    Role,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.dialects.responses.encode import encode
from antiphon.dialects.responses.items import SCHEME
from antiphon.dialects.responses.quirks import ResponsesQuirks
from tests.support import captured_requests as captured
from tests.support.dialect_samples.history import answer, call, message_step
from tests.support.dialect_samples.responses_history import IN_PLAIN, encrypted_state, items
from tests.support.tables import table


def test_encrypted_reasoning_is_sent_back_unchanged() -> None:
    summary = [{"type": "summary_text", "text": "hm"}]
    thought = ReasoningStep(
        summary="hm",
        states=(encrypted_state(summary=summary, format="v1"), encrypted_state("rs_2")),
    )
    found = items(thought, call(), answer("a"), replay_reasoning="always")
    assert found[:2] == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": summary,
            "encrypted_content": "gAAA",
            "format": "v1",
        },
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAA"},
    ]


@pytest.mark.parametrize(
    "thought",
    [
        ReasoningStep(text="hm"),
        ReasoningStep(summary="hm", encrypted="foreign"),
        ReasoningStep(states=(ReasoningState("other.scheme", {"id": "x"}),)),
        ReasoningStep(states=(ReasoningState(SCHEME, "odd"),)),
    ],
)
def test_reasoning_of_another_provider_is_left_out(thought: ReasoningStep) -> None:
    [item] = items(thought, message_step("assistant", "a"), replay_reasoning="always")
    assert item["type"] == "message"


@pytest.mark.parametrize(
    ("replay", "with_call", "goes_back"),
    [
        ("never", True, False),
        ("tool_turns", True, True),
        ("tool_turns", False, False),
        ("always", False, True),
    ],
)
def test_the_plan_decides_which_turns_send_reasoning_back(
    replay: ReplayReasoning, with_call: bool, goes_back: bool
) -> None:
    turn = (call(), answer("a")) if with_call else (message_step("assistant", "a"),)
    found = items(ReasoningStep(states=(encrypted_state(),)), *turn, replay_reasoning=replay)
    assert (found[0]["type"] == "reasoning") == goes_back


def test_trailing_reasoning_is_left_out() -> None:
    late = ReasoningStep(states=(encrypted_state(),))
    history = (call(), late, answer("a"))
    assert [item["type"] for item in items(*history, replay_reasoning="always")] == [
        "function_call",
        "function_call_output",
    ]
    quirks = ResponsesQuirks(trailing_reasoning=True)
    found = items(*history, quirks=quirks, replay_reasoning="always")
    assert found[1]["type"] == "reasoning"


def test_a_turn_of_reasoning_alone_is_left_out() -> None:
    assert items(
        ReasoningStep(states=(encrypted_state(),)),
        message_step("user", "hi"),
        replay_reasoning="always",
    ) == (items(message_step("user", "hi")))


@pytest.mark.parametrize(
    ("thought", "expected"),
    [
        (ReasoningStep(text="hm"), {"id": "rs_1", "summary": []}),
        (ReasoningStep(summary="hm"), {"id": "rs_1", "summary": []}),
        (
            ReasoningStep(text="hm", states=(encrypted_state(),)),
            {"id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        ),
    ],
)
def test_reasoning_is_sent_back_as_text_where_supported(
    thought: ReasoningStep, expected: Document
) -> None:
    [item, _] = items(
        thought, message_step("assistant", "a"), replay_reasoning="always", quirks=IN_PLAIN
    )
    content = [{"type": "reasoning_text", "text": "hm"}]
    assert item == {"type": "reasoning", "content": content, **expected}


# --- real clients ---------------------------------------------------------------------------------


def test_every_captured_history_is_encoded_as_a_valid_request() -> None:
    if not captured.bodies():
        pytest.skip(captured.ABSENT)
    inputs = frozenset({"text", "image"})
    for request in captured.bodies().values():
        steps, _ = read_items(request.get("input", []), inputs=inputs, tool_output_images=True)
        history, _ = pair_calls(steps)
        found = items(*history, replay_reasoning="always", developer_role=True)
        assert len(found) >= 1


@pytest.mark.parametrize(
    ("role", "developer_role", "expected"),
    [
        ("system", False, "system"),
        ("developer", False, "system"),
        ("developer", True, "developer"),
        ("user", True, "user"),
    ],
)
def test_roles_are_encoded(role: Role, developer_role: bool, expected: str) -> None:
    [item] = items(message_step(role, "x", "y"), developer_role=developer_role)
    texts = [{"type": "input_text", "text": text} for text in "xy"]
    assert item == {"type": "message", "role": expected, "content": texts}


def test_a_compaction_of_the_provider_is_sent_back_unchanged() -> None:
    native = {"type": "compaction", "encrypted_content": "gAAA"}
    step = MessageStep("user", (TextPart("[cannot be read]"),), native=native)
    assert items(step) == [native]


def test_an_assistant_message_is_one_text() -> None:
    words = MessageStep("assistant", (TextPart("a"), RefusalPart("b")))
    assert items(words) == [{"type": "message", "role": "assistant", "content": "ab"}]


def test_the_phase_of_an_assistant_message_is_sent_back() -> None:
    words = MessageStep("assistant", (TextPart("a"),), "commentary")
    assert items(words) == [
        {"type": "message", "role": "assistant", "content": "a", "phase": "commentary"}
    ]


@table(
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
def test_content_parts_are_encoded(part: Part, expected: Document) -> None:
    assert items(MessageStep("user", (part,)))[0]["content"] == [expected]


def test_audio_is_sent_unchanged() -> None:
    plan = Plan(provider="p", model="m", history=(MessageStep("user", (AudioPart("d", "wav"),)),))
    [item] = json.loads(encode(plan, stream=False).body)["input"]
    assert item["content"] == [
        {"type": "input_audio", "input_audio": {"data": "d", "format": "wav"}}
    ]


def test_calls_and_results_share_their_ids() -> None:
    assert items(call("a"), call("b"), answer("a"), answer("b", "2")) == [
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "function_call_output", "call_id": "b", "output": "2"},
    ]


def test_a_tool_result_may_contain_an_image() -> None:
    shown = ToolResultStep("a", (TextPart("see"), ImagePart("u")))
    assert items(call(), shown)[1]["output"] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "u", "detail": "auto"},
    ]


def test_a_tool_result_of_several_texts_is_one_string() -> None:
    result = ToolResultStep("a", (TextPart("x"), TextPart("y")))
    assert items(call(), result)[1]["output"] == "x\ny"


@pytest.mark.parametrize("call_id", ["", "x" * 65, "\ud83d" * 70])
def test_a_call_id_of_invalid_length_is_replaced_in_call_and_result(call_id: str) -> None:
    called, output = items(call(call_id), answer(call_id))
    assert called["call_id"] == output["call_id"]
    assert 0 < len(called["call_id"]) <= 64


def test_a_valid_call_id_is_kept() -> None:
    assert items(call("functions.look:0"), answer("functions.look:0"))[0]["call_id"] == (
        "functions.look:0"
    )


def test_a_call_id_reused_in_a_later_turn_is_replaced() -> None:
    turns = [step for n in range(3) for step in (call(), answer("a", str(n)))]
    found = items(*turns)
    ids = [item["call_id"] for item in found]
    assert ids[0] == "a"
    assert ids[::2] == ids[1::2]
    assert len(set(ids)) == 3
    assert items(*turns[:4]) == found[:4]


def test_a_call_uses_the_provider_name_of_its_tool() -> None:
    known = ToolIdentityMap([ToolIdentity("box__look", "look", namespace="box")])
    call = ToolCallStep("a", "look", "{}", namespace="box")
    for identities in (known, ToolIdentityMap()):
        assert items(call, answer("a"), identities=identities)[0]["name"] == "box__look"
