"""The filter for freeform tools: input streams, is checked, and is corrected if it is invalid."""

from __future__ import annotations

import pytest

from antiphon.core.deltas import Delta, Finish, Text, ToolCall, ToolEnd, ToolRevision, Usage
from antiphon.core.diagnostic import Code
from antiphon.core.events import Event
from antiphon.core.filters.filter import FollowUp
from antiphon.core.freeform.filter import FreeformInputFilter
from antiphon.core.history.steps import TextPart, ToolCallStep, ToolResultStep
from antiphon.core.stream.machine import ResponseMachine
from antiphon.core.tools.identity import Grammar, ToolIdentity, ToolIdentityMap
from tests.support.filters import DrivenFilter
from tests.support.machines import documents, machine
from tests.support.patches import (
    FILES,
    TOOLS,
    WRAPPERS,
    arguments,
    called,
    final_input,
    inputs,
    patch,
    run_round,
)
from tests.support.stream_validator import check
from tests.support.tables import table

GOOD = patch("*** Add File: a\n+one\n+two\n")
BAD = GOOD.replace("+two", "two")
OTHER = patch("*** Delete File: b\n")


def make_filter() -> DrivenFilter:
    return DrivenFilter(FreeformInputFilter(TOOLS))


def codes(subject: DrivenFilter) -> list[str]:
    return [diagnostic.code for diagnostic in subject.diagnostics]


def follow_up_of(subject: DrivenFilter) -> FollowUp:
    assert subject.follow_up is not None
    return subject.follow_up


def feed_all(subject: DrivenFilter, *deltas: Delta) -> list[Delta]:
    return [out for delta in deltas for out in subject.feed(delta)]


# --- sound input ----------------------------------------------------------------------------------


def test_valid_input_streams_as_it_is_written() -> None:
    subject = make_filter()
    assert feed_all(subject, ToolCall(0, "c1", "apply_patch")) == [
        ToolCall(0, "c1", "apply_patch", kind="custom")
    ]
    assert feed_all(subject, ToolCall(0, arguments='{"input": "*** Begin')) == [
        ToolCall(0, arguments="*** Begin", kind="custom")
    ]
    rest = arguments(GOOD).removeprefix('{"input": "*** Begin')
    assert feed_all(subject, ToolCall(0, arguments=rest)) == [
        ToolCall(0, arguments=GOOD.removeprefix("*** Begin"), kind="custom"),
        ToolEnd(0),
    ]
    assert feed_all(subject, ToolCall(0, arguments="\n"), ToolEnd(0)) == []
    assert feed_all(subject, Finish("tool_calls")) == [Finish("tool_calls")]
    assert subject.close(final=True) == []
    assert (subject.follow_up, subject.diagnostics) == (None, ())


def test_free_text_of_a_custom_call_is_the_input() -> None:
    subject = make_filter()
    first = feed_all(subject, ToolCall(0, "c1", "apply_patch", GOOD, "custom"))
    assert first[1:] == [ToolCall(0, arguments=GOOD, kind="custom")]
    assert feed_all(subject, ToolEnd(0)) == [ToolEnd(0)]
    assert run_round(subject, []) == [Finish("tool_calls")]


def test_free_text_without_an_end_ends_with_the_round() -> None:
    subject = make_filter()
    deltas = run_round(subject, [ToolCall(0, "c1", "apply_patch", GOOD, "custom")])
    assert deltas[-1] == ToolEnd(0)
    assert inputs(deltas) == {0: GOOD}


def test_arguments_that_are_no_json_are_the_input() -> None:
    assert final_input(make_filter(), called(GOOD), "") == GOOD


@table("style", WRAPPERS)
def test_wrapped_input_is_unwrapped_and_noted(style: str) -> None:
    subject = make_filter()
    text = final_input(subject, called(arguments(WRAPPERS[style](GOOD))), "")
    assert text.strip("\n") == GOOD.strip("\n")
    plain = style in {"nothing", "no last line break", "more line breaks"}
    assert codes(subject) == ([] if plain else [Code.INPUT_UNWRAPPED])


def test_json_input_of_a_json_grammar_is_not_unwrapped() -> None:
    form = Grammar("lark", 'start: "{" /[^}]*/ "}"')
    subject = DrivenFilter(
        FreeformInputFilter(ToolIdentityMap([ToolIdentity("q", "query", "custom", grammar=form)]))
    )
    text = '{"command": "ls"}'
    assert inputs(run_round(subject, called(arguments(text), name="q"))) == {0: text}
    assert codes(subject) == []


# --- whose call it is -----------------------------------------------------------------------------


