"""Rounds of a bridge: a desk that wants another one gets it, and every answer still ends once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.faults.fault import timeout_fault
from antiphon.core.filters.empty_answer import EmptyAnswerFilter
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.filters.structured_output import StructuredOutputFilter
from antiphon.core.history.steps import Said, TextPart
from antiphon.core.plan.follow_up import FollowUp
from antiphon.core.plan.plan import ToolChoice
from antiphon.core.stream.deltas import (
    Delta,
    Failure,
    Finish,
    Reasoning,
    Start,
    Text,
    ToolCall,
    Usage,
)
from antiphon.core.structured_output.contract import OutputContract
from antiphon.pipeline.bridge import Bridge
from antiphon.wire.events import Event
from tests.support.machines import Document, Lines, Script, documents, machine
from tests.support.stream_validator import check

NOTE = Diagnostic(code=Code.TOOL_DEGRADED, decision=Decision.DEGRADED, param="x", message="y")


class Doubter(DeltaFilter):
    """A desk that keeps all text back, and asks so many times whether that is all."""

    def __init__(self, doubts: int, choice: ToolChoice | None = None) -> None:
        super().__init__()
        self.finals: list[bool] = []
        self._doubts = doubts
        self._choice = choice
        self._held: list[Delta] = []

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, Text):
            self._held.append(delta)
            return []
        return [delta]

    def close(self, *, final: bool) -> list[Delta]:
        self.finals.append(final)
        self.diagnostics.append(NOTE)
        if self._doubts:
            self._doubts -= 1
            step = Said("user", (TextPart("Is that all?"),))
            self.follow_up = FollowUp(steps=(step,), tool_choice=self._choice)
            return []
        return self.give_up()

    def give_up(self) -> list[Delta]:
        self.follow_up = None
        held, self._held = self._held, []
        return held


def spoken(*deltas: Delta) -> Script:
    return Script(Lines([[delta] for delta in deltas]))


def read(bridge: Bridge, times: int) -> list[Event]:
    return [event for _ in range(times) for event in bridge.feed(b"x")] + bridge.close()


def kinds(events: Sequence[Event]) -> list[str]:
    return [str(event["type"]) for event in documents(events)]


def judged(events: Sequence[Event]) -> Document:
    told = documents(events)
    check(told)
    response: Document = told[-1]["response"]
    return response


def test_a_desk_that_doubts_is_asked_about_before_the_answer_ends() -> None:
    bridge = Bridge(machine(), spoken(Text("a"), Finish("stop")), [Doubter(1)])
    events = read(bridge, 2)
    assert kinds(events) == ["response.created", "response.in_progress"]
    assert not bridge.ended
    assert bridge.follow_up is not None
    assert bridge.follow_up.steps == (Said("user", (TextPart("Is that all?"),)),)


def test_the_answer_goes_on_with_the_next_round_in_the_same_response() -> None:
    bridge = Bridge(machine(), spoken(Text("a"), Finish("stop")), [Doubter(1)])
    events = read(bridge, 2)
    bridge.begin_next_round()
    assert bridge.follow_up is None
    bridge.use_dialect(spoken(Text("b"), Finish("stop")))
    events += read(bridge, 2)
    response = judged(events)
    assert (bridge.ended, bridge.rounds) == (True, 1)
    assert [item["content"][0]["text"] for item in response["output"]] == ["ab"]


def test_what_a_desk_keeps_to_itself_was_said() -> None:
    bridge = Bridge(machine(), spoken(Usage(1), Text("a")), [Doubter(0)])
    bridge.feed(b"x")
    assert not bridge.is_holding_back
    bridge.feed(b"x")
    assert bridge.is_holding_back


def test_a_desk_behind_one_that_doubts_is_told_that_this_is_not_the_end() -> None:
    first, second = Doubter(1), Doubter(0)
    bridge = Bridge(machine(), spoken(Text("a"), Finish("stop")), [first, second])
    read(bridge, 2)
    assert (first.finals, second.finals) == ([True], [False])


def test_several_desks_ask_for_one_round_together() -> None:
    choice = ToolChoice("none")
    desks = [Doubter(1), Doubter(1, choice)]
    bridge = Bridge(machine(), spoken(Text("a"), Finish("stop")), desks)
    read(bridge, 2)
    assert bridge.follow_up is not None
    assert (len(bridge.follow_up.steps), bridge.follow_up.tool_choice) == (2, choice)


def test_an_answer_that_was_cut_is_not_doubted() -> None:
    bridge = Bridge(machine(), spoken(Text("a"), Finish("length")), [Doubter(1)])
    response = judged(read(bridge, 2))
    assert response["status"] == "incomplete"
    assert response["output"][0]["content"][0]["text"] == "a"


def test_what_desks_found_is_told_once() -> None:
    bridge = Bridge(machine(), spoken(Text("a"), Finish("stop")), [Doubter(0)])
    read(bridge, 2)
    assert bridge.diagnostics == [NOTE]


def test_doubts_without_end_come_to_one() -> None:
    bridge = Bridge(machine(), spoken(Text("a"), Finish("stop")), [Doubter(1000)])
    events = read(bridge, 2)
    rounds = 0
    while not bridge.ended:
        assert rounds < 100
        rounds += 1
        bridge.begin_next_round()
        bridge.use_dialect(spoken(Text("a"), Finish("stop")))
        events += read(bridge, 2)
    judged(events)


# A later round that fails


def second_round(*deltas: Delta) -> tuple[Bridge, list[Event]]:
    bridge = Bridge(machine(), spoken(Text("a"), Finish("stop")), [Doubter(1)])
    events = read(bridge, 2)
    bridge.begin_next_round()
    bridge.use_dialect(spoken(*deltas))
    return bridge, events + [event for _ in deltas for event in bridge.feed(b"x")]


def test_a_later_round_that_fails_at_once_may_be_asked_again() -> None:
    bridge, events = second_round(Failure(timeout_fault("idle")))
    assert bridge.round_fault == timeout_fault("idle")
    assert (bridge.ended, bridge.close()) == (False, [])
    bridge.use_dialect(spoken(Text("b"), Finish("stop")))
    judged(events + read(bridge, 2))


def test_a_later_round_without_a_word_may_be_asked_again() -> None:
    bridge, _ = second_round()
    assert bridge.close() == []
    assert bridge.round_fault is not None


def test_a_later_round_that_fails_after_its_first_word_fails_the_answer() -> None:
    bridge, events = second_round(Text("b"), Failure(timeout_fault("idle")))
    assert judged(events)["status"] == "failed"
    assert bridge.round_fault is None


def test_a_whole_answer_may_take_rounds_too() -> None:
    bridge = Bridge(machine(), Script(Lines([[Text("a"), Finish("stop")]])), [Doubter(1)])
    events = bridge.feed_whole(b"{}")
    assert bridge.follow_up is not None
    bridge.begin_next_round()
    bridge.use_dialect(Script(Lines([[Failure(timeout_fault("idle"))]])))
    assert bridge.feed_whole(b"{}") == []
    assert bridge.round_fault is not None
    bridge.use_dialect(Script(Lines([[Text("b"), Finish("stop")]])))
    judged(events + bridge.feed_whole(b"{}"))


def test_what_was_told_in_a_round_is_known() -> None:
    call = ToolCall(0, call_id="c", name="get_weather", arguments="{}")
    bridge = Bridge(machine(), spoken(call, Finish("stop")), [Doubter(1)])
    read(bridge, 2)
    assert len(bridge.round_items) == 1


def test_what_was_held_back_is_told_if_the_next_round_cannot_be_had() -> None:
    bridge, events = second_round(Failure(timeout_fault("idle")))
    response = judged(events + bridge.give_up_round(timeout_fault("idle")))
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == "a"


@pytest.mark.parametrize("silent", [Start("m"), Usage(1), Text(""), Reasoning("")])
def test_what_says_nothing_is_no_first_word(silent: Delta) -> None:
    bridge, _ = second_round(silent, Failure(timeout_fault("idle")))
    assert bridge.round_fault == timeout_fault("idle")
    assert not bridge.is_holding_back


@pytest.mark.parametrize("last", [Failure(timeout_fault("idle")), Finish("stop")])
def test_a_draft_is_not_forgotten_before_there_is_another(last: Delta) -> None:
    desk = StructuredOutputFilter(OutputContract(requested="json_object"))
    bridge = Bridge(machine(), spoken(Text("no JSON"), Finish("stop")), [desk])
    events = read(bridge, 2)
    bridge.begin_next_round()
    bridge.use_dialect(spoken(Start("m"), Text(""), last))
    events += read(bridge, 3)
    if bridge.round_fault is not None:
        events += bridge.give_up_round(bridge.round_fault)
    assert judged(events)["output"][0]["content"][0]["text"] == "no JSON"
    assert bridge.diagnostics == []


def test_a_whole_answer_that_cannot_be_asked_about_again_has_a_message_all_the_same() -> None:
    desk = EmptyAnswerFilter()
    said = Script(Lines([[Reasoning("Hm."), Finish("stop")]]))
    bridge = Bridge(machine(), said, [desk])
    events = bridge.feed_whole(b"{}")
    bridge.begin_next_round()
    bridge.use_dialect(Script(Lines([[Failure(timeout_fault("idle"))]])))
    bridge.feed_whole(b"{}")
    response = judged(events + bridge.give_up_round(timeout_fault("idle")))
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]


def test_an_estimate_counts_what_was_asked_in_the_rounds_that_were_answered() -> None:
    bridge = Bridge(machine(), spoken(Text("a"), Finish("stop")), [Doubter(1)])
    bridge.request_bytes = 400
    events = read(bridge, 2)
    bridge.begin_next_round()
    for _ in range(3):  # the first two are refused
        bridge.use_dialect(spoken(Text("b"), Finish("stop")))
        bridge.request_bytes = 800
    assert judged(events + read(bridge, 2))["usage"]["input_tokens"] == 300


def test_an_answer_waits_only_between_its_rounds() -> None:
    bridge = Bridge(machine(), spoken(Text("a"), Finish("stop")), [Doubter(1)])
    seen = [bridge.awaits_next_round]
    read(bridge, 2)
    seen.append(bridge.awaits_next_round)
    bridge.begin_next_round()
    assert [*seen, bridge.awaits_next_round] == [False, True, False]


def test_a_line_that_breaks_before_the_first_word_of_a_later_round_is_no_end() -> None:
    bridge, _ = second_round(Start("m"), Text(""))
    assert bridge.connection_lost(timeout_fault("idle")) == []
    assert (bridge.round_fault, bridge.ended) == (timeout_fault("idle"), False)


def test_a_line_that_breaks_after_the_first_word_ends_the_answer_as_it_is() -> None:
    bridge, events = second_round(Text("b"))
    assert judged(events + bridge.connection_lost(timeout_fault("idle")))["status"] == "failed"
    bridge, events = second_round(Text("b"), Finish("stop"))
    assert judged(events + bridge.connection_lost(timeout_fault("idle")))["status"] == "completed"
