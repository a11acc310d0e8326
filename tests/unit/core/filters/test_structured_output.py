"""The desk for answers with a form: what streams, what waits, what is asked for once more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from msgspec import structs

from antiphon.core.faults.fault import protocol_fault
from antiphon.core.filters.structured_output import StructuredOutputFilter
from antiphon.core.history.steps import Answered, Called, Said, TextPart
from antiphon.core.plan.plan import Plan
from antiphon.core.stream.deltas import (
    Annotation,
    Delta,
    Extra,
    Failure,
    Finish,
    ItemEnd,
    RawItem,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolEnd,
    ToolRevision,
    Usage,
)
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.web_search.rules import SearchRules

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
NATIVE = OutputContract(
    requested="json_schema", asked="json_schema", name="trip", schema=SCHEMA, strict=True
)
TOLD = structs.replace(NATIVE, asked="text")
BY_TOOL = structs.replace(TOLD, tool="answer_trip")
ULM = '{"city": "Ulm"}'
WRONG = '{"city": 7, "days": "two"}'
STOP = Finish("stop")
CITE = Annotation({"type": "url_citation", "url": "https://example.org"})


def fed(desk: StructuredOutputFilter, *deltas: Delta) -> list[Delta]:
    return [out for delta in deltas for out in desk.feed(delta)]


def text(deltas: Iterable[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, Text))


def codes(desk: StructuredOutputFilter) -> list[str]:
    assert {each.param for each in desk.diagnostics} <= {"text.format"}
    return [each.code for each in desk.diagnostics]


def call(name: str, arguments: str = "", index: int = 0) -> ToolCall:
    return ToolCall(index, f"call_{index}", name, arguments)


def answering(arguments: str, index: int = 0) -> ToolCall:
    return call("answer_trip", arguments, index)


# --- which answers have a desk --------------------------------------------------------------------


def plan(contract: OutputContract, **fields: Any) -> Plan:
    return Plan(provider="somebody", model="m", contract=contract, **fields)


def test_only_an_answer_with_a_form_has_a_desk() -> None:
    assert StructuredOutputFilter.of(plan(OutputContract())) is None
    assert StructuredOutputFilter.of(plan(NATIVE)) is not None


def test_what_could_stream_waits_where_a_search_may_come_between() -> None:
    desk = StructuredOutputFilter.of(plan(NATIVE, search=SearchRules()))
    assert desk is not None
    assert fed(desk, Text(ULM), STOP) == [STOP]
    assert desk.close(final=True) == [Text(ULM)]


# --- asked for natively ---------------------------------------------------------------------------


def test_text_that_was_asked_for_natively_streams_as_it_comes() -> None:
    desk = StructuredOutputFilter(NATIVE)
    assert desk.feed(Text(" \n")) == []
    assert desk.feed(Text('{"ci')) == [Text(" \n"), Text('{"ci')]
    assert desk.feed(Text('ty"')) == [Text('ty"')]
    assert desk.feed(CITE) == [CITE]
    assert desk.close(final=True) == []
    assert desk.follow_up is None


@pytest.mark.parametrize("before", ["```json\n", "Sure: ", "\ufeff", "true that: "])
def test_text_that_does_not_begin_as_asked_waits(before: str) -> None:
    desk = StructuredOutputFilter(NATIVE)
    assert fed(desk, Text(before[:1]), Text(before[1:] + ULM), STOP) == [STOP]
    assert desk.close(final=True) == [Text(ULM)]
    assert codes(desk) == ["format.trimmed"]


@pytest.mark.parametrize(
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
def test_the_schema_says_how_an_answer_begins(schema: Any, begins: str, streams: bool) -> None:
    kind: Any = "json_object" if schema is None else "json_schema"
    desk = StructuredOutputFilter(
        structs.replace(NATIVE, requested=kind, asked=kind, schema=schema)
    )
    assert bool(desk.feed(Text(begins))) is streams


# --- held back ------------------------------------------------------------------------------------


@pytest.mark.parametrize("contract", [TOLD, structs.replace(TOLD, asked="json_object"), BY_TOOL])
def test_text_waits_for_the_end_of_the_round(contract: OutputContract) -> None:
    desk = StructuredOutputFilter(contract)
    thought, usage, note = Reasoning("Hm."), Usage(output_tokens=3), Extra("x")
    deltas: Sequence[Delta] = (thought, Text(ULM[:5]), usage, ItemEnd(), note, STOP)
    assert fed(desk, *deltas) == [thought, usage, ItemEnd(), note, STOP]
    assert fed(desk, Text(ULM[5:])) == []
    assert desk.close(final=True) == [Text(ULM[:5]), Text(ULM[5:])]
    assert (desk.follow_up, codes(desk)) == (None, [])


def test_an_untouched_answer_keeps_its_probabilities_and_citations() -> None:
    desk = StructuredOutputFilter(TOLD)
    piece = Text(ULM, logprobs=({"token": "x"},))
    assert fed(desk, piece, CITE, STOP) == [STOP]
    assert desk.close(final=True) == [piece, CITE]


def test_space_around_an_answer_is_nothing_to_speak_of() -> None:
    desk = StructuredOutputFilter(TOLD)
    fed(desk, Text("\ufeff" + ULM), CITE, STOP)
    assert desk.close(final=True) == [Text(ULM), CITE]
    assert codes(desk) == ["format.trimmed"]
    quiet = StructuredOutputFilter(TOLD)
    fed(quiet, Text(f"\u00a0{ULM}"), STOP)
    assert (quiet.close(final=True), codes(quiet)) == ([Text(ULM)], [])


@pytest.mark.parametrize(
    "said",
    [
        f"```json\n{ULM}\n```",
        f"As [1] says: {ULM}",
        f"{ULM}\n{ULM}",
        r'"{\"city\": \"Ulm\"}"',
        f'{{"draft": true}} {ULM}',
    ],
)
def test_the_one_value_that_fits_is_the_answer(said: str) -> None:
    desk = StructuredOutputFilter(TOLD)
    fed(desk, Text(said), STOP)
    assert desk.close(final=True) == [Text(ULM)]
    assert (desk.follow_up, codes(desk)) == (None, ["format.trimmed"])


# --- asking once more -----------------------------------------------------------------------------


def complaint(desk: StructuredOutputFilter) -> str:
    assert desk.follow_up is not None
    assert desk.follow_up.tool_choice is None
    last = desk.follow_up.steps[-1]
    assert isinstance(last, Said | Answered)
    [part] = last.parts
    assert isinstance(part, TextPart)
    return part.text


def test_what_does_not_fit_is_asked_for_once_more_with_the_reasons() -> None:
    desk = StructuredOutputFilter(TOLD)
    fed(desk, Text(WRONG), STOP)
    assert desk.close(final=True) == []
    assert "- /city: 7 is not of type" in complaint(desk)
    assert '- /days: "two" is not of type "integer" (type)' in complaint(desk)
    assert "nothing else" in complaint(desk)
    assert desk.follow_up is not None
    assert desk.follow_up.steps[0] == Said("assistant", (TextPart(WRONG),))
    assert codes(desk) == []
    assert fed(desk, Text(ULM), STOP) == [STOP]
    assert desk.close(final=True) == [Text(ULM)]
    assert codes(desk) == ["format.repaired"]


def test_what_does_not_fit_again_is_told_as_it_is() -> None:
    desk = StructuredOutputFilter(TOLD)
    fed(desk, Text("No idea."), STOP)
    assert desk.close(final=True) == []
    fed(desk, Text("Still"), CITE, Text(" none."), STOP)
    assert desk.close(final=True) == [Text("Still"), CITE, Text(" none.")]
    assert desk.follow_up is None


def test_a_desk_that_may_not_ask_gives_up_when_it_is_closed_once_more() -> None:
    desk = StructuredOutputFilter(TOLD)
    fed(desk, Text(WRONG), STOP)
    assert desk.close(final=True) == []
    assert desk.close(final=True) == [Text(WRONG)]
    assert (desk.follow_up, codes(desk)) == (None, [])


def test_an_answer_without_a_word_leaves_nothing_to_repeat() -> None:
    desk = StructuredOutputFilter(NATIVE)
    fed(desk, STOP)
    assert desk.close(final=True) == []
    assert desk.follow_up is not None
    assert [type(step) for step in desk.follow_up.steps] == [Said]
    assert "not valid JSON" in complaint(desk)


def test_several_answers_are_none() -> None:
    desk = StructuredOutputFilter(TOLD)
    fed(desk, Text('{"city": "Ulm"} {"city": "Bonn"}'), STOP)
    assert desk.close(final=True) == []
    assert "several" in complaint(desk)


def test_the_reasons_are_few_and_short() -> None:
    desk = StructuredOutputFilter(
        structs.replace(TOLD, schema={"type": "array", "items": {"enum": ["yes"]}})
    )
    fed(desk, Text("[" + ",".join(['"' + "n" * 5000 + '"'] * 40) + "]"), STOP)
    desk.close(final=True)
    reasons = [line for line in complaint(desk).splitlines() if line.startswith("- ")]
    assert len(reasons) == 10
    assert all(len(line) < 400 and 'not one of "yes"' in line for line in reasons)


def test_a_path_is_a_json_pointer_and_the_top_has_a_name() -> None:
    schema = {"properties": {"a/b~c": {"type": "string"}}, "required": ["x"]}
    desk = StructuredOutputFilter(structs.replace(TOLD, schema=schema))
    fed(desk, Text('{"a/b~c": 1}'), STOP)
    desk.close(final=True)
    assert "- /a~1b~0c: " in complaint(desk)
    assert "- the top level: " in complaint(desk)


def test_a_loose_schema_asks_only_for_json() -> None:
    desk = StructuredOutputFilter(structs.replace(TOLD, strict=False))
    fed(desk, Text(WRONG), STOP)
    assert desk.close(final=True) == [Text(WRONG)]
    broken = StructuredOutputFilter(structs.replace(TOLD, strict=False))
    fed(broken, Text("{"), STOP)
    assert (broken.close(final=True), broken.follow_up is None) == ([], False)


def test_json_without_a_schema_is_an_object() -> None:
    desk = StructuredOutputFilter(OutputContract(requested="json_object"))
    fed(desk, Text("[1]"), STOP)
    assert desk.close(final=True) == []
    assert '[1] is not of type "object"' in complaint(desk)


# --- rounds that promise nothing ------------------------------------------------------------------


@pytest.mark.parametrize("contract", [TOLD, BY_TOOL])
def test_text_before_a_call_of_the_client_goes_before_it(contract: OutputContract) -> None:
    desk = StructuredOutputFilter(contract)
    looking = call("look", "{}")
    assert fed(desk, Text("Let me see."), looking) == [Text("Let me see."), looking]
    more: list[Delta] = [ToolCall(0, arguments="{}"), ToolEnd(0), Text("So."), Finish("tool_calls")]
    assert fed(desk, *more) == more
    assert desk.close(final=True) == []
    assert desk.follow_up is None


def test_an_item_that_the_client_has_to_answer_is_a_call() -> None:
    desk = StructuredOutputFilter(TOLD)
    shell = RawItem({"type": "shell_call"})
    assert fed(desk, Text("Wait."), shell) == [Text("Wait."), shell]
    aside = StructuredOutputFilter(TOLD)
    search = RawItem({"type": "web_search_call"})
    assert fed(aside, Text("Wait."), search) == [search]


def test_a_refusal_is_an_answer_of_its_own_kind() -> None:
    desk = StructuredOutputFilter(TOLD)
    assert fed(desk, Text("Hm."), Refusal("No."), STOP) == [Text("Hm."), Refusal("No."), STOP]
    assert (desk.close(final=True), desk.follow_up) == ([], None)


def test_a_failure_comes_after_what_was_said() -> None:
    desk = StructuredOutputFilter(TOLD)
    failure = Failure(protocol_fault("broken"))
    assert fed(desk, Text("{"), failure) == [Text("{"), failure]


@pytest.mark.parametrize("reason", ["length", "content_filter", "error", "unheard_of", None])
def test_an_answer_that_did_not_end_well_is_told_as_far_as_it_came(reason: str | None) -> None:
    desk = StructuredOutputFilter(TOLD)
    fed(desk, Text('{"city": "U'), Finish(reason))
    assert text(desk.close(final=True)) == '{"city": "U'
    by_tool = StructuredOutputFilter(BY_TOOL)
    fed(by_tool, answering('{"city": "U'), Finish(reason))
    assert text(by_tool.close(final=True)) == '{"city": "U'
    assert (desk.follow_up, by_tool.follow_up) == (None, None)


def test_the_last_reason_with_a_word_counts() -> None:
    desk = StructuredOutputFilter(TOLD)
    fed(desk, Text(WRONG), STOP, Finish(None))
    assert (desk.close(final=True), desk.follow_up is None) == ([], False)


def test_what_is_said_before_another_round_is_told_as_reasoning() -> None:
    desk = StructuredOutputFilter(TOLD)
    fed(desk, Text(" Let me search. "), Finish("tool_calls"))
    assert desk.close(final=False) == [ItemEnd(), Reasoning("Let me search.", kind="summary")]
    assert codes(desk) == ["format.commentary"]
    assert fed(desk, Text(ULM), STOP) == [STOP]
    assert desk.close(final=True) == [Text(ULM)]
    silent = StructuredOutputFilter(TOLD)
    fed(silent, STOP)
    assert (silent.close(final=False), codes(silent)) == ([], [])


# --- the answer tool ------------------------------------------------------------------------------


def test_what_the_answer_tool_is_called_with_is_the_answer() -> None:
    desk = StructuredOutputFilter(BY_TOOL)
    pieces: list[Delta] = [answering(ULM[:4]), ToolCall(0, arguments=ULM[4:]), ToolEnd(0)]
    assert fed(desk, *pieces, Finish("tool_calls")) == [Finish("tool_calls")]
    assert desk.close(final=True) == [Text(ULM)]
    assert (desk.follow_up, codes(desk)) == (None, [])


def test_a_name_may_come_in_pieces_or_again_and_again() -> None:
    desk = StructuredOutputFilter(BY_TOOL)
    pieces = [
        ToolCall(0, name="answer"),
        ToolCall(0, "call_0"),
        ToolCall(0, name="_trip"),
        ToolCall(0, name="answer_trip", arguments=ULM),
    ]
    assert fed(desk, *pieces, STOP) == [STOP]
    assert desk.close(final=True) == [Text(ULM)]


def test_a_tool_of_the_client_with_half_the_name_is_told_once_it_is_certain() -> None:
    desk = StructuredOutputFilter(BY_TOOL)
    first, second = ToolCall(0, "c", "answer"), ToolCall(0, arguments="{}")
    assert fed(desk, Text("Hm."), first) == []
    assert fed(desk, second) == [Text("Hm."), first, second]
    assert fed(desk, ToolEnd(0)) == [ToolEnd(0)]


def test_a_call_that_never_gets_a_whole_name_is_not_swallowed() -> None:
    desk = StructuredOutputFilter(BY_TOOL)
    first, second = ToolCall(0, "c", "answer"), ToolCall(1, "d", arguments="{}")
    revision = ToolRevision(1, "x")
    assert fed(desk, Text("Hm."), first, second, revision, STOP) == [STOP]
    assert desk.close(final=True) == [Text("Hm."), first, second, revision]


def test_words_beside_the_answer_are_told_as_reasoning() -> None:
    desk = StructuredOutputFilter(BY_TOOL)
    fed(desk, Text("Here it is:"), answering(ULM), STOP)
    assert desk.close(final=True) == [
        ItemEnd(),
        Reasoning("Here it is:", kind="summary"),
        Text(ULM),
    ]
    assert codes(desk) == ["format.commentary"]


def test_an_answer_in_words_is_one_although_a_tool_was_to_be_called() -> None:
    desk = StructuredOutputFilter(BY_TOOL)
    fed(desk, Text(ULM), STOP)
    assert desk.close(final=True) == [Text(ULM)]


def test_a_call_that_does_not_fit_is_answered_with_the_reasons() -> None:
    desk = StructuredOutputFilter(BY_TOOL)
    fed(desk, answering(WRONG), STOP)
    assert desk.close(final=True) == []
    assert "Call answer_trip once" in complaint(desk)
    assert desk.follow_up is not None
    called, answered = desk.follow_up.steps
    assert called == Called("call_0", "answer_trip", WRONG)
    assert isinstance(answered, Answered)
    assert (answered.call_id, answered.name) == ("call_0", "answer_trip")
    fed(desk, answering(ULM), STOP)
    assert desk.close(final=True) == [Text(ULM)]
    assert codes(desk) == ["format.repaired"]


def test_calls_that_are_no_objects_are_still_fit_for_a_history() -> None:
    desk = StructuredOutputFilter(BY_TOOL)
    fed(desk, ToolCall(0, None, "answer_trip", "{"), ToolCall(1, None, "answer_trip", "[1]"), STOP)
    assert desk.close(final=True) == []
    assert desk.follow_up is not None
    assert desk.follow_up.steps[:2] == (
        Called("call_answer_0", "answer_trip", '{"_malformed":"{"}'),
        Called("call_answer_1", "answer_trip", '{"_malformed":"[1]"}'),
    )
    assert len(desk.follow_up.steps) == 4


def test_calls_that_do_not_fit_again_are_told_as_they_are() -> None:
    desk = StructuredOutputFilter(BY_TOOL)
    fed(desk, answering(ULM), answering('{"city": "Bonn"}', 1), STOP)
    assert desk.close(final=True) == []
    fed(desk, Text("Hm."), answering(ULM), answering('{"city": "Bonn"}', 1), STOP)
    *aside, told = desk.close(final=True)
    assert aside == [ItemEnd(), Reasoning("Hm.", kind="summary")]
    assert told == Text(f'{ULM}\n{{"city": "Bonn"}}')


def test_an_answer_beside_a_call_of_the_client_is_told_as_text() -> None:
    desk = StructuredOutputFilter(BY_TOOL)
    looking = call("look", "{}", 1)
    assert fed(desk, answering(ULM), looking, STOP) == [looking, STOP]
    assert desk.close(final=True) == [Text(ULM)]
    assert desk.follow_up is None


def test_an_answer_before_another_round_is_only_a_draft() -> None:
    desk = StructuredOutputFilter(BY_TOOL)
    fed(desk, answering(ULM), STOP)
    assert desk.close(final=False) == [ItemEnd(), Reasoning(ULM, kind="summary")]


# --- answers that are no objects ------------------------------------------------------------------

NUMBERS = structs.replace(
    BY_TOOL, wrapped=True, schema={"type": "array", "items": {"type": "integer"}}
)


@pytest.mark.parametrize(
    "arguments", ['{"value": [1,  2]}', "[1,  2]", '```json\n{"value":[1,  2]}\n```']
)
def test_a_wrapped_answer_is_unwrapped_as_it_is_written(arguments: str) -> None:
    desk = StructuredOutputFilter(NUMBERS)
    fed(desk, answering(arguments), STOP)
    assert desk.close(final=True) == [Text("[1,  2]")]


def test_a_wrapper_is_no_answer_even_where_any_value_would_be() -> None:
    desk = StructuredOutputFilter(structs.replace(NUMBERS, schema={}))
    fed(desk, answering('{"value": {"value": 1}}'), STOP)
    assert desk.close(final=True) == [Text('{"value": 1}')]


@pytest.mark.parametrize("arguments", ['{"value": ["a"]}', '{"value": [1], "more": 2}', "{"])
def test_a_wrapped_answer_that_does_not_fit_is_told_wrapped(arguments: str) -> None:
    desk = StructuredOutputFilter(NUMBERS)
    fed(desk, answering(arguments), STOP)
    assert desk.close(final=True) == []
    fed(desk, answering(arguments), STOP)
    assert desk.close(final=True) == [Text(arguments)]