def test_other_deltas_pass_unchanged() -> None:
    deltas: list[Delta] = [
        Text("a"),
        ToolCall(0, "c1", "shell"),
        ToolCall(0, arguments="{}"),
        ToolCall(1, "c2", "unheard_of", "{"),
        ToolEnd(1, complete=False),
        Usage(input_tokens=1),
        Finish("stop"),
    ]
    subject = make_filter()
    assert feed_all(subject, *deltas) == deltas
    assert subject.close(final=True) == []


def test_calls_of_a_tool_with_an_invalid_grammar_pass_unchanged() -> None:
    broken = Grammar("lark", "start: missing")
    tools = ToolIdentityMap([ToolIdentity("t", "t", "custom", grammar=broken)])
    deltas: list[Delta] = [ToolCall(0, "c1", "t", '{"input": "a"}'), ToolEnd(0)]
    assert feed_all(DrivenFilter(FreeformInputFilter(tools)), *deltas) == deltas


def test_a_name_may_come_in_pieces_and_be_repeated() -> None:
    pieces: list[Delta] = [
        ToolCall(0, "c1", "apply"),
        ToolCall(0, name="_patch"),
        ToolCall(0, name="apply_patch", arguments=arguments(GOOD)),
    ]
    deltas = run_round(make_filter(), pieces)
    assert deltas[:2] == [ToolCall(0, "c1"), ToolCall(0, "c1", "apply_patch", kind="custom")]
    assert inputs(deltas) == {0: GOOD}


def test_a_name_may_come_after_the_arguments_and_the_id_after_both() -> None:
    pieces: list[Delta] = [
        ToolCall(0, arguments=arguments(GOOD)),
        ToolCall(0, name="apply_patch"),
        ToolCall(0, "c1"),
        ToolCall(0, "c1"),
    ]
    deltas = run_round(make_filter(), pieces)
    assert [delta.call_id for delta in deltas if isinstance(delta, ToolCall)] == [
        None,
        None,
        None,
        "c1",
    ]
    assert inputs(deltas) == {0: GOOD}


def test_a_name_that_is_the_beginning_of_another_waits_for_the_arguments() -> None:
    subject = make_filter()
    assert feed_all(subject, ToolCall(0, "c1", "exec")) == [ToolCall(0, "c1")]
    assert feed_all(subject, ToolCall(0, name="_command", arguments="{}")) == [
        ToolCall(0, "c1", "exec"),
        ToolCall(0, name="_command", arguments="{}"),
    ]
    assert feed_all(subject, ToolCall(1, "c2", "exec"))[0] == ToolCall(1, "c2")
    assert feed_all(subject, ToolCall(1, name="exec", arguments='{"input": "x"}')) == [
        ToolCall(1, "c2", "exec", kind="custom"),
        ToolCall(1, arguments="x", kind="custom"),
        ToolEnd(1),
    ]


def test_a_longer_name_replaces_what_it_begins_with() -> None:
    deltas = run_round(make_filter(), [ToolCall(0, "c1", "app"), *called(arguments(GOOD))])
    assert inputs(deltas) == {0: GOOD}


def test_a_call_without_a_name_passes_when_the_round_is_over() -> None:
    call = ToolCall(0, "c1", arguments="{}")
    subject = make_filter()
    assert feed_all(subject, call) == [ToolCall(0, "c1")]
    assert subject.close(final=True) == [call]


def test_a_call_that_ends_before_it_has_arguments_has_an_empty_input() -> None:
    subject = make_filter()
    deltas = feed_all(subject, ToolCall(0, "c1", "exec"), ToolEnd(0), Finish("stop"))
    assert deltas[1:] == [ToolCall(0, "c1", "exec", kind="custom"), Finish("stop")]
    assert subject.close(final=True) == []
    assert [
        step.arguments for step in follow_up_of(subject).steps if isinstance(step, ToolCallStep)
    ] == ['{"input":""}']


# --- invalid input --------------------------------------------------------------------------------


def test_invalid_input_stops_at_the_problem_and_its_call_stays_open() -> None:
    subject = make_filter()
    deltas = run_round(
        subject,
        [*called(arguments(BAD)), ToolEnd(0), *called("{}", index=1, name="shell", call_id="c2")],
    )
    assert inputs([*deltas, ToolEnd(0)]) == {0: BAD[: BAD.index("two")]}
    assert [delta for delta in deltas if isinstance(delta, ToolEnd)] == []
    assert ToolCall(1, arguments="{}") in deltas
    assert subject.diagnostics == ()


def test_the_follow_up_says_what_is_wrong_with_the_input() -> None:
    subject = make_filter()
    run_round(subject, called(arguments(BAD)))
    call, answer = follow_up_of(subject).steps
    assert call == ToolCallStep("c1", "apply_patch", arguments(BAD).replace(": ", ":", 1))
    assert answer == ToolResultStep(
        "c1",
        (
            TextPart(
                "`apply_patch` was not run: its input does not match its grammar."
                " line 4, column 1: expected '*** ' or '+' after '+one', found 't'."
                " Call `apply_patch` again with the whole corrected input and nothing else."
            ),
        ),
        "apply_patch",
    )
    assert follow_up_of(subject).tool_choice is None


