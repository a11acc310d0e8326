"""Calls whose arguments come in pieces, each with the path it belongs to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.stream.deltas import Delta, ReasoningState, ToolCall, ToolEnd
from antiphon.dialects.gemini.tool_calls import ArgumentWriter, CallReader

Document = dict[str, Any]


def read(*calls: Document) -> list[Delta]:
    reader = CallReader()
    return [delta for call in calls for delta in reader.feed(call)] + list(reader.close())


def piece(path: str, value: Any = None, *, more: bool = False) -> Document:
    kinds = {str: "stringValue", bool: "boolValue", int: "numberValue", float: "numberValue"}
    entry: Document = {"jsonPath": path, kinds.get(type(value), "nullValue"): value}
    return {**entry, "willContinue": True} if more else entry


def going_on(*pieces: Document, **more: Any) -> Document:
    return {"partialArgs": list(pieces), "willContinue": True, **more}


def arguments(deltas: list[Delta]) -> Any:
    texts = [delta.arguments for delta in deltas if isinstance(delta, ToolCall)]
    return json.loads("".join(texts))


def test_arguments_are_written_as_they_come() -> None:
    deltas = read(
        {"name": "f", "id": "x", "willContinue": True},
        going_on(piece("$.brightness", 50)),
        going_on(piece("$.colour", "wa", more=True)),
        going_on(piece("$.colour", 'r"m', more=True)),
        going_on(piece("$.colour", "")),
        {},
    )
    assert deltas == [
        ToolCall(0, "x", "f"),
        ToolCall(0, arguments='{"brightness":50'),
        ToolCall(0, arguments=',"colour":"wa'),
        ToolCall(0, arguments='r\\"m'),
        ToolCall(0, arguments='"'),
        ToolCall(0, arguments="}"),
        ToolEnd(0),
    ]


def test_the_signature_stands_before_the_call_and_the_first_pieces_come_with_its_name() -> None:
    call = going_on(piece("$.a", True), name="f")
    assert list(CallReader().feed(call, "s")) == [
        ReasoningState("gemini.thought_signature", "s", "tool"),
        ToolCall(0, None, "f"),
        ToolCall(0, arguments='{"a":true'),
    ]


def test_a_call_ends_with_the_piece_that_says_so() -> None:
    deltas = read({"name": "f", "partialArgs": [piece("$.a", None)]}, {})
    assert deltas[1:] == [
        ToolCall(0, arguments='{"a":null'),
        ToolCall(0, arguments="}"),
        ToolEnd(0),
    ]


def test_a_call_without_any_pieces_has_no_arguments() -> None:
    assert arguments(read({"name": "f", "willContinue": True}, {})) == {}


def test_the_next_name_ends_a_call_that_is_open() -> None:
    deltas = read(going_on(piece("$.a", "x", more=True), name="f"), {"name": "g"})
    assert deltas[2:] == [
        ToolCall(0, arguments='"}'),
        ToolEnd(0),
        ToolCall(1, None, "g", "{}"),
        ToolEnd(1),
    ]


def test_a_name_that_comes_again_with_its_id_goes_on_with_the_call() -> None:
    deltas = read(
        going_on(piece("$.a", 1), name="f", id="x"), going_on(piece("$.b", 2), name="f", id="x"), {}
    )
    assert arguments(deltas) == {"a": 1, "b": 2}
    assert [delta for delta in deltas if isinstance(delta, ToolEnd)] == [ToolEnd(0)]


def test_a_call_that_is_open_at_the_end_was_cut() -> None:
    assert read(going_on(name="f"))[-1] == ToolEnd(0, complete=False)


def test_containers_are_opened_and_closed_on_the_way() -> None:
    deltas = read(
        going_on(name="f"),
        going_on(piece("$.box.size[0]", 1), piece("$.box.size[1]", 2.5)),
        going_on(piece("$.box.name", "b")),
        going_on(piece("$.list[0].x", True), piece("$.list[0].y", "y"), piece("$.list[1].x", None)),
        going_on(piece("$['a.b']", "q"), piece('$["c\\"d"]', "r"), piece("$['']", "s")),
        {},
    )
    assert arguments(deltas) == {
        "box": {"size": [1, 2.5], "name": "b"},
        "list": [{"x": True, "y": "y"}, {"x": None}],
        "a.b": "q",
        'c"d': "r",
        "": "s",
    }


@pytest.mark.parametrize(
    "pieces",
    [
        [piece("$.a", 1), piece("$.a", 2)],
        [piece("$.a.b", 1), piece("$.c", 2), piece("$.a.d", 3)],
        [piece("$.a[1]", 1)],
        [piece("$.a[0]", 1), piece("$.a[999999999]", 1)],
        [piece("$.a.b", 1), piece("$.a[0]", 1)],
        [piece("$.a[0]", 1), piece("$.a.b", 1)],
        [piece("$.a", 1), piece("$.a.b", 1)],
        [piece("$[0]", 1)],
        [piece("$", 1)],
        [piece("a", 1)],
        [piece("$.a[", 1)],
        [piece("$..a", 1)],
        [piece("$.a[-1]", 1)],
        [{"jsonPath": "$.a"}],
        [{"jsonPath": "$.a", "numberValue": "1"}],
        [{"jsonPath": 5, "numberValue": 1}],
        [{}],
        ["odd"],
    ],
)
def test_a_call_with_a_piece_that_has_no_place_is_cut(pieces: list[Any]) -> None:
    deltas = read(going_on(*pieces, name="f"), going_on(piece("$.z", 1)), {})
    assert deltas[-1] == ToolEnd(0, complete=False)
    texts = "".join(delta.arguments for delta in deltas if isinstance(delta, ToolCall))
    assert not texts.endswith("}")


def test_a_string_that_goes_on_without_a_text_only_goes_on() -> None:
    writer = ArgumentWriter()
    assert writer.feed(piece("$.a", "x", more=True)) == '{"a":"x'
    assert writer.feed({"jsonPath": "$.a", "willContinue": True}) == ""
    assert writer.feed({"jsonPath": "$.a"}) == '"'
    assert writer.close() == "}"


def test_pieces_that_are_no_list_say_nothing() -> None:
    assert arguments(read({"name": "f", "partialArgs": "odd"})) == {}


# --- anything that a model might write ------------------------------------------------------------

keys = st.text(max_size=4)
leaves = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(keys, inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


def quoted(key: str) -> str:
    escaped = key.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"


def pieces_of(value: Any, path: str, cut: int) -> list[Document]:
    """The pieces of a value, its strings in pieces of a given length."""
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in pieces_of(v, path + quoted(k), cut)]
    if isinstance(value, list):
        return [p for n, v in enumerate(value) for p in pieces_of(v, f"{path}[{n}]", cut)]
    if not isinstance(value, str):
        return [piece(path, value)]
    texts = [value[place : place + cut] for place in range(0, len(value), cut)] or [""]
    return [piece(path, each, more=True) for each in texts[:-1]] + [piece(path, texts[-1])]


@given(st.dictionaries(keys, values, max_size=4), st.integers(1, 4))
def test_whatever_comes_in_pieces_is_put_together(value: Document, cut: int) -> None:
    writer = ArgumentWriter()
    texts = [writer.feed(each) for each in pieces_of(value, "$", cut)]
    assert None not in texts
    assert json.loads("".join(filter(None, texts)) + writer.close()) == value
