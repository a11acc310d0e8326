"""Rounds of a translation: filters get the rounds they want, and every answer still ends once."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.core.deltas import Delta, Failure, Finish, Reasoning, Start, Text, ToolCall, Usage
from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.events import Event
from antiphon.core.faults.fault import timeout_fault
from antiphon.core.filters.filter import DeltaFilter, FollowUp, RoundEnd, RoundWish
from antiphon.core.filters.simple_filters import EmptyAnswerFilter
from antiphon.core.history.steps import MessageStep, TextPart
from antiphon.core.plan.plan import Plan
from antiphon.core.stream.finish import CANCELLED
from antiphon.core.stream.source import Source
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.structured_output.filter import StructuredOutputFilter
from antiphon.core.tools.declaration import ToolChoice
from antiphon.core.translation.next_step import Ended, Reading, Round
from antiphon.core.translation.translation import Translation
from antiphon.framing.limits import ResponseLimits
from tests.support.machines import Document, ScriptedDecoder, ScriptedDialect, documents, machine
from tests.support.stream_validator import check
from tests.support.tables import table

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

    def close(self, *, final: bool) -> RoundEnd:
        self.finals.append(final)
        self.diagnostics = (*self.diagnostics, NOTE)
        if self._follow_ups:
            self._follow_ups -= 1
            step = MessageStep("user", (TextPart("Is that all?"),))
            return RoundEnd(wish=RoundWish(FollowUp(steps=(step,), tool_choice=self._choice)))
        return RoundEnd(self.give_up())

    def give_up(self) -> list[Delta]:
        held, self._held = self._held, []
        return held


def script_of(*deltas: Delta) -> ScriptedDialect:
    return ScriptedDialect(ScriptedDecoder([[delta] for delta in deltas]))


def read(translation: Translation, times: int) -> list[Event]:
    return [event for _ in range(times) for event in translation.feed(b"x")] + translation.close()


def wanted_round(translation: Translation) -> Round:
    assert isinstance(translation.next, Round)
    return translation.next


def kinds(events: Sequence[Event]) -> list[str]:
    return [str(event["type"]) for event in documents(events)]


def check_response(events: Sequence[Event]) -> Document:
    seen = documents(events)
    check(seen)
    response: Document = seen[-1]["response"]
    return response


def test_a_filter_with_a_follow_up_keeps_the_answer_open() -> None:
    translation = Translation(
        machine(), Source(script_of(Text("a"), Finish("stop"))), [AskingFilter(1)]
    )
    events = read(translation, 2)
    assert kinds(events) == ["response.created", "response.in_progress"]
    assert not translation.machine.has_ended
    assert wanted_round(translation).follow_up.steps == (
        MessageStep("user", (TextPart("Is that all?"),)),
    )


def test_the_next_round_continues_the_same_response() -> None:
    translation = Translation(
        machine(), Source(script_of(Text("a"), Finish("stop"))), [AskingFilter(1)]
    )
    events = read(translation, 2)
    translation.begin_round()
    assert isinstance(translation.next, Reading)
    translation.read_from(Source(script_of(Text("b"), Finish("stop"))))
    events += read(translation, 2)
    response = check_response(events)
    assert (translation.machine.has_ended, translation.rounds) == (True, 1)
    assert [item["content"][0]["text"] for item in response["output"]] == ["ab"]


def test_the_bridge_knows_that_a_filter_holds_output_back() -> None:
    translation = Translation(machine(), Source(script_of(Usage(1), Text("a"))), [AskingFilter(0)])
    translation.feed(b"x")
    assert not translation.path.is_holding_back
    translation.feed(b"x")
    assert translation.path.is_holding_back


def test_filters_behind_one_with_a_follow_up_are_closed_as_not_final() -> None:
    first, second = AskingFilter(1), AskingFilter(0)
    translation = Translation(
        machine(), Source(script_of(Text("a"), Finish("stop"))), [first, second]
    )
    read(translation, 2)
    assert (first.finals, second.finals) == ([True], [False])


def test_the_follow_ups_of_several_filters_become_one_round() -> None:
    choice = ToolChoice("none")
    filters = [AskingFilter(1), AskingFilter(1, choice)]
    translation = Translation(machine(), Source(script_of(Text("a"), Finish("stop"))), filters)
    read(translation, 2)
    follow_up = wanted_round(translation).follow_up
    assert (len(follow_up.steps), follow_up.tool_choice) == (2, choice)


def test_an_answer_that_was_cut_off_has_no_further_round() -> None:
    translation = Translation(
        machine(), Source(script_of(Text("a"), Finish("length"))), [AskingFilter(1)]
    )
    response = check_response(read(translation, 2))
    assert response["status"] == "incomplete"
    assert response["output"][0]["content"][0]["text"] == "a"


def test_diagnostics_of_filters_are_collected_once() -> None:
    translation = Translation(
        machine(), Source(script_of(Text("a"), Finish("stop"))), [AskingFilter(0)]
    )
    read(translation, 2)
    assert translation.machine.diagnostics == [NOTE]


def test_the_number_of_rounds_is_limited() -> None:
    translation = Translation(
        machine(), Source(script_of(Text("a"), Finish("stop"))), [AskingFilter(1000)]
    )
    events = read(translation, 2)
    rounds = 0
    while not translation.machine.has_ended:
        assert rounds < 100
        rounds += 1
        translation.begin_round()
        translation.read_from(Source(script_of(Text("a"), Finish("stop"))))
        events += read(translation, 2)
    check_response(events)


# A later round that fails


def second_round(*deltas: Delta) -> tuple[Translation, list[Event]]:
    translation = Translation(
        machine(), Source(script_of(Text("a"), Finish("stop"))), [AskingFilter(1)]
    )
    events = read(translation, 2)
    translation.begin_round()
    translation.read_from(Source(script_of(*deltas)))
    return translation, events + [event for _ in deltas for event in translation.feed(b"x")]


def test_a_later_round_that_fails_at_once_may_be_retried() -> None:
    translation, events = second_round(Failure(timeout_fault("idle")))
    assert wanted_round(translation).fault == timeout_fault("idle")
    assert (translation.machine.has_ended, translation.close()) == (False, [])
    translation.read_from(Source(script_of(Text("b"), Finish("stop"))))
    check_response(events + read(translation, 2))


def test_a_later_round_without_output_may_be_retried() -> None:
    translation, _ = second_round()
    assert translation.close() == []
    assert wanted_round(translation).fault is not None


def test_a_later_round_that_fails_after_its_first_output_fails_the_answer() -> None:
    translation, events = second_round(Text("b"), Failure(timeout_fault("idle")))
    assert check_response(events)["status"] == "failed"
    assert isinstance(translation.next, Ended)


def test_a_whole_answer_may_take_rounds_too() -> None:
    translation = Translation(
        machine(),
        Source(ScriptedDialect(ScriptedDecoder([[Text("a"), Finish("stop")]]))),
        [AskingFilter(1)],
    )
    events = translation.feed_whole(b"{}")
    assert wanted_round(translation).fault is None
    translation.begin_round()
    translation.read_from(
        Source(ScriptedDialect(ScriptedDecoder([[Failure(timeout_fault("idle"))]])))
    )
    assert translation.feed_whole(b"{}") == []
    assert wanted_round(translation).fault is not None
    translation.read_from(Source(ScriptedDialect(ScriptedDecoder([[Text("b"), Finish("stop")]]))))
    check_response(events + translation.feed_whole(b"{}"))


def test_the_items_of_a_round_are_known() -> None:
    call = ToolCall(0, call_id="c", name="get_weather", arguments="{}")
    translation = Translation(machine(), Source(script_of(call, Finish("stop"))), [AskingFilter(1)])
    read(translation, 2)
    assert len(wanted_round(translation).items) == 1


def test_held_back_output_is_released_if_the_next_round_cannot_be_had() -> None:
    translation, events = second_round(Failure(timeout_fault("idle")))
    response = check_response(events + translation.give_up_round(timeout_fault("idle")))
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == "a"


@table("silent", [Start("m"), Usage(1), Text(""), Reasoning("")])
def test_empty_deltas_are_no_output(silent: Delta) -> None:
    translation, _ = second_round(silent, Failure(timeout_fault("idle")))
    assert wanted_round(translation).fault == timeout_fault("idle")
    assert not translation.path.is_holding_back


@table("last", [Failure(timeout_fault("idle")), Finish("stop")])
def test_a_rejected_answer_is_kept_until_there_is_another(last: Delta) -> None:
    subject = StructuredOutputFilter(OutputContract(requested="json_object"))
    translation = Translation(
        machine(), Source(script_of(Text("no JSON"), Finish("stop"))), [subject]
    )
    events = read(translation, 2)
    translation.begin_round()
    translation.read_from(Source(script_of(Start("m"), Text(""), last)))
    events += read(translation, 3)
    if isinstance(translation.next, Round):
        assert translation.next.fault is not None
        events += translation.give_up_round(translation.next.fault)
    assert check_response(events)["output"][0]["content"][0]["text"] == "no JSON"
    assert translation.machine.diagnostics == []


def test_a_whole_answer_without_its_next_round_still_has_a_message() -> None:
    subject = EmptyAnswerFilter()
    script = ScriptedDialect(ScriptedDecoder([[Reasoning("Hm."), Finish("stop")]]))
    translation = Translation(machine(), Source(script), [subject])
    events = translation.feed_whole(b"{}")
    translation.begin_round()
    translation.read_from(
        Source(ScriptedDialect(ScriptedDecoder([[Failure(timeout_fault("idle"))]])))
    )
    translation.feed_whole(b"{}")
    response = check_response(events + translation.give_up_round(timeout_fault("idle")))
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]


def test_estimated_usage_counts_the_requests_that_were_answered() -> None:
    translation = Translation(
        machine(), Source(script_of(Text("a"), Finish("stop"))), [AskingFilter(1)]
    )
    translation.note_request(Plan(provider="p", model="m", instructions="x" * 400))
    events = read(translation, 2)
    translation.begin_round()
    for _ in range(3):  # the first two are refused
        translation.read_from(Source(script_of(Text("b"), Finish("stop"))))
        translation.note_request(Plan(provider="p", model="m", instructions="x" * 800))
    usage = check_response(events + read(translation, 2))["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["estimated"]) == (300, 1, True)


def test_usage_that_the_provider_or_an_earlier_request_has_reported_is_not_estimated() -> None:
    reported = script_of(Text("a"), Usage(5, 3), Finish("stop"))
    unreported = script_of(Text("a"), Text("b"), Finish("stop"))
    for subject, source, counts in (
        (machine(), reported, (5, 3)),
        (machine(earlier_usage=Usage(7, 2)), unreported, (7, 2)),
    ):
        translation = Translation(subject, Source(source))
        translation.note_request(Plan(provider="p", model="m", instructions="x" * 400))
        response = check_response(read(translation, 3))
        usage = response["usage"]
        assert response["status"] == "completed"
        assert (usage["input_tokens"], usage["output_tokens"]) == counts
        assert "estimated" not in usage


def test_the_bridge_awaits_a_round_only_between_rounds() -> None:
    translation = Translation(
        machine(), Source(script_of(Text("a"), Finish("stop"))), [AskingFilter(1)]
    )
    seen = [type(translation.next)]
    read(translation, 2)
    seen.append(type(translation.next))
    translation.begin_round()
    assert [*seen, type(translation.next)] == [Reading, Round, Reading]


def test_a_later_round_that_loses_its_connection_before_any_output_may_be_retried() -> None:
    translation, _ = second_round(Start("m"), Text(""))
    assert translation.connection_lost(timeout_fault("idle")) == []
    assert (wanted_round(translation).fault, translation.machine.has_ended) == (
        timeout_fault("idle"),
        False,
    )


def test_a_lost_connection_after_output_ends_the_answer() -> None:
    translation, events = second_round(Text("b"))
    assert (
        check_response(events + translation.connection_lost(timeout_fault("idle")))["status"]
        == "failed"
    )
    translation, events = second_round(Text("b"), Finish("stop"))
    assert (
        check_response(events + translation.connection_lost(timeout_fault("idle")))["status"]
        == "completed"
    )


def test_the_markup_of_another_attempt_is_that_of_its_model() -> None:
    subject = EmptyAnswerFilter()
    translation = Translation(
        machine(), Source(script_of(Reasoning("Hm."), Finish("stop")), ["think"]), [subject]
    )
    events = read(translation, 2)
    translation.begin_round()
    translation.read_from(Source(script_of(Text("<think>Hm.</think>"), Finish("stop"))))
    response = check_response(events + read(translation, 2))
    assert response["output"][-1]["content"][0]["text"] == "<think>Hm.</think>"


def test_the_limits_are_those_of_the_response_not_of_an_attempt() -> None:
    limits = ResponseLimits(stream_bytes=5)
    source = Source(script_of(Text("a"), Finish("stop")))
    translation = Translation(machine(), source, [AskingFilter(1)], limits=limits)
    events = read(translation, 2)
    translation.begin_round()
    for _ in range(2):
        translation.read_from(Source(script_of(Text(""), Text(""), Text("b"))))
        events += translation.feed(b"x") + translation.feed(b"x")
    assert isinstance(translation.next, Ended)
    assert translation.next.fault is not None
    assert translation.next.fault.code == "response_too_large"
    check_response(events)


def test_an_attempt_after_the_end_changes_nothing() -> None:
    translation, events = second_round(Text("b"))
    events += translation.finish(CANCELLED)
    translation.read_from(Source(script_of(Text("c"))))
    assert isinstance(translation.next, Ended)
    assert translation.feed(b"x") == translation.connection_lost(timeout_fault("idle")) == []
    assert documents(events)[-1]["response"]["status"] == "cancelled"


def test_a_response_may_be_completed_without_any_output() -> None:
    translation = Translation(machine(), Source(script_of()))
    response = check_response(translation.finish("stop"))
    assert (response["status"], response["output"]) == ("completed", [])
    assert translation.next == Ended(None)
    assert translation.finish("stop") == []


class FailingFilter(AskingFilter):
    """A filter that fails the response with what it releases."""

    def give_up(self) -> list[Delta]:
        return [Failure(timeout_fault("total")), *super().give_up()]


def test_what_a_filter_releases_after_a_failure_is_not_sent() -> None:
    source = Source(script_of(Text("a"), Finish("stop")))
    translation = Translation(machine(), source, [FailingFilter(0)])
    response = check_response(read(translation, 2))
    assert (response["status"], response["output"]) == ("failed", [])


def test_a_filter_may_fail_the_response_when_its_round_is_given_up() -> None:
    source = Source(script_of(Text("a"), Finish("stop")))
    translation = Translation(machine(), source, [FailingFilter(1)])
    events = read(translation, 2)
    translation.begin_round()
    events += translation.give_up_round(timeout_fault("idle"))
    assert check_response(events)["status"] == "failed"