def test_a_correction_continues_the_input_of_the_first_attempt() -> None:
    subject = make_filter()
    deltas = run_round(subject, called(arguments(BAD)))
    first = sum(isinstance(delta, ToolCall) for delta in deltas)
    deltas += run_round(subject, called(arguments(GOOD), call_id="c2"))
    calls = [delta for delta in deltas if isinstance(delta, ToolCall)]
    assert {call.call_id for call in calls} == {"c1", None}
    assert len(calls) > first + 2, "the correction should stream"
    assert inputs(deltas) == {0: GOOD}
    assert subject.follow_up is None
    assert codes(subject) == [Code.INPUT_CORRECTED]


@pytest.mark.parametrize("correction", [OTHER, patch(*FILES.values())])
def test_a_correction_that_begins_differently_revises_the_input(correction: str) -> None:
    subject = make_filter()
    long = BAD.replace("File: a", "File: " + "a" * 99)
    deltas = run_round(subject, called(arguments(long)))
    deltas += run_round(subject, called(arguments(correction), call_id="c2"))
    assert ToolRevision(0, correction) in deltas
    assert inputs(deltas) == {0: correction}


def test_a_correction_of_unsent_input_streams_from_the_start() -> None:
    subject = make_filter()
    deltas = run_round(subject, called(arguments("nonsense")))
    deltas += run_round(subject, called(arguments(GOOD), call_id="c2"))
    assert not any(isinstance(delta, ToolRevision) for delta in deltas)
    assert inputs(deltas) == {0: GOOD}


def test_a_second_invalid_input_is_sent_as_it_is() -> None:
    subject = make_filter()
    worse = BAD.replace("two", "three")
    assert final_input(subject, called(arguments(BAD)), worse) == worse
    assert codes(subject) == [Code.INPUT_INVALID]
    assert subject.follow_up is None


def test_without_a_correction_the_first_input_is_sent() -> None:
    subject = make_filter()
    deltas = run_round(subject, called(arguments(BAD)))
    deltas += run_round(subject, [Text("No.")], "stop")
    assert inputs(deltas) == {0: BAD}
    assert codes(subject) == [Code.INPUT_INVALID]


def test_giving_up_sends_the_invalid_input() -> None:
    subject = make_filter()
    deltas = run_round(subject, called(arguments(BAD)))
    assert inputs(deltas + subject.give_up()) == {0: BAD}
    assert subject.follow_up is None


def test_several_invalid_calls_are_asked_for_in_one_round_and_corrected_in_order() -> None:
    subject = make_filter()
    broken = OTHER.replace("***", "**")
    first = [
        *called(arguments(BAD)),
        *called(arguments(broken), index=1, call_id="c2"),
        *called('{"input": "run()', index=2, call_id="c3", name="exec"),
    ]
    deltas = run_round(subject, first)
    assert [type(step) for step in follow_up_of(subject).steps] == [ToolCallStep] * 3 + [
        ToolResultStep
    ] * 3
    second = [
        *called('{"input": "run()"}', index=0, call_id="d0", name="exec"),
        *called(arguments(GOOD), index=1, call_id="d1"),
        *called(arguments(OTHER), index=2, call_id="d2"),
    ]
    assert inputs(deltas + run_round(subject, second)) == {0: GOOD, 1: OTHER, 2: "run()"}
    assert codes(subject) == [Code.INPUT_CORRECTED] * 3


def test_other_calls_beside_a_correction_get_indices_of_their_own() -> None:
    subject = make_filter()
    run_round(subject, called(arguments(BAD)))
    second = [
        ToolCall(0, "d0"),
        ToolCall(0, name="shell", arguments="{}"),
        ToolEnd(0),
        *called(arguments(GOOD), index=1, call_id="d1"),
        *called(arguments(BAD), index=2, call_id="d2"),
    ]
    deltas = run_round(subject, second)
    assert deltas[:3] == [
        ToolCall(1000, "d0"),
        ToolCall(1000, name="shell", arguments="{}"),
        ToolEnd(1000),
    ]
    assert inputs(deltas)[1002] == BAD
    assert codes(subject) == [Code.INPUT_CORRECTED, Code.INPUT_INVALID]
    assert run_round(subject, called("{}", name="shell"))[0] == ToolCall(2000, "c1", "shell")


