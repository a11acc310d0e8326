"""Structured outputs: what streams, what is held back, and what is asked for once more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import structs

from antiphon.core.deltas import (
    Annotation,
    BlockStart,
    Delta,
    Extra,
    Failure,
    Finish,
    ItemEnd,
    RawItem,
    RawItemStarted,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolEnd,
    ToolRevision,
    Usage,
)
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.history.steps import MessageStep, TextPart, ToolCallStep, ToolResultStep
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.structured_output.filter import StructuredOutputFilter
from tests.support.filters import DrivenFilter
from tests.support.tables import table

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
NATIVE = OutputContract(
    requested="json_schema", asked="json_schema", name="trip", schema=SCHEMA, strict=True
)
AS_TEXT = structs.replace(NATIVE, asked="text")
BY_TOOL = structs.replace(AS_TEXT, tool="answer_trip")
ULM = '{"city": "Ulm"}'
WRONG = '{"city": 7, "days": "two"}'
STOP = Finish("stop")
CITE = Annotation({"type": "url_citation", "url": "https://example.org"})


def feed_all(subject: DrivenFilter, *deltas: Delta) -> list[Delta]:
    return [out for delta in deltas for out in subject.feed(delta)]


def text(deltas: Iterable[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, Text))


def codes(subject: DrivenFilter) -> list[str]:
    assert {each.param for each in subject.diagnostics} <= {"text.format"}
    return [each.code for each in subject.diagnostics]


def call(name: str, arguments: str = "", index: int = 0) -> ToolCall:
    return ToolCall(index, f"call_{index}", name, arguments)


def answer_call(arguments: str, index: int = 0) -> ToolCall:
    return call("answer_trip", arguments, index)


# --- held back ------------------------------------------------------------------------------------


def test_even_native_output_is_held_back_if_another_filter_may_want_a_round() -> None:
    subject = DrivenFilter(StructuredOutputFilter(NATIVE, holds=True))
    assert feed_all(subject, Text(ULM), STOP) == [STOP]
    assert subject.close(final=True) == [Text(ULM)]


# --- asked for natively ---------------------------------------------------------------------------


def test_native_structured_output_streams_as_it_comes() -> None:
    subject = DrivenFilter(StructuredOutputFilter(NATIVE))
    assert subject.feed(Text(" \n")) == []
    assert subject.feed(Text('{"ci')) == [Text(" \n"), Text('{"ci')]
    assert subject.feed(Text('ty"')) == [Text('ty"')]
    assert subject.feed(CITE) == [CITE]
    assert subject.close(final=True) == []
    assert subject.follow_up is None


@table("before", ["```json\n", "Sure: ", "\ufeff", "true that: "])
def test_text_that_does_not_begin_like_an_answer_is_held_back(before: str) -> None:
    subject = DrivenFilter(StructuredOutputFilter(NATIVE))
    assert feed_all(subject, Text(before[:1]), Text(before[1:] + ULM), STOP) == [STOP]
    assert subject.close(final=True) == [Text(ULM)]
    assert codes(subject) == ["format.trimmed"]


@table(
    ("schema", "begins", "streams"),
    [
        ({"type": "array"}, "[1", True),
        ({"type": "array"}, "{", False),
        ({"type": "string"}, '"a', True),
        ({"type": ["boolean", "null"]}, "nu", True),
        ({"type": "number"}, "-1", True),
        ({"type": "integer"}, "12", True),
        ({"anyOf": [{"type": "null"}]}, "n", True),
        ({}, "Sure", False),
        (None, "{", True),
        (None, "[", False),
    ],
)
def test_the_schema_decides_how_an_answer_may_begin(
    schema: Any, begins: str, streams: bool
) -> None:
    kind: Any = "json_object" if schema is None else "json_schema"
    subject = DrivenFilter(
        StructuredOutputFilter(structs.replace(NATIVE, requested=kind, asked=kind, schema=schema))
    )
    assert bool(subject.feed(Text(begins))) is streams


# --- held back ------------------------------------------------------------------------------------


@table("contract", [AS_TEXT, structs.replace(AS_TEXT, asked="json_object"), BY_TOOL])
def test_text_is_held_back_until_the_round_ends(contract: OutputContract) -> None:
    subject = DrivenFilter(StructuredOutputFilter(contract))
    reasoning, usage, note = Reasoning("Hm."), Usage(output_tokens=3), Extra("x")
    deltas: Sequence[Delta] = (reasoning, Text(ULM[:5]), usage, ItemEnd(), note, STOP)
    assert feed_all(subject, *deltas) == [reasoning, usage, ItemEnd(), note, STOP]
    assert feed_all(subject, Text(ULM[5:])) == []
    assert subject.close(final=True) == [Text(ULM[:5]), Text(ULM[5:])]
    assert (subject.follow_up, codes(subject)) == (None, [])


def test_an_untouched_answer_keeps_its_probabilities_and_citations() -> None:
    subject = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    piece = Text(ULM, logprobs=({"token": "x"},))
    assert feed_all(subject, piece, CITE, STOP) == [STOP]
    assert subject.close(final=True) == [piece, CITE]


def test_white_space_around_an_answer_is_not_noted() -> None:
    subject = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    feed_all(subject, Text("\ufeff" + ULM), CITE, STOP)
    assert subject.close(final=True) == [Text(ULM), CITE]
    assert codes(subject) == ["format.trimmed"]
    quiet = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    feed_all(quiet, Text(f"\u00a0{ULM}"), STOP)
    assert (quiet.close(final=True), codes(quiet)) == ([Text(ULM)], [])


@table(
    "answer",
    [
        f"```json\n{ULM}\n```",
        f"As [1] says: {ULM}",
        f"{ULM}\n{ULM}",
        r'"{\"city\": \"Ulm\"}"',
        f'{{"draft": true}} {ULM}',
    ],
)
def test_the_only_valid_json_value_is_the_answer(answer: str) -> None:
    subject = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    feed_all(subject, Text(answer), STOP)
    assert subject.close(final=True) == [Text(ULM)]
    assert (subject.follow_up, codes(subject)) == (None, ["format.trimmed"])


# --- asking once more -----------------------------------------------------------------------------


def complaint(subject: DrivenFilter) -> str:
    assert subject.follow_up is not None
    assert subject.follow_up.tool_choice is None
    last = subject.follow_up.steps[-1]
    assert isinstance(last, MessageStep | ToolResultStep)
    [part] = last.parts
    assert isinstance(part, TextPart)
    return part.text


def test_an_invalid_answer_is_asked_for_once_more_with_the_reasons() -> None:
    subject = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    feed_all(subject, Text(WRONG), STOP)
    assert subject.close(final=True) == []
    assert "- /city: 7 is not of type" in complaint(subject)
    assert '- /days: "two" is not of type "integer" (type)' in complaint(subject)
    assert "nothing else" in complaint(subject)
    assert subject.follow_up is not None
    assert subject.follow_up.steps[0] == MessageStep("assistant", (TextPart(WRONG),))
    assert codes(subject) == []
    assert feed_all(subject, Text(ULM), STOP) == [STOP]
    assert subject.close(final=True) == [Text(ULM)]
    assert codes(subject) == ["format.repaired"]


def test_an_invalid_answer_is_sent_if_the_second_attempt_has_none() -> None:
    subject = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    feed_all(subject, Text("No idea."), STOP)
    assert subject.close(final=True) == []
    assert feed_all(subject, STOP) == [STOP]
    assert subject.close(final=True) == [Text("No idea.")]
    assert subject.follow_up is None


def test_a_second_invalid_answer_is_sent_as_it_is() -> None:
    subject = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    feed_all(subject, Text("No idea."), STOP)
    assert subject.close(final=True) == []
    feed_all(subject, Text("Still"), CITE, Text(" none."), STOP)
    assert subject.close(final=True) == [Text("Still"), CITE, Text(" none.")]
    assert subject.follow_up is None
    assert codes(subject) == []


@table(("second", "reported"), [(ULM, ["format.repaired"]), (WRONG, [])])
def test_a_repair_that_streams_is_reported_only_if_the_answer_is_valid(
    second: str, reported: list[str]
) -> None:
    subject = DrivenFilter(StructuredOutputFilter(NATIVE))
    feed_all(subject, Text("No idea."), STOP)
    assert subject.close(final=True) == []
    deltas = feed_all(subject, Text(second[:9]), Text(second[9:]), STOP)
    assert deltas == [Text(second[:9]), Text(second[9:]), STOP]
    assert subject.close(final=True) == []
    assert codes(subject) == reported


def test_a_refusal_instead_of_a_correction_is_no_repair() -> None:
    subject = DrivenFilter(StructuredOutputFilter(NATIVE))
    feed_all(subject, Text("No idea."), STOP)
    subject.close(final=True)
    feed_all(subject, Refusal("No."), STOP)
    subject.close(final=True)
    assert codes(subject) == []


def test_giving_up_sends_the_invalid_answer() -> None:
    subject = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    feed_all(subject, Text(WRONG), STOP)
    assert subject.close(final=True) == []
    assert subject.give_up() == [Text(WRONG)]
    assert (subject.follow_up, codes(subject)) == (None, [])


def test_an_empty_answer_is_not_repeated_in_the_follow_up() -> None:
    subject = DrivenFilter(StructuredOutputFilter(NATIVE))
    feed_all(subject, STOP)
    assert subject.close(final=True) == []
    assert subject.follow_up is not None
    assert [type(step) for step in subject.follow_up.steps] == [MessageStep]
    assert "not valid JSON" in complaint(subject)


def test_several_valid_values_are_no_answer() -> None:
    subject = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    feed_all(subject, Text('{"city": "Ulm"} {"city": "Bonn"}'), STOP)
    assert subject.close(final=True) == []
    assert "several" in complaint(subject)


def test_the_reasons_are_limited_in_number_and_length() -> None:
    subject = DrivenFilter(
        StructuredOutputFilter(
            structs.replace(AS_TEXT, schema={"type": "array", "items": {"enum": ["yes"]}})
        )
    )
    feed_all(subject, Text("[" + ",".join(['"' + "n" * 5000 + '"'] * 40) + "]"), STOP)
    subject.close(final=True)
    reasons = [line for line in complaint(subject).splitlines() if line.startswith("- ")]
    assert len(reasons) == 10
    assert all(len(line) < 400 and 'not one of "yes"' in line for line in reasons)


def test_reasons_name_a_json_pointer_or_the_top_level() -> None:
    schema = {"properties": {"a/b~c": {"type": "string"}}, "required": ["x"]}
    subject = DrivenFilter(StructuredOutputFilter(structs.replace(AS_TEXT, schema=schema)))
    feed_all(subject, Text('{"a/b~c": 1}'), STOP)
    subject.close(final=True)
    assert "- /a~1b~0c: " in complaint(subject)
    assert "- the top level: " in complaint(subject)


def test_a_schema_that_is_not_strict_requires_only_json() -> None:
    subject = DrivenFilter(StructuredOutputFilter(structs.replace(AS_TEXT, strict=False)))
    feed_all(subject, Text(WRONG), STOP)
    assert subject.close(final=True) == [Text(WRONG)]
    broken = DrivenFilter(StructuredOutputFilter(structs.replace(AS_TEXT, strict=False)))
    feed_all(broken, Text("{"), STOP)
    assert (broken.close(final=True), broken.follow_up is None) == ([], False)


def test_json_without_a_schema_is_an_object() -> None:
    subject = DrivenFilter(StructuredOutputFilter(OutputContract(requested="json_object")))
    feed_all(subject, Text("[1]"), STOP)
    assert subject.close(final=True) == []
    assert '[1] is not of type "object"' in complaint(subject)


# --- rounds that promise nothing ------------------------------------------------------------------


@table("contract", [AS_TEXT, BY_TOOL])
def test_text_before_a_client_call_is_sent_before_it(contract: OutputContract) -> None:
    subject = DrivenFilter(StructuredOutputFilter(contract))
    looking = call("look", "{}")
    assert feed_all(subject, Text("Let me see."), looking) == [Text("Let me see."), looking]
    more: list[Delta] = [ToolCall(0, arguments="{}"), ToolEnd(0), Text("So."), Finish("tool_calls")]
    assert feed_all(subject, *more) == more
    assert subject.close(final=True) == []
    assert subject.follow_up is None


def test_a_raw_item_that_the_client_must_answer_counts_as_a_call() -> None:
    subject = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    shell = RawItem({"type": "shell_call"})
    assert feed_all(subject, Text("Wait."), shell) == [Text("Wait."), shell]
    aside = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    search = RawItem({"type": "web_search_call"})
    assert feed_all(aside, Text("Wait."), search) == [search]
    begun = RawItemStarted(0, {"type": "shell_call"})
    started = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    assert feed_all(started, Text("Wait."), begun) == [Text("Wait."), begun]


def test_a_refusal_is_not_checked() -> None:
    subject = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    assert feed_all(subject, Text("Hm."), Refusal("No."), STOP) == [
        Text("Hm."),
        Refusal("No."),
        STOP,
    ]
    assert (subject.close(final=True), subject.follow_up) == ([], None)


def test_held_back_text_is_sent_before_a_failure() -> None:
    subject = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    failure = Failure(protocol_fault("broken"))
    assert feed_all(subject, Text("{"), failure) == [Text("{"), failure]


@table("reason", ["length", "content_filter", "error", "unheard_of", None])
def test_an_incomplete_answer_is_sent_unchecked(reason: str | None) -> None:
    subject = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    feed_all(subject, Text('{"city": "U'), Finish(reason))
    assert text(subject.close(final=True)) == '{"city": "U'
    by_tool = DrivenFilter(StructuredOutputFilter(BY_TOOL))
    feed_all(by_tool, answer_call('{"city": "U'), Finish(reason))
    assert text(by_tool.close(final=True)) == '{"city": "U'
    assert (subject.follow_up, by_tool.follow_up) == (None, None)


def test_an_empty_finish_reason_does_not_replace_an_earlier_one() -> None:
    subject = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    feed_all(subject, Text(WRONG), STOP, Finish(None))
    assert (subject.close(final=True), subject.follow_up is None) == ([], False)


def test_text_before_another_round_is_sent_as_reasoning() -> None:
    subject = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    feed_all(subject, Text(" Let me search. "), Finish("tool_calls"))
    assert subject.close(final=False) == [ItemEnd(), Reasoning("Let me search.", kind="summary")]
    assert codes(subject) == ["format.commentary"]
    assert feed_all(subject, Text(ULM), STOP) == [STOP]
    assert subject.close(final=True) == [Text(ULM)]
    silent = DrivenFilter(StructuredOutputFilter(AS_TEXT))
    feed_all(silent, STOP)
    assert (silent.close(final=False), codes(silent)) == ([], [])


# --- the answer tool ------------------------------------------------------------------------------


def test_the_arguments_of_the_answer_tool_are_the_answer() -> None:
    subject = DrivenFilter(StructuredOutputFilter(BY_TOOL))
    pieces: list[Delta] = [answer_call(ULM[:4]), ToolCall(0, arguments=ULM[4:]), ToolEnd(0)]
    assert feed_all(subject, *pieces, Finish("tool_calls")) == [Finish("tool_calls")]
    assert subject.close(final=True) == [Text(ULM)]
    assert (subject.follow_up, codes(subject)) == (None, [])


def test_the_name_of_the_answer_tool_may_come_in_pieces_or_repeatedly() -> None:
    subject = DrivenFilter(StructuredOutputFilter(BY_TOOL))
    pieces = [
        ToolCall(0, name="answer"),
        ToolCall(0, "call_0"),
        ToolCall(0, name="_trip"),
        ToolCall(0, name="answer_trip", arguments=ULM),
    ]
    assert feed_all(subject, *pieces, STOP) == [STOP]
    assert subject.close(final=True) == [Text(ULM)]


def test_a_client_tool_with_a_similar_name_passes_once_its_name_is_complete() -> None:
    subject = DrivenFilter(StructuredOutputFilter(BY_TOOL))
    first, second = ToolCall(0, "c", "answer"), ToolCall(0, arguments="{}")
    assert feed_all(subject, Text("Hm."), first) == []
    assert feed_all(subject, second) == [Text("Hm."), first, second]
    assert feed_all(subject, ToolEnd(0)) == [ToolEnd(0)]


def test_a_call_with_an_incomplete_name_is_sent_at_the_end() -> None:
    subject = DrivenFilter(StructuredOutputFilter(BY_TOOL))
    first, second = ToolCall(0, "c", "answer"), ToolCall(1, "d", arguments="{}")
    revision = ToolRevision(1, "x")
    assert feed_all(subject, Text("Hm."), first, second, revision, STOP) == [STOP]
    assert subject.close(final=True) == [Text("Hm."), first, second, revision]


def test_text_beside_the_answer_is_sent_as_reasoning() -> None:
    subject = DrivenFilter(StructuredOutputFilter(BY_TOOL))
    feed_all(subject, Text("Here it is:"), answer_call(ULM), STOP)
    assert subject.close(final=True) == [
        ItemEnd(),
        Reasoning("Here it is:", kind="summary"),
        Text(ULM),
    ]
    assert codes(subject) == ["format.commentary"]


def test_a_text_answer_is_accepted_instead_of_the_answer_tool() -> None:
    subject = DrivenFilter(StructuredOutputFilter(BY_TOOL))
    feed_all(subject, Text(ULM), STOP)
    assert subject.close(final=True) == [Text(ULM)]


def test_an_invalid_call_of_the_answer_tool_is_answered_with_the_reasons() -> None:
    subject = DrivenFilter(StructuredOutputFilter(BY_TOOL))
    feed_all(subject, answer_call(WRONG), STOP)
    assert subject.close(final=True) == []
    assert "Call answer_trip once" in complaint(subject)
    assert subject.follow_up is not None
    called, answered = subject.follow_up.steps
    assert called == ToolCallStep("call_0", "answer_trip", WRONG)
    assert isinstance(answered, ToolResultStep)
    assert (answered.call_id, answered.name) == ("call_0", "answer_trip")
    feed_all(subject, answer_call(ULM), STOP)
    assert subject.close(final=True) == [Text(ULM)]
    assert codes(subject) == ["format.repaired"]


def test_malformed_arguments_are_an_object_in_the_follow_up() -> None:
    subject = DrivenFilter(StructuredOutputFilter(BY_TOOL))
    feed_all(
        subject,
        ToolCall(0, None, "answer_trip", "{"),
        ToolCall(1, None, "answer_trip", "[1]"),
        STOP,
    )
    assert subject.close(final=True) == []
    assert subject.follow_up is not None
    assert subject.follow_up.steps[:2] == (
        ToolCallStep("call_answer_0", "answer_trip", '{"_malformed":"{"}'),
        ToolCallStep("call_answer_1", "answer_trip", '{"_malformed":"[1]"}'),
    )
    assert len(subject.follow_up.steps) == 4


def test_invalid_calls_of_the_second_attempt_are_sent_as_they_are() -> None:
    subject = DrivenFilter(StructuredOutputFilter(BY_TOOL))
    feed_all(subject, answer_call(ULM), answer_call('{"city": "Bonn"}', 1), STOP)
    assert subject.close(final=True) == []
    feed_all(subject, Text("Hm."), answer_call(ULM), answer_call('{"city": "Bonn"}', 1), STOP)
    *aside, answer = subject.close(final=True)
    assert aside == [ItemEnd(), Reasoning("Hm.", kind="summary")]
    assert answer == Text(f'{ULM}\n{{"city": "Bonn"}}')


def test_an_answer_beside_a_client_call_is_sent_as_text() -> None:
    subject = DrivenFilter(StructuredOutputFilter(BY_TOOL))
    looking = call("look", "{}", 1)
    assert feed_all(subject, answer_call(ULM), looking, STOP) == [looking, STOP]
    assert subject.close(final=True) == [Text(ULM)]
    assert subject.follow_up is None


def test_an_answer_before_another_round_is_sent_as_reasoning() -> None:
    subject = DrivenFilter(StructuredOutputFilter(BY_TOOL))
    feed_all(subject, answer_call(ULM), STOP)
    assert subject.close(final=False) == [ItemEnd(), Reasoning(ULM, kind="summary")]


# --- answers that are no objects ------------------------------------------------------------------

NUMBERS = structs.replace(
    BY_TOOL, wrapped=True, schema={"type": "array", "items": {"type": "integer"}}
)


@table("arguments", ['{"value": [1,  2]}', "[1,  2]", '```json\n{"value":[1,  2]}\n```'])
def test_a_wrapped_answer_is_unwrapped_as_it_is_written(arguments: str) -> None:
    subject = DrivenFilter(StructuredOutputFilter(NUMBERS))
    feed_all(subject, answer_call(arguments), STOP)
    assert subject.close(final=True) == [Text("[1,  2]")]


def test_a_wrapper_is_no_answer_even_where_any_value_would_be() -> None:
    subject = DrivenFilter(StructuredOutputFilter(structs.replace(NUMBERS, schema={})))
    feed_all(subject, answer_call('{"value": {"value": 1}}'), STOP)
    assert subject.close(final=True) == [Text('{"value": 1}')]


@table("arguments", ['{"value": ["a"]}', '{"value": [1], "more": 2}', "{"])
def test_an_invalid_wrapped_answer_is_sent_wrapped(arguments: str) -> None:
    subject = DrivenFilter(StructuredOutputFilter(NUMBERS))
    feed_all(subject, answer_call(arguments), STOP)
    assert subject.close(final=True) == []
    feed_all(subject, answer_call(arguments), STOP)
    assert subject.close(final=True) == [Text(arguments)]


def test_how_a_block_of_text_begins_is_held_back_with_the_text() -> None:
    subject = DrivenFilter(StructuredOutputFilter(NATIVE, holds=True))
    block = BlockStart("text", {"format": "f", "members": {}})
    assert feed_all(subject, Text(ULM[:3]), block, Text(ULM[3:]), STOP) == [STOP]
    assert [*subject.close(final=True)] == [Text(ULM[:3]), block, Text(ULM[3:])]
