"""Padding of delta events: on deltas only, of the length that hides that of the text."""

from __future__ import annotations

from antiphon.core.events import (
    ArgumentsDelta,
    Completed,
    Event,
    HostedToolEvent,
    TextDelta,
    TextDone,
)
from antiphon.core.response import Response
from antiphon.dialects.responses.render import event_to_dict
from antiphon.stages.obfuscation import ObfuscationStage
from antiphon.stages.pipeline import Batch
from tests.support.tables import table


def stage() -> ObfuscationStage:
    return ObfuscationStage(lambda count: b"\xff" * count)


@table("length", [0, 1, 15, 16, 17, 100])
def test_text_and_padding_fill_blocks_of_sixteen_characters(length: int) -> None:
    event = TextDelta("msg_1", 0, 0, "x" * length)
    [padded] = stage().feed(Batch([event])).events
    document = event_to_dict(padded, 3)
    padding = document.pop("obfuscation")
    assert document == event_to_dict(event, 3)
    assert padding
    assert (length + len(padding)) % 16 == 0


def test_every_other_event_stays_as_it_is() -> None:
    response = Response(id="resp_1", created_at=1, model="m")
    events: list[Event] = [
        TextDone("msg_1", 0, 0, "Hello"),
        HostedToolEvent("response.web_search_call.searching", {"item_id": "ws_1"}),
        HostedToolEvent("response.x.delta", {"delta": {"stdout": "a"}}),
        Completed(response),
    ]
    assert stage().on_terminal(Batch(events)).events == events


def test_deltas_of_calls_and_of_hosted_tools_are_padded() -> None:
    events: list[Event] = [
        ArgumentsDelta("fc_1", 0, "{}"),
        HostedToolEvent("response.code_interpreter_call_code.delta", {"delta": "1+1"}),
    ]
    padded = stage().feed(Batch(events)).events
    assert [len(event_to_dict(each, 0)["obfuscation"]) for each in padded] == [14, 13]
