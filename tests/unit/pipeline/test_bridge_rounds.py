"""Rounds of a bridge: filters get the rounds they want, and every answer still ends once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.faults.fault import timeout_fault
from antiphon.core.filters.empty_answer import EmptyAnswerFilter
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.filters.structured_output import StructuredOutputFilter
from antiphon.core.history.steps import MessageStep, TextPart
from antiphon.core.plan.follow_up import FollowUp
from antiphon.core.plan.plan import Plan, ToolChoice
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
from tests.support.machines import Document, ScriptedDecoder, ScriptedDialect, documents, machine
from tests.support.stream_validator import check

NOTE = Diagnostic(code=Code.TOOL_DEGRADED, decision=Decision.DEGRADED, param="x", message="y")


class AskingFilter(DeltaFilter):
    """A filter that holds back all text, and wants so many further rounds."""

    def __init__(self, follow_ups: int, choice: ToolChoice | None = None) -> None:
        super().__init__()
        self.finals: list[bool] = []
        self._follow_ups = follow_ups
        self._choice = choice
        self._held: list[Delta] = []

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, Text):
            self._held.append(delta)
            return []
        return [delta]

    def close(self, *, final: bool) -> list[Delta]:
        self.finals.append(final)
        self.diagnostics = (*self.diagnostics, NOTE)
        if self._follow_ups:
            self._follow_ups -= 1
            step = MessageStep("user", (TextPart("Is that all?"),))
            self.follow_up = FollowUp(steps=(step,), tool_choice=self._choice)
            return []
        return self.give_up()

    def give_up(self) -> list[Delta]:
        self.follow_up = None
        held, self._held = self._held, []
        return held


def script_of(*deltas: Delta) -> ScriptedDialect:
    return ScriptedDialect(ScriptedDecoder([[delta] for delta in deltas]))


def read(bridge: Bridge, times: int) -> list[Event]:
    return [event for _ in range(times) for event in bridge.feed(b"x")] + bridge.close()


def kinds(events: Sequence[Event]) -> list[str]:
    return [str(event["type"]) for event in documents(events)]


def check_response(events: Sequence[Event]) -> Document:
    seen = documents(events)
    check(seen)
    response: Document = seen[-1]["response"]
    return response


def test_a_filter_with_a_follow_up_keeps_the_answer_open() -> None:
    bridge = Bridge(machine(), script_of(Text("a"), Finish("stop")), [AskingFilter(1)])
    events = read(bridge, 2)
    assert kinds(events) == ["response.created", "response.in_progress"]
    assert not bridge.ended
    assert bridge.follow_up is not None
    assert bridge.follow_up.steps == (MessageStep("user", (TextPart("Is that all?"),)),)


def test_the_next_round_continues_the_same_response() -> None:
    bridge = Bridge(machine(), script_of(Text("a"), Finish("stop")), [AskingFilter(1)])
    events = read(bridge, 2)
    bridge.begin_next_round()
    assert bridge.follow_up is None
    bridge.use_dialect(script_of(Text("b"), Finish("stop")))
    events += read(bridge, 2)
    response = check_response(events)
    assert (bridge.ended, bridge.rounds) == (True, 1)
    assert [item["content"][0]["text"] for item in response["output"]] == ["ab"]


def test_the_bridge_knows_that_a_filter_holds_output_back() -> None:
    bridge = Bridge(machine(), script_of(Usage(1), Text("a")), [AskingFilter(0)])
    bridge.feed(b"x")
    assert not bridge.is_holding_back
    bridge.feed(b"x")
    assert bridge.is_holding_back


def test_filters_behind_one_with_a_follow_up_are_closed_as_not_final() -> None:
    first, second = AskingFilter(1), AskingFilter(0)
    bridge = Bridge(machine(), script_of(Text("a"), Finish("stop")), [first, second])
    read(bridge, 2)
    assert (first.finals, second.finals) == ([True], [False])


def test_the_follow_ups_of_several_filters_become_one_round() -> None:
    choice = ToolChoice("none")
    filters = [AskingFilter(1), AskingFilter(1, choice)]
    bridge = Bridge(machine(), script_of(Text("a"), Finish("stop")), filters)
    read(bridge, 2)
    assert bridge.follow_up is not None
    assert (len(bridge.follow_up.steps), bridge.follow_up.tool_choice) == (2, choice)


def test_an_answer_that_was_cut_off_has_no_further_round() -> None:
    bridge = Bridge(machine(), script_of(Text("a"), Finish("length")), [AskingFilter(1)])
    response = check_response(read(bridge, 2))
    assert response["status"] == "incomplete"
    assert response["output"][0]["content"][0]["text"] == "a"


def test_diagnostics_of_filters_are_collected_once() -> None:
    bridge = Bridge(machine(), script_of(Text("a"), Finish("stop")), [AskingFilter(0)])
    read(bridge, 2)
    assert bridge.diagnostics == [NOTE]


def test_the_number_of_rounds_is_limited() -> None:
    bridge = Bridge(machine(), script_of(Text("a"), Finish("stop")), [AskingFilter(1000)])
    events = read(bridge, 2)
    rounds = 0
    while not bridge.ended:
        assert rounds < 100
        rounds += 1
        bridge.begin_next_round()
        bridge.use_dialect(script_of(Text("a"), Finish("stop")))
        events += read(bridge, 2)
    check_response(events)


# A later round that fails


def second_round(*deltas: Delta) -> tuple[Bridge, list[Event]]:
    bridge = Bridge(machine(), script_of(Text("a"), Finish("stop")), [AskingFilter(1)])
    events = read(bridge, 2)
    bridge.begin_next_round()
    bridge.use_dialect(script_of(*deltas))
    return bridge, events + [event for _ in deltas for event in bridge.feed(b"x")]


def test_a_later_round_that_fails_at_once_may_be_retried() -> None:
    bridge, events = second_round(Failure(timeout_fault("idle")))
    assert bridge.round_fault == timeout_fault("idle")
    assert (bridge.ended, bridge.close()) == (False, [])
    bridge.use_dialect(script_of(Text("b"), Finish("stop")))
    check_response(events + read(bridge, 2))


def test_a_later_round_without_output_may_be_retried() -> None:
    bridge, _ = second_round()
    assert bridge.close() == []
    assert bridge.round_fault is not None


def test_a_later_round_that_fails_after_its_first_output_fails_the_answer() -> None:
    bridge, events = second_round(Text("b"), Failure(timeout_fault("idle")))
    assert check_response(events)["status"] == "failed"
    assert bridge.round_fault is None


def test_a_whole_answer_may_take_rounds_too() -> None:
    bridge = Bridge(
        machine(),
        ScriptedDialect(ScriptedDecoder([[Text("a"), Finish("stop")]])),
        [AskingFilter(1)],
    )
    events = bridge.feed_whole(b"{}")
    assert bridge.follow_up is not None
    bridge.begin_next_round()
    bridge.use_dialect(ScriptedDialect(ScriptedDecoder([[Failure(timeout_fault("idle"))]])))
    assert bridge.feed_whole(b"{}") == []
    assert bridge.round_fault is not None
    bridge.use_dialect(ScriptedDialect(ScriptedDecoder([[Text("b"), Finish("stop")]])))
    check_response(events + bridge.feed_whole(b"{}"))


def test_the_items_of_a_round_are_known() -> None:
    call = ToolCall(0, call_id="c", name="get_weather", arguments="{}")
    bridge = Bridge(machine(), script_of(call, Finish("stop")), [AskingFilter(1)])
    read(bridge, 2)
    assert len(bridge.round_items) == 1


def test_held_back_output_is_released_if_the_next_round_cannot_be_had() -> None:
    bridge, events = second_round(Failure(timeout_fault("idle")))
    response = check_response(events + bridge.give_up_round(timeout_fault("idle")))
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == "a"


@pytest.mark.parametrize("silent", [Start("m"), Usage(1), Text(""), Reasoning("")])
def test_empty_deltas_are_no_output(silent: Delta) -> None:
    bridge, _ = second_round(silent, Failure(timeout_fault("idle")))
    assert bridge.round_fault == timeout_fault("idle")
    assert not bridge.is_holding_back


@pytest.mark.parametrize("last", [Failure(timeout_fault("idle")), Finish("stop")])
def test_a_rejected_answer_is_kept_until_there_is_another(last: Delta) -> None:
    subject = StructuredOutputFilter(OutputContract(requested="json_object"))
    bridge = Bridge(machine(), script_of(Text("no JSON"), Finish("stop")), [subject])
    events = read(bridge, 2)
    bridge.begin_next_round()
    bridge.use_dialect(script_of(Start("m"), Text(""), last))
    events += read(bridge, 3)
    if bridge.round_fault is not None:
        events += bridge.give_up_round(bridge.round_fault)
    assert check_response(events)["output"][0]["content"][0]["text"] == "no JSON"
    assert bridge.diagnostics == []


def test_a_whole_answer_without_its_next_round_still_has_a_message() -> None:
    subject = EmptyAnswerFilter()
    script = ScriptedDialect(ScriptedDecoder([[Reasoning("Hm."), Finish("stop")]]))
    bridge = Bridge(machine(), script, [subject])
    events = bridge.feed_whole(b"{}")
    bridge.begin_next_round()
    bridge.use_dialect(ScriptedDialect(ScriptedDecoder([[Failure(timeout_fault("idle"))]])))
    bridge.feed_whole(b"{}")
    response = check_response(events + bridge.give_up_round(timeout_fault("idle")))
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]


def test_estimated_usage_counts_the_requests_that_were_answered() -> None:
    bridge = Bridge(machine(), script_of(Text("a"), Finish("stop")), [AskingFilter(1)])
    bridge.plan = Plan(provider="p", model="m", instructions="x" * 400)
    events = read(bridge, 2)
    bridge.begin_next_round()
    for _ in range(3):  # the first two are refused
        bridge.use_dialect(script_of(Text("b"), Finish("stop")))
        bridge.plan = Plan(provider="p", model="m", instructions="x" * 800)
    usage = check_response(events + read(bridge, 2))["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["estimated"]) == (300, 1, True)


def test_the_bridge_awaits_a_round_only_between_rounds() -> None:
    bridge = Bridge(machine(), script_of(Text("a"), Finish("stop")), [AskingFilter(1)])
    seen = [bridge.awaits_next_round]
    read(bridge, 2)
    seen.append(bridge.awaits_next_round)
    bridge.begin_next_round()
    assert [*seen, bridge.awaits_next_round] == [False, True, False]


def test_a_later_round_that_loses_its_connection_before_any_output_may_be_retried() -> None:
    bridge, _ = second_round(Start("m"), Text(""))
    assert bridge.connection_lost(timeout_fault("idle")) == []
    assert (bridge.round_fault, bridge.ended) == (timeout_fault("idle"), False)


def test_a_lost_connection_after_output_ends_the_answer() -> None:
    bridge, events = second_round(Text("b"))
    assert (
        check_response(events + bridge.connection_lost(timeout_fault("idle")))["status"] == "failed"
    )
    bridge, events = second_round(Text("b"), Finish("stop"))
    assert (
        check_response(events + bridge.connection_lost(timeout_fault("idle")))["status"]
        == "completed"
    )
