"""With a strict schema, a completed answer is valid, whatever the model sends; others fail.

Every schema meets every behaviour, on every rung of the ladder, with a second answer that is right
and with one that is as wrong as the first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.capabilities import Capabilities
from antiphon.core.deltas import Delta, Finish, Refusal, Text, ToolCall
from antiphon.core.events import Event
from antiphon.core.plan.declare_tools import DeclaredTools
from antiphon.core.plan.output_strategy import choose_output_strategy
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.structured_output.filter import StructuredOutputFilter
from antiphon.stages.builtin import ContractStage
from antiphon.stages.pipeline import Batch
from tests.support.filters import DrivenFilter
from tests.support.machines import documents, machine
from tests.support.tables import table

Document = dict[str, Any]


def record(**properties: Any) -> Document:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


STRING: Document = {"type": "string"}
COUNT: Document = {"type": "integer"}
TREE: Document = record(label=STRING, children={"type": "array", "items": {"$ref": "#/$defs/tree"}})
SHAPES: Mapping[str, tuple[Document, Any, Any]] = {
    "one word": (record(city=STRING), {"city": "Ulm"}, {"city": "Bonn"}),
    "braces in a word": (record(code=STRING), {"code": "a{b}[c]```"}, {"code": '"}'}),
    "a number": (record(n=COUNT), {"n": 1}, {"n": -2}),
    "a range": (record(n={**COUNT, "minimum": 1, "maximum": 5}), {"n": 1}, {"n": 5}),
    "a fraction": (record(x={"type": "number"}), {"x": 0.5}, {"x": 1e9}),
    "a choice": (record(mood={"enum": ["good", "bad"]}), {"mood": "good"}, {"mood": "bad"}),
    "a constant": (record(v={"const": 2}, w=STRING), {"v": 2, "w": "a"}, {"v": 2, "w": "b"}),
    "a pattern": (record(day={**STRING, "pattern": "^[a-z]{3}$"}), {"day": "mon"}, {"day": "tue"}),
    "a length": (record(id={**STRING, "minLength": 3}), {"id": "abc"}, {"id": "abcd"}),
    "maybe null": (record(v={"type": ["string", "null"]}), {"v": None}, {"v": "x"}),
    "a switch": (record(on={"type": "boolean"}), {"on": True}, {"on": False}),
    "a list": (record(tags={"type": "array", "items": STRING}), {"tags": ["a"]}, {"tags": []}),
    "a full list": (
        record(tags={"type": "array", "items": COUNT, "minItems": 2}),
        {"tags": [1, 2]},
        {"tags": [3, 4, 5]},
    ),
    "a union": (record(v={"anyOf": [COUNT, record(w=STRING)]}), {"v": 1}, {"v": {"w": "x"}}),
    "one of": (
        record(v={"oneOf": [record(a=STRING), record(b=STRING)]}),
        {"v": {"a": "x"}},
        {"v": {"b": "y"}},
    ),
    "nested": (record(a=record(b=record(c=COUNT))), {"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2}}}),
    "a list of records": (
        record(rows={"type": "array", "items": record(k=STRING, v=COUNT)}),
        {"rows": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]},
        {"rows": [{"k": "c", "v": 3}]},
    ),
    "a tree": (
        {**TREE, "$defs": {"tree": TREE}},
        {"label": "a", "children": [{"label": "b", "children": []}]},
        {"label": "c", "children": []},
    ),
    "itself again": (
        record(value=STRING, next={"anyOf": [{"type": "null"}, {"$ref": "#"}]}),
        {"value": "a", "next": {"value": "b", "next": None}},
        {"value": "c", "next": None},
    ),
    "a date": (record(at={**STRING, "format": "date"}), {"at": "2026-01-02"}, {"at": "2026-02-03"}),
    "other letters": (record(näme=STRING), {"näme": "Jürgen 🎈"}, {"näme": "日本"}),
    "an array": ({"type": "array", "items": COUNT}, [1, 2], [3]),
    "an array of records": ({"type": "array", "items": record(a=STRING)}, [{"a": "x"}], []),
    "a bare choice": ({"enum": ["yes", "no"]}, "yes", "no"),
    "a bare number": ({"type": "integer"}, 42, 43),
    "a referred root": (
        {"$ref": "#/$defs/r", "$defs": {"r": record(a=STRING)}},
        {"a": "x"},
        {"a": ""},
    ),
    "a union at the top": ({"anyOf": [record(a=STRING), record(b=STRING)]}, {"a": "x"}, {"b": "y"}),
}


def lacking(value: Any) -> Any:
    """Without its first member."""
    if isinstance(value, dict):
        return dict([*value.items()][1:])
    return value[1:] if isinstance(value, list | str) else None


BEHAVIOURS: Mapping[str, Callable[[Any, Any], str]] = {
    "clean": lambda value, other: json.dumps(value),
    "spread out": lambda value, other: f"\n{json.dumps(value, indent=2, ensure_ascii=False)}\n",
    "fenced": lambda value, other: f"```json\n{json.dumps(value)}\n```",
    "with prose": lambda value, other: f"Sure! Here:\n{json.dumps(value)}\nMore?",
    "a wrong choice": lambda value, other: json.dumps(value).replace("good", "medium") + " ?",
    "truncated": lambda value, other: json.dumps(value)[:-1],
    "truncated early": lambda value, other: json.dumps(value)[: len(json.dumps(value)) // 2],
    "an extra key": lambda value, other: json.dumps(
        {**value, "extra": 1} if isinstance(value, dict) else {"extra": value}
    ),
    "another type": lambda value, other: json.dumps([[value]]),
    "nothing": lambda value, other: "",
    "a string of JSON": lambda value, other: json.dumps(json.dumps(value)),
    "two values": lambda value, other: f"{json.dumps(value)}\n{json.dumps(other)}",
    "a missing key": lambda value, other: json.dumps(lacking(value)),
    "prose alone": lambda value, other: "I cannot say {that} in [JSON].",
}
EFFORTS: Mapping[str, Capabilities] = {
    "native": Capabilities(),
    "tool": Capabilities(formats=frozenset()),
    "json_object": Capabilities(formats=frozenset({"json_object"}), tools=False),
    "text": Capabilities(formats=frozenset(), tools=False),
}

every_shape = table("shape", SHAPES)
every_rung = table("rung", EFFORTS)


def contract_of(schema: Document, rung: str) -> OutputContract:
    contract = OutputContract(requested="json_schema", name="it", schema=schema, strict=True)
    return choose_output_strategy(
        contract, "text.format", DeclaredTools(), None, EFFORTS[rung], []
    ).contract


def deltas_of(contract: OutputContract, text: str, cut: int = 3) -> list[Delta]:
    """The deltas of an answer with this strategy, in pieces."""
    pieces = [text[at : at + cut] for at in range(0, len(text), cut)]
    if contract.tool is None:
        return [*map(Text, pieces), Finish("stop")]
    named = ToolCall(0, "call_1", contract.tool)
    return [named, *(ToolCall(0, arguments=piece) for piece in pieces), Finish("tool_calls")]


def in_tool(contract: OutputContract, text: str, value: Any) -> str:
    """The arguments of the answer tool, which wrap the answer."""
    written = json.dumps(value)
    wrapped = contract.wrapped and written in text
    return text.replace(written, json.dumps({"value": value})) if wrapped else text


def run_rounds(contract: OutputContract, rounds: Sequence[Sequence[Delta]]) -> tuple[Document, int]:
    """The response that a client gets, and how many rounds it took."""
    subject, subject_machine = DrivenFilter(StructuredOutputFilter(contract)), machine(())
    setup = ContractStage(contract, provider="somebody")
    subject_machine.start()
    taken = 0
    for deltas in rounds:
        taken += 1
        for delta in deltas:
            feed(subject_machine.feed, subject.feed(delta))
        feed(subject_machine.feed, subject.close(final=True))
        if subject.follow_up is None:
            break
        subject_machine.end_round()
        subject_machine.next_round()
    assert subject.follow_up is None, "it would have gone on"
    [ending] = documents(setup.on_terminal(Batch(subject_machine.finish())).events[-1:])
    response: Document = ending["response"]
    return response, taken


def feed(take: Callable[[Delta], list[Event]], deltas: Sequence[Delta]) -> None:
    for delta in deltas:
        take(delta)


def text_of(response: Document) -> str:
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "".join(part["text"] for item in messages for part in item["content"])


def is_valid(schema: Document, text: str) -> bool:
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return jsonschema_rs.validator_for(schema).is_valid(value)


def assert_valid_or_failed(schema: Document, response: Document) -> None:
    if response["status"] == "completed":
        assert is_valid(schema, text_of(response)), text_of(response)
    else:
        assert response["status"] == "failed"
        assert response["error"]["code"] == "server_error"
        assert "output" in response["error"]["message"]


def test_the_matrix_has_enough_shapes_and_behaviours() -> None:
    assert len(SHAPES) >= 20
    assert len(BEHAVIOURS) >= 12
    for schema, value, other in SHAPES.values():
        assert is_valid(schema, json.dumps(value))
        assert is_valid(schema, json.dumps(other))
        assert value != other


@every_shape
@every_rung
def test_an_answer_is_valid_after_at_most_one_repair(shape: str, rung: str) -> None:
    schema, value, other = SHAPES[shape]
    contract = contract_of(schema, rung)
    right = deltas_of(contract, in_tool(contract, json.dumps(value), value))
    for behave in BEHAVIOURS.values():
        first = deltas_of(contract, in_tool(contract, behave(value, other), value))
        response, rounds = run_rounds(contract, [first, right])
        assert_valid_or_failed(schema, response)
        assert rounds <= 2
        if rung != "native":  # where text has streamed already, nothing can be taken back
            assert response["status"] == "completed"


@every_shape
@every_rung
def test_an_answer_that_stays_wrong_fails_and_is_not_lost(shape: str, rung: str) -> None:
    schema, value, other = SHAPES[shape]
    contract = contract_of(schema, rung)
    for behave in BEHAVIOURS.values():
        text = in_tool(contract, behave(value, other), value)
        response, rounds = run_rounds(contract, [deltas_of(contract, text)] * 2)
        assert_valid_or_failed(schema, response)
        if response["status"] == "failed":
            assert text_of(response) == text
            assert rung == "native" or rounds == 2


@every_shape
@every_rung
def test_a_refusal_is_passed_on(shape: str, rung: str) -> None:
    contract = contract_of(SHAPES[shape][0], rung)
    response, rounds = run_rounds(contract, [[Refusal("No."), Finish("stop")]])
    assert (response["status"], rounds) == ("completed", 1)
    [item] = response["output"]
    assert item["content"] == [{"type": "refusal", "refusal": "No."}]


@every_shape
def test_a_valid_answer_is_never_asked_for_again(shape: str) -> None:
    schema, value, _ = SHAPES[shape]
    for rung in EFFORTS:
        contract = contract_of(schema, rung)
        text = in_tool(contract, json.dumps(value), value)
        response, rounds = run_rounds(contract, [deltas_of(contract, text)])
        assert (response["status"], rounds) == ("completed", 1)
        assert json.loads(text_of(response)) == value


# --- anything at all ------------------------------------------------------------------------------

noise = st.lists(
    st.text(max_size=3)
    | st.sampled_from(["```json\n", "\n```", "{", "}", "[", "]", '"', ",", ":", "\\", "1", "true"])
    | st.sampled_from([json.dumps({"city": "Ulm"}), '{"city": ', '{"value": 1}', "[1]", "\ufeff"])
).map("".join)
shapes = st.sampled_from(sorted(SHAPES))
rungs = st.sampled_from(sorted(EFFORTS))


@given(shape=shapes, rung=rungs, first=noise, second=noise)
def test_no_invalid_text_is_sent_as_a_completed_answer(
    shape: str, rung: str, first: str, second: str
) -> None:
    schema = SHAPES[shape][0]
    contract = contract_of(schema, rung)
    response, _ = run_rounds(contract, [deltas_of(contract, first), deltas_of(contract, second)])
    assert_valid_or_failed(schema, response)


@given(rung=rungs, text=noise, cut=st.integers(1, 20))
def test_chunk_boundaries_make_no_difference(rung: str, text: str, cut: int) -> None:
    contract = contract_of(SHAPES["one word"][0], rung)
    one = run_rounds(contract, [deltas_of(contract, text, cut)] * 2)
    other = run_rounds(contract, [deltas_of(contract, text, len(text) or 1)] * 2)
    assert (text_of(one[0]), one[0]["status"], one[1]) == (
        (text_of(other[0]), other[0]["status"], other[1])
    )


@given(before=noise, after=noise)
def test_an_answer_is_sent_as_it_was_written(before: str, after: str) -> None:
    schema = SHAPES["one word"][0]
    contract = contract_of(schema, "text")
    written = '{ "city":"\\u0055lm" }'
    deltas = deltas_of(contract, f"{before}{written}{after}")
    response, _ = run_rounds(contract, [deltas, deltas])
    text = text_of(response)
    assert response["status"] == "failed" or "\\u" not in text or text.strip() == written
