"""Gemini calls with streamed arguments: values with their JSON paths."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.deltas import Delta, ReasoningState, ToolCall, ToolEnd
from antiphon.dialects.gemini.tool_calls import ArgumentWriter, CallReader
from tests.support.tables import table

Document = dict[str, Any]


def read(*calls: Document) -> list[Delta]:
    reader = CallReader()
    return [delta for call in calls for delta in reader.feed(call)] + list(reader.close())


def piece(path: str, value: Any = None, *, more: bool = False) -> Document:
    kinds = {str: "stringValue", bool: "boolValue", int: "numberValue", float: "numberValue"}
    entry: Document = {"jsonPath": path, kinds.get(type(value), "nullValue"): value}
    return {**entry, "willContinue": True} if more else entry


def partial_call(*pieces: Document, **more: Any) -> Document:
    return {"partialArgs": list(pieces), "willContinue": True, **more}


def arguments(deltas: list[Delta]) -> Any:
    texts = [delta.arguments for delta in deltas if isinstance(delta, ToolCall)]
    return json.loads("".join(texts))


def test_streamed_arguments_are_written_as_they_arrive() -> None:
    deltas = read(
        {"name": "f", "id": "x", "willContinue": True},
        partial_call(piece("$.brightness", 50)),
        partial_call(piece("$.colour", "wa", more=True)),
        partial_call(piece("$.colour", 'r"m', more=True)),
        partial_call(piece("$.colour", "")),
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


def test_a_signature_precedes_a_call_whose_first_object_has_arguments() -> None:
    call = partial_call(piece("$.a", True), name="f")
    assert list(CallReader().feed(call, "s")) == [
        ReasoningState("gemini.thought_signature", "s", "tool"),
        ToolCall(0, None, "f"),
        ToolCall(0, arguments='{"a":true'),
    ]


def test_a_call_ends_with_an_object_without_will_continue() -> None:
    deltas = read({"name": "f", "partialArgs": [piece("$.a", None)]}, {})
    assert deltas[1:] == [
        ToolCall(0, arguments='{"a":null'),
        ToolCall(0, arguments="}"),
        ToolEnd(0),
    ]


def test_a_streamed_call_without_arguments_has_an_empty_object() -> None:
    assert arguments(read({"name": "f", "willContinue": True}, {})) == {}


def test_the_next_name_ends_the_open_call() -> None:
    deltas = read(partial_call(piece("$.a", "x", more=True), name="f"), {"name": "g"})
    assert deltas[2:] == [
        ToolCall(0, arguments='"}'),
        ToolEnd(0),
        ToolCall(1, None, "g", "{}"),
        ToolEnd(1),
    ]


def test_a_repeated_name_and_id_continue_the_call() -> None:
    deltas = read(
        partial_call(piece("$.a", 1), name="f", id="x"),
        partial_call(piece("$.b", 2), name="f", id="x"),
        {},
    )
    assert arguments(deltas) == {"a": 1, "b": 2}
    assert [delta for delta in deltas if isinstance(delta, ToolEnd)] == [ToolEnd(0)]


def test_a_call_still_open_at_the_end_is_incomplete() -> None:
    assert read(partial_call(name="f"))[-1] == ToolEnd(0, complete=False)


def test_containers_are_opened_and_closed_as_paths_require() -> None:
    deltas = read(
        partial_call(name="f"),
        partial_call(piece("$.box.size[0]", 1), piece("$.box.size[1]", 2.5)),
        partial_call(piece("$.box.name", "b")),
        partial_call(
            piece("$.list[0].x", True), piece("$.list[0].y", "y"), piece("$.list[1].x", None)
        ),
        partial_call(piece("$['a.b']", "q"), piece('$["c\\"d"]', "r"), piece("$['']", "s")),
        {},
    )
    assert arguments(deltas) == {
        "box": {"size": [1, 2.5], "name": "b"},
        "list": [{"x": True, "y": "y"}, {"x": None}],
        "a.b": "q",
        'c"d': "r",
        "": "s",
    }


@table(
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
def test_a_call_with_an_unwritable_argument_is_incomplete(pieces: list[Any]) -> None:
    deltas = read(partial_call(*pieces, name="f"), partial_call(piece("$.z", 1)), {})
    assert deltas[-1] == ToolEnd(0, complete=False)
    texts = "".join(delta.arguments for delta in deltas if isinstance(delta, ToolCall))
    assert not texts.endswith("}")


def test_a_string_continued_without_text_is_unchanged() -> None:
    writer = ArgumentWriter()
    assert writer.feed(piece("$.a", "x", more=True)) == '{"a":"x'
    assert writer.feed({"jsonPath": "$.a", "willContinue": True}) == ""
    assert writer.feed({"jsonPath": "$.a"}) == '"'
    assert writer.close() == "}"


def test_partial_args_that_are_not_a_list_are_ignored() -> None:
    assert arguments(read({"name": "f", "partialArgs": "odd"})) == {}


# --- any arguments --------------------------------------------------------------------------------

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
    texts = [value[offset : offset + cut] for offset in range(0, len(value), cut)] or [""]
    return [piece(path, each, more=True) for each in texts[:-1]] + [piece(path, texts[-1])]


@given(st.dictionaries(keys, values, max_size=4), st.integers(1, 4))
def test_any_arguments_streamed_in_pieces_are_reassembled(value: Document, cut: int) -> None:
    writer = ArgumentWriter()
    texts = [writer.feed(each) for each in pieces_of(value, "$", cut)]
    assert None not in texts
    assert json.loads("".join(filter(None, texts)) + writer.close()) == value
