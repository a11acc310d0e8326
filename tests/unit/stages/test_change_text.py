"""Text in events: changed in deltas, finished parts and items, and snapshots; nowhere else."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.core.deltas import Reasoning, Refusal, Text, ToolCall, ToolEnd
from antiphon.core.events import Event, TextDelta, TextDone
from antiphon.core.items import Message, OutputText, ReasoningItem, ReasoningText
from antiphon.stages.change_text import change_text
from tests.support.machines import machine


def events_of(*deltas: Text | Reasoning | Refusal | ToolCall | ToolEnd) -> list[Event]:
    subject = machine()
    events = list(subject.start())
    for delta in deltas:
        events += subject.feed(delta)
    return [*events, *subject.finish("stop")]


@pytest.mark.parametrize("delta", [Text("secret"), Refusal("secret"), Reasoning("secret")])
def test_text_is_changed_wherever_a_stream_repeats_it(
    delta: Text | Refusal | Reasoning,
) -> None:
    events = events_of(delta, Text("afterwards"))
    assert str(events).count("secret") >= 4
    changed = [change_text(event, lambda text: text.replace("secret", "•")) for event in events]
    assert "secret" not in str(changed)
    assert str(changed) == str(events).replace("secret", "•")


def test_arguments_of_tool_calls_stay_as_they_are() -> None:
    call = ToolCall(0, call_id="call_1", name="find", arguments="{}")
    events = events_of(call, ToolEnd(0))
    assert [change_text(event, str.upper) for event in events] == events


def test_log_probabilities_are_dropped_because_they_repeat_the_text() -> None:
    logprobs = ({"token": "secret", "logprob": -0.1},)
    delta = TextDelta("msg_1", 0, 0, "secret", logprobs)
    done = TextDone("msg_1", 0, 0, "secret", logprobs)
    assert change_text(delta, str.upper) == TextDelta("msg_1", 0, 0, "SECRET")
    assert change_text(done, str.upper) == TextDone("msg_1", 0, 0, "SECRET")


def test_the_snapshot_of_a_terminal_event_has_the_changed_text() -> None:
    [*_, ending] = events_of(Reasoning("thought"), Text("said"))
    changed = change_text(ending, str.upper)
    response = msgspec.to_builtins(changed)["response"]
    assert response["output_text"] == "SAID"
    [reasoning, message] = changed.response.output  # type: ignore[union-attr]
    assert isinstance(reasoning, ReasoningItem)
    assert isinstance(message, Message)
    assert message.content == (OutputText("SAID"),)
    assert reasoning.content in ((ReasoningText("THOUGHT"),), msgspec.UNSET)
