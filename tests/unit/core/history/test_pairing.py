"""Pairing: the result of every call follows its turn, and nothing is lost."""

from __future__ import annotations

import pytest

from antiphon.core.diagnostic import Decision, Diagnostic
from antiphon.core.history.pairing import INTERRUPTED, pair_calls
from antiphon.core.history.steps import (
    HistoryCode,
    ImagePart,
    MessageStep,
    ReasoningStep,
    Role,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)


def call(call_id: str, name: str = "look") -> ToolCallStep:
    return ToolCallStep(call_id, name, "{}")


def answer(call_id: str, text: str, name: str | None = None) -> ToolResultStep:
    return ToolResultStep(call_id, (TextPart(text),), name)


def said(role: Role, *texts: str) -> MessageStep:
    return MessageStep(role, tuple(map(TextPart, texts)))


def mend(*steps: Step) -> tuple[list[Step], list[str]]:
    mended, diagnostics = pair_calls(steps)
    return list(mended), [diagnostic.code for diagnostic in diagnostics]


USER, DEVELOPER, ASSISTANT = said("user", "hi"), said("developer", "mind"), said("assistant", "ok")


def test_an_ordered_history_only_gets_tool_names_on_its_results() -> None:
    steps = (USER, ReasoningStep("hm"), ASSISTANT, call("a"), answer("a", "1"), ASSISTANT, USER)
    named = (*steps[:4], answer("a", "1", "look"), *steps[5:])
    assert pair_calls(steps) == (named, ())


def test_the_answers_of_a_batch_follow_it_in_the_order_of_its_calls() -> None:
    mended, codes = mend(call("a"), call("b"), answer("b", "2"), answer("a", "1"))
    assert mended == [call("a"), call("b"), answer("a", "1", "look"), answer("b", "2", "look")]
    assert codes == []


def test_text_between_parallel_calls_does_not_split_them() -> None:
    steps = (
        ReasoningStep("x"),
        call("a"),
        ASSISTANT,
        call("b"),
        answer("a", "1"),
        answer("b", "2"),
    )
    mended, _ = mend(*steps)
    assert mended[:4] == list(steps[:4])
    assert [step.call_id for step in mended[4:] if isinstance(step, ToolResultStep)] == ["a", "b"]


@pytest.mark.parametrize("between", [USER, DEVELOPER])
def test_what_stood_between_a_call_and_its_answer_comes_after(between: MessageStep) -> None:
    mended, codes = mend(call("a"), call("b"), answer("b", "2"), between, answer("a", "1"))
    assert mended[2:] == [answer("a", "1", "look"), answer("b", "2", "look"), between]
    assert codes == []


def test_an_image_taken_out_of_an_answer_follows_the_whole_batch() -> None:
    image = MessageStep("user", (ImagePart("https://x.test/1"),))
    mended, _ = mend(call("a"), call("b"), answer("a", "1"), image, answer("b", "2"))
    assert mended[2:] == [answer("a", "1", "look"), answer("b", "2", "look"), image]


def test_a_late_answer_goes_back_over_other_turns() -> None:
    mended, _ = mend(call("a"), USER, call("b"), answer("b", "2"), ASSISTANT, answer("a", "1"))
    assert mended == [
        call("a"),
        answer("a", "1", "look"),
        USER,
        call("b"),
        answer("b", "2", "look"),
        ASSISTANT,
    ]


def test_a_call_without_an_answer_gets_a_neutral_one() -> None:
    mended, diagnostics = pair_calls([call("a"), call("b"), answer("b", "2"), USER])
    assert mended == (
        call("a"),
        call("b"),
        ToolResultStep("a", (INTERRUPTED,), "look"),
        answer("b", "2", "look"),
        USER,
    )
    assert diagnostics == (
        Diagnostic(
            code=HistoryCode.CALL_UNANSWERED,
            decision=Decision.DEGRADED,
            param="input",
            message="Call 'a' has no result; a placeholder is sent.",
        ),
    )


def test_a_history_that_ends_with_a_call_is_answered_too() -> None:
    mended, codes = mend(USER, call("a"))
    assert mended == [USER, call("a"), ToolResultStep("a", (INTERRUPTED,), "look")]
    assert codes == [HistoryCode.CALL_UNANSWERED]


