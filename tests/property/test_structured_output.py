"""Strict means strict: whatever a model does, the answer fits its schema, or it fails and says so.

Every schema meets every behaviour, on every rung of the ladder, with a second answer that is right
and with one that is as wrong as the first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.filters.structured_output import StructuredOutputFilter
from antiphon.core.plan.plan import Capabilities
from antiphon.core.planning.declare_tools import Declared
from antiphon.core.planning.output_strategy import ask
from antiphon.core.stream.deltas import Delta, Finish, Refusal, Text, ToolCall
from antiphon.core.structured_output.contract import OutputContract
from antiphon.pipeline.contract import ContractStage
from antiphon.pipeline.stage import Batch
from antiphon.wire.events import Event
from tests.support.machines import documents, machine

Document = dict[str, Any]


def record(**properties: Any) -> Document:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


WORD: Document = {"type": "string"}
COUNT: Document = {"type": "integer"}
TREE: Document = record(label=WORD, children={"type": "array", "items": {"$ref": "#/$defs/tree"}})
SHAPES: Mapping[str, tuple[Document, Any, Any]] = {
    "one word": (record(city=WORD), {"city": "Ulm"}, {"city": "Bonn"}),
    "braces in a word": (record(code=WORD), {"code": "a{b}[c]```"}, {"code": '"}'}),
    "a number": (record(n=COUNT), {"n": 1}, {"n": -2}),
    "a range": (record(n={**COUNT, "minimum": 1, "maximum": 5}), {"n": 1}, {"n": 5}),
    "a fraction": (record(x={"type": "number"}), {"x": 0.5}, {"x": 1e9}),
    "a choice": (record(mood={"enum": ["good", "bad"]}), {"mood": "good"}, {"mood": "bad"}),
    "a constant": (record(v={"const": 2}, w=WORD), {"v": 2, "w": "a"}, {"v": 2, "w": "b"}),
    "a pattern": (record(day={**WORD, "pattern": "^[a-z]{3}$"}), {"day": "mon"}, {"day": "tue"}),
    "a length": (record(id={**WORD, "minLength": 3}), {"id": "abc"}, {"id": "abcd"}),
    "maybe null": (record(v={"type": ["string", "null"]}), {"v": None}, {"v": "x"}),
    "a switch": (record(on={"type": "boolean"}), {"on": True}, {"on": False}),
    "a list": (record(tags={"type": "array", "items": WORD}), {"tags": ["a"]}, {"tags": []}),
    "a full list": (
        record(tags={"type": "array", "items": COUNT, "minItems": 2}),
        {"tags": [1, 2]},
        {"tags": [3, 4, 5]},
    ),
    "a union": (record(v={"anyOf": [COUNT, record(w=WORD)]}), {"v": 1}, {"v": {"w": "x"}}),
    "one of": (
        record(v={"oneOf": [record(a=WORD), record(b=WORD)]}),
        {"v": {"a": "x"}},
        {"v": {"b": "y"}},
    ),
    "nested": (record(a=record(b=record(c=COUNT))), {"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2}}}),
    "a list of records": (
        record(rows={"type": "array", "items": record(k=WORD, v=COUNT)}),
        {"rows": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]},
        {"rows": [{"k": "c", "v": 3}]},
    ),
    "a tree": (
        {**TREE, "$defs": {"tree": TREE}},
        {"label": "a", "children": [{"label": "b", "children": []}]},
        {"label": "c", "children": []},
    ),
    "itself again": (
        record(value=WORD, next={"anyOf": [{"type": "null"}, {"$ref": "#"}]}),
        {"value": "a", "next": {"value": "b", "next": None}},
        {"value": "c", "next": None},
    ),
    "a date": (record(at={**WORD, "format": "date"}), {"at": "2026-01-02"}, {"at": "2026-02-03"}),
    "other letters": (record(näme=WORD), {"näme": "Jürgen 🎈"}, {"näme": "日本"}),
    "an array": ({"type": "array", "items": COUNT}, [1, 2], [3]),
    "an array of records": ({"type": "array", "items": record(a=WORD)}, [{"a": "x"}], []),
    "a bare choice": ({"enum": ["yes", "no"]}, "yes", "no"),
    "a bare number": ({"type": "integer"}, 42, 43),
    "a referred root": (
        {"$ref": "#/$defs/r", "$defs": {"r": record(a=WORD)}},
        {"a": "x"},
        {"a": ""},
    ),
    "a union at the top": ({"anyOf": [record(a=WORD), record(b=WORD)]}, {"a": "x"}, {"b": "y"}),
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
RUNGS: Mapping[str, Capabilities] = {
    "native": Capabilities(),
    "tool": Capabilities(formats=frozenset()),
    "json_object": Capabilities(formats=frozenset({"json_object"}), tools=False),
    "text": Capabilities(formats=frozenset(), tools=False),
}

every_shape = pytest.mark.parametrize("shape", SHAPES)
every_rung = pytest.mark.parametrize("rung", RUNGS)


def contract_of(schema: Document, rung: str) -> OutputContract:
    contract = OutputContract(requested="json_schema", name="it", schema=schema, strict=True)
    return ask(contract, "text.format", Declared(), None, RUNGS[rung]).contract


def deltas_of(contract: OutputContract, said: str, cut: int = 3) -> list[Delta]:
    """How a model says it on this rung, in pieces."""
    pieces = [said[at : at + cut] for at in range(0, len(said), cut)]
    if contract.tool is None:
        return [*map(Text, pieces), Finish("stop")]
    named = ToolCall(0, "call_1", contract.tool)
    return [named, *(ToolCall(0, arguments=piece) for piece in pieces), Finish("tool_calls")]


def in_tool(contract: OutputContract, said: str, value: Any) -> str:
    """What the tool is called with, where its arguments are a wrapper around the answer."""
    written = json.dumps(value)
    wrapped = contract.wrapped and written in said
    return said.replace(written, json.dumps({"value": value})) if wrapped else said


def told(contract: OutputContract, rounds: Sequence[Sequence[Delta]]) -> tuple[Document, int]:
    """The response that a client gets, and how many rounds it took."""
    desk, heart = StructuredOutputFilter(contract), machine(())
    stage = ContractStage(contract, provider="somebody")
    heart.start()
    taken = 0
    for deltas in rounds:
        taken += 1
        for delta in deltas:
            feed(heart.feed, desk.feed(delta))
        feed(heart.feed, desk.close(final=True))
        if desk.again is None:
            break
        heart.end_round()
        heart.next_round()
    assert desk.again is None, "it would have gone on"
    [ending] = documents(stage.on_terminal(Batch(heart.finish())).events[-1:])
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


def test_the_matrix_is_as_wide_as_promised() -> None:
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
        response, rounds = told(contract, [first, right])
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
        said = in_tool(contract, behave(value, other), value)
        response, rounds = told(contract, [deltas_of(contract, said)] * 2)
        assert_valid_or_failed(schema, response)
        if response["status"] == "failed":
            assert text_of(response) == said
            assert rung == "native" or rounds == 2


@every_shape
@every_rung
def test_a_refusal_is_passed_on(shape: str, rung: str) -> None:
    contract = contract_of(SHAPES[shape][0], rung)
    response, rounds = told(contract, [[Refusal("No."), Finish("stop")]])
    assert (response["status"], rounds) == ("completed", 1)
    [item] = response["output"]
    assert item["content"] == [{"type": "refusal", "refusal": "No."}]


@every_shape
def test_what_fits_at_once_is_never_asked_for_again(shape: str) -> None:
    schema, value, _ = SHAPES[shape]
    for rung in RUNGS:
        contract = contract_of(schema, rung)
        said = in_tool(contract, json.dumps(value), value)
        response, rounds = told(contract, [deltas_of(contract, said)])
        assert (response["status"], rounds) == ("completed", 1)
        assert json.loads(text_of(response)) == value


# --- anything at all ------------------------------------------------------------------------------

noise = st.lists(
    st.text(max_size=3)
    | st.sampled_from(["```json\n", "\n```", "{", "}", "[", "]", '"', ",", ":", "\\", "1", "true"])
    | st.sampled_from([json.dumps({"city": "Ulm"}), '{"city": ', '{"value": 1}', "[1]", "\ufeff"])
).map("".join)
shapes = st.sampled_from(sorted(SHAPES))
rungs = st.sampled_from(sorted(RUNGS))


@given(shape=shapes, rung=rungs, first=noise, second=noise)
def test_no_words_of_a_model_are_told_as_an_answer_that_they_are_not(
    shape: str, rung: str, first: str, second: str
) -> None:
    schema = SHAPES[shape][0]
    contract = contract_of(schema, rung)
    response, _ = told(contract, [deltas_of(contract, first), deltas_of(contract, second)])
    assert_valid_or_failed(schema, response)


@given(rung=rungs, said=noise, cut=st.integers(1, 20))
def test_the_cuts_of_a_stream_change_nothing(rung: str, said: str, cut: int) -> None:
    contract = contract_of(SHAPES["one word"][0], rung)
    one = told(contract, [deltas_of(contract, said, cut)] * 2)
    other = told(contract, [deltas_of(contract, said, len(said) or 1)] * 2)
    assert (text_of(one[0]), one[0]["status"], one[1]) == (
        (text_of(other[0]), other[0]["status"], other[1])
    )


@given(before=noise, after=noise)
def test_an_answer_is_told_as_it_was_written(before: str, after: str) -> None:
    schema = SHAPES["one word"][0]
    contract = contract_of(schema, "text")
    written = '{ "city":"\\u0055lm" }'
    said = deltas_of(contract, f"{before}{written}{after}")
    response, _ = told(contract, [said, said])
    text = text_of(response)
    assert response["status"] == "failed" or "\\u" not in text or text.strip() == written
