"""Calls in the text become calls; whatever is not quite one stays text, to the last character."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.deltas import (
    Annotation,
    Delta,
    Extra,
    Failure,
    Finish,
    Reasoning,
    Text,
    ToolCall,
    Usage,
)
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.filters.markup import make_markup_filters
from antiphon.core.items import FunctionCall
from tests.support.dialect_samples.leaked_markup import (
    CALL_GUARDS,
    JSON_FORMS,
    TAG_FORMS,
    Writer,
    calls_of,
    read,
    stream,
    text_of,
)
from tests.support.machines import machine
from tests.support.tables import table

ARGUMENTS: dict[str, Any] = {
    "path": 'a <b> \\ "c" é😀\n</tool_call>\n[x]{y}',
    "count": 3,
    "deep": {"list": [1, None, True], "text": "}"},
    "empty": "",
}


def feed_all(names: list[str], *deltas: Delta) -> list[Delta]:
    return stream(make_markup_filters(names), deltas)


@table(("guard", "write"), [*JSON_FORMS, *TAG_FORMS])
@table("arguments", [ARGUMENTS, {}], ids=["some", "none"])
@table("others", [False, True], ids=["alone", "among all guards"])
def test_a_call_in_the_text_becomes_a_call_at_any_cut(
    guard: str, write: Writer, arguments: dict[str, Any], others: bool
) -> None:
    text = f"I look.\n{write('read_file', arguments)}\nDone <now> [x]."
    for fragments in ([text], list(text)):
        deltas = read(CALL_GUARDS if others else [guard], fragments)
        assert calls_of(deltas) == [("read_file", arguments)]
        assert text_of(deltas) == "I look.\n\nDone <now> [x]."


@table(("guard", "write"), [*JSON_FORMS, *TAG_FORMS])
def test_calls_may_follow_one_another(guard: str, write: Writer) -> None:
    text = write("f", {"a": 1}) + "\n" + write("g", {}) + write("f", {"a": 1})
    deltas = read([guard], [text])
    assert calls_of(deltas) == [("f", {"a": 1}), ("g", {}), ("f", {"a": 1})]
    assert text_of(deltas) == "\n"


@table(("guard", "write"), [*JSON_FORMS, *TAG_FORMS])
def test_a_block_that_is_cut_off_is_text(guard: str, write: Writer) -> None:
    whole = write("f", {"a": [1, "x"], "b": "y"})
    for size in range(1, len(whole)):
        assert read([guard], [whole[:size]]) == [Text(whole[:size])]


GOOD = '<tool_call>{"name": "f"}</tool_call>'


@pytest.mark.parametrize(
    "broken",
    [
        "<tool_call>",
        "<tool_call>x",
        '<tool_call>{"name": "f", "arguments": {"a": 1}\n</tool_call>\n',
        '<tool_call>{"name": "f", ',
        "<function=f>",
    ],
)
def test_a_broken_block_does_not_hide_the_next_one(broken: str) -> None:
    for fragments in ([broken + GOOD], list(broken + GOOD)):
        deltas = read(CALL_GUARDS, fragments)
        assert (calls_of(deltas), text_of(deltas)) == ([("f", {})], broken)


def test_text_is_held_only_while_it_may_be_a_block() -> None:
    [guard] = make_markup_filters(["hermes", "mistral"])
    plain = Text("a > b", logprobs=[{"token": "a > b"}])
    assert guard.feed(plain) == [plain]
    assert guard.feed(Text("a <b> [c] <tool")) == [Text("a <b> [c] ")]
    assert guard.feed(Text("box>")) == [Text("<toolbox>")]
    assert guard.feed(Text("x<tool_call> ")) == [Text("x")]
    assert guard.feed(Text("is a tag [")) == [Text("<tool_call> is a tag ")]
    assert guard.feed(Text("TOO")) == []
    assert guard.close(final=True).deltas == [Text("[TOO")]


def test_held_back_text_is_sent_before_the_next_delta() -> None:
    half = '<tool_call>{"name": '
    assert feed_all(["hermes"], Text(half), Text('"f"'), Reasoning("a"), Text("}</tool_call>")) == [
        Text(f'{half}"f"'),
        Reasoning("a"),
        Text("}</tool_call>"),
    ]
    assert feed_all(["hermes"], Text("a<"), Annotation({}), Text("tool_call>")) == [
        Text("a"),
        Text("<"),
        Annotation({}),
        Text("tool_call>"),
    ]


def test_token_counts_do_not_end_a_block() -> None:
    deltas = feed_all(
        ["hermes"], Text(GOOD[:9]), Usage(1), Text(GOOD[9:]), Usage(2), Finish("stop")
    )
    assert deltas == [
        Usage(1),
        Usage(2),
        ToolCall(0, name="f", arguments="{}"),
        Finish("stop"),
    ]


def test_calls_come_after_those_of_the_server_and_before_the_end() -> None:
    server_calls = ToolCall(1, "x", "g", "{}")
    failure = Failure(protocol_fault("no"))
    for end in (Finish("stop"), failure):
        assert feed_all(["hermes"], Text(GOOD), server_calls, Text(" a"), end) == [
            server_calls,
            Text(" a"),
            ToolCall(2, name="f", arguments="{}"),
            end,
        ]


def test_a_call_after_the_finish_reason_is_sent_at_the_end() -> None:
    deltas = feed_all(["hermes"], Text(GOOD), Finish("stop"), Text(GOOD))
    assert [delta.index for delta in deltas if isinstance(delta, ToolCall)] == [0, 1]


def test_a_call_that_the_server_sent_as_well_is_sent_once() -> None:
    leaked = Text('<tool_call>{"name": "f", "arguments": {"a": 1, "b": "é"}}</tool_call>')
    server_calls: list[Delta] = [
        ToolCall(0, "x", "f", '{"b":"\\u00e9",'),
        ToolCall(0, None, None, '"a":1}'),
    ]
    for deltas in ([leaked, *server_calls], [*server_calls, leaked]):
        assert feed_all(["hermes"], *deltas) == [*server_calls, Extra("duplicate_call", "f")]
    twice = feed_all(["hermes"], leaked, *server_calls, leaked)
    assert calls_of(twice[-1:]) == [("f", {"a": 1, "b": "é"})]


def test_a_call_of_the_server_that_cannot_be_read_is_another_call() -> None:
    server_calls = ToolCall(0, "x", "f", "{")
    assert feed_all(["hermes"], server_calls, Text(GOOD)) == [
        server_calls,
        ToolCall(1, name="f", arguments="{}"),
    ]


def test_log_probabilities_of_a_block_are_dropped() -> None:
    tokens = [{"token": part} for part in ("a", GOOD, "b")]
    assert feed_all(["hermes"], Text(f"a{GOOD}b", logprobs=tokens))[:2] == [
        Text("a", (tokens[0],)),
        Text("b", (tokens[2],)),
    ]


def test_an_answer_that_stopped_completes_with_the_call_it_leaked() -> None:
    block = json.dumps({"name": "get_weather", "arguments": {"city": "Oslo"}})
    deltas = feed_all(["hermes"], Text(f"<tool_call>{block}</tool_call>"), Finish("stop"))
    subject = machine()
    subject.start()
    for delta in deltas:
        subject.feed(delta)
    subject.finish()
    [item] = subject.snapshot.output
    assert subject.snapshot.status == "completed"
    assert isinstance(item, FunctionCall)
    assert (item.name, item.status) == ("get_weather", "completed")
    assert json.loads(item.arguments) == {"city": "Oslo"}