def test_an_answer_without_a_call_is_kept_as_text() -> None:
    mended, codes = mend(answer("gone", "21 degrees"), USER)
    assert mended == [said("user", "[result of an unknown tool call gone]:", "21 degrees"), USER]
    assert codes == [HistoryCode.ANSWER_ORPHANED]


def test_an_answer_never_belongs_to_a_later_call() -> None:
    mended, codes = mend(answer("a", "1"), call("a"))
    assert mended[1:] == [call("a"), ToolResultStep("a", (INTERRUPTED,), "look")]
    assert codes == [HistoryCode.ANSWER_ORPHANED, HistoryCode.CALL_UNANSWERED]


def test_of_two_answers_the_first_counts_and_the_other_is_kept_as_text() -> None:
    mended, codes = mend(call("a"), answer("a", "1"), USER, answer("a", "2"))
    assert mended == [
        call("a"),
        answer("a", "1", "look"),
        USER,
        said("user", "[another result of the tool call a]:", "2"),
    ]
    assert codes == [HistoryCode.ANSWER_REPEATED]


def test_an_answer_that_came_twice_is_sent_once() -> None:
    mended, [diagnostic] = pair_calls([call("a"), answer("a", "1"), answer("a", "1")])
    assert mended == (call("a"), answer("a", "1", "look"))
    assert (diagnostic.code, diagnostic.decision) == (
        HistoryCode.ANSWER_REPEATED,
        Decision.IGNORED,
    )


def test_ids_that_restart_in_every_turn_are_paired_within_their_turn() -> None:
    steps = (call("look:0"), answer("look:0", "1"), USER, call("look:0"), answer("look:0", "2"))
    mended, codes = mend(*steps)
    assert [step.parts for step in mended if isinstance(step, ToolResultStep)] == [
        (TextPart("1"),),
        (TextPart("2"),),
    ]
    assert codes == []


def test_a_repeated_id_means_the_latest_turn_and_leaves_an_interrupted_one_alone() -> None:
    mended, codes = mend(call("look:0"), USER, call("look:0"), answer("look:0", "2"))
    assert mended == [
        call("look:0"),
        ToolResultStep("look:0", (INTERRUPTED,), "look"),
        USER,
        call("look:0"),
        answer("look:0", "2", "look"),
    ]
    assert codes == [HistoryCode.CALL_UNANSWERED]


def test_calls_of_one_turn_that_share_an_id_get_ids_of_their_own() -> None:
    mended, _ = mend(
        call("a"), call("a"), call("a_2"), answer("a", "1"), answer("a", "2"), answer("a_2", "3")
    )
    assert mended == [
        call("a"),
        call("a_2"),
        call("a_2_2"),
        answer("a", "1", "look"),
        answer("a_2", "2", "look"),
        answer("a_2_2", "3", "look"),
    ]


def test_an_answer_without_an_id_belongs_to_the_only_open_call() -> None:
    mended, codes = mend(call("a"), call("b"), answer("a", "1"), answer("", "2"))
    assert mended[3] == answer("b", "2", "look")
    assert codes == []


@pytest.mark.parametrize("calls", [(call("a"), call("b")), (call("a"), call("a")), ()])
def test_an_answer_without_an_id_is_text_where_it_could_mean_several(
    calls: tuple[ToolCallStep, ...],
) -> None:
    mended, codes = mend(*calls, answer("", "1"))
    assert mended[-1] == said("user", "[result of an unknown tool call ]:", "1")
    assert HistoryCode.ANSWER_ORPHANED in codes


def test_reasoning_before_a_user_message_is_not_moved_to_a_later_turn() -> None:
    mended, codes = mend(ReasoningStep("about this"), USER, ASSISTANT)
    assert mended == [USER, ASSISTANT]
    assert codes == [HistoryCode.REASONING_ORPHANED]


def test_reasoning_stays_in_its_turn() -> None:
    steps: list[Step] = [ReasoningStep("first"), ASSISTANT, ReasoningStep("then"), USER]
    assert mend(*steps) == (steps, [])


def test_diagnostics_name_the_path_they_are_given() -> None:
    _, [diagnostic] = pair_calls([call("a")], param="history")
    assert diagnostic.param == "history"