def test_an_unnamed_call_of_a_later_round_gets_a_new_index() -> None:
    subject = make_filter()
    run_round(subject, [])
    assert subject.feed(ToolCall(0, "d0", "exec")) == [ToolCall(1000, "d0")]
    assert subject.feed(ToolCall(0, name="_command")) == [
        ToolCall(1000, "d0", "exec"),
        ToolCall(1000, name="_command"),
    ]


def test_a_correction_may_come_in_a_round_that_another_filter_wants() -> None:
    subject = make_filter()
    deltas = run_round(subject, called(arguments(BAD)))
    subject.feed(Finish("stop"))
    assert subject.close(final=False) == []
    deltas += run_round(subject, called(arguments(GOOD), call_id="c3"))
    assert inputs(deltas) == {0: GOOD}
    assert codes(subject) == [Code.INPUT_CORRECTED]


def test_arguments_that_end_inside_a_string_are_asked_for_again() -> None:
    subject = make_filter()
    deltas = run_round(subject, called('{"input": "run()', name="exec"))
    answer = follow_up_of(subject).steps[1]
    assert isinstance(answer, ToolResultStep)
    assert "the arguments end before the text in them does" in str(answer.parts)
    assert run_round(subject, [])[-1] == ToolEnd(0, complete=False)
    assert inputs(deltas) == {}


def test_a_call_without_an_id_gets_one_in_the_follow_up() -> None:
    subject = make_filter()
    run_round(subject, [ToolCall(0, name="apply_patch", arguments=arguments(BAD))])
    call = follow_up_of(subject).steps[0]
    assert isinstance(call, ToolCallStep)
    assert call.call_id
    deltas = run_round(subject, called(arguments(GOOD)))
    assert deltas[-1] == ToolEnd(0)


# --- answers that were cut off --------------------------------------------------------------------


def test_a_call_that_was_cut_off_is_incomplete_and_not_asked_for_again() -> None:
    subject = make_filter()
    deltas = run_round(subject, called(arguments(GOOD)[:-9]), "length")
    assert deltas[-1] == ToolEnd(0, complete=False)
    assert (subject.follow_up, subject.diagnostics) == (None, ())
    deltas = run_round(
        make_filter(), [ToolCall(0, "c1", "apply_patch", GOOD[:30], "custom"), ToolEnd(0, False)]
    )
    assert inputs(deltas) == {0: GOOD[:30]}


def test_invalid_input_in_an_answer_that_was_cut_off_is_sent_as_it_is() -> None:
    subject = make_filter()
    deltas = run_round(subject, called(arguments(BAD)), "length")
    assert (inputs(deltas), deltas[-1]) == ({0: BAD}, ToolEnd(0))
    assert subject.follow_up is None
    assert codes(subject) == [Code.INPUT_INVALID]


def test_without_a_finish_reason_there_is_no_follow_up() -> None:
    subject = make_filter()
    feed_all(subject, *called(arguments(BAD)))
    assert subject.close(final=True)[-1] == ToolEnd(0)
    assert subject.follow_up is None


# --- what a client sees ---------------------------------------------------------------------------


def seen(subject: ResponseMachine, deltas: list[Delta]) -> list[Event]:
    return [event for delta in deltas for event in subject.feed(delta)]


def test_a_client_sees_one_call_with_the_corrected_input() -> None:
    subject, client = make_filter(), machine([*map(TOOLS.by_provider_name, TOOLS)])  # type: ignore[list-item]
    events = client.start()
    shell = called("{}", index=1, call_id="c2", name="shell")
    events += (
        seen(client, run_round(subject, [*called(arguments(BAD)), *shell])) + client.end_round()
    )
    client.next_round()
    events += seen(
        client, run_round(subject, [Text("Sorry."), *called(arguments(GOOD), call_id="c3")])
    )
    shown = documents(events + client.finish("tool_calls"))
    check(shown)
    output = shown[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["custom_tool_call", "function_call", "message"]
    assert (output[0]["call_id"], output[0]["input"]) == ("c1", GOOD)


@table("name", FILES)
def test_a_client_sees_input_while_it_is_written(name: str) -> None:
    text = patch(FILES[name])
    subject, client = make_filter(), machine([*map(TOOLS.by_provider_name, TOOLS)])  # type: ignore[list-item]
    client.start()
    for count, delta in enumerate(called(arguments(text), size=12)):
        events = seen(client, subject.feed(delta))
        kinds = [event["type"] for event in documents(events)]
        if 1 <= count <= len(text) // 12:
            assert "response.custom_tool_call_input.delta" in kinds


def test_only_an_answer_to_a_tool_with_a_grammar_has_the_filter() -> None:
    def has_filter(tools: ToolIdentityMap) -> bool:
        return FreeformInputFilter.of(tools) is not None

    assert has_filter(TOOLS)
    assert not has_filter(ToolIdentityMap([ToolIdentity("exec_command", "exec_command")]))
