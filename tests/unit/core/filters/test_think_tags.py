"""Tagged reasoning becomes reasoning, at the beginning of the text and nowhere else."""

from __future__ import annotations

from antiphon.core.deltas import Delta, Extra, Finish, Reasoning, Refusal, Text, ToolCall, Usage
from antiphon.core.filters.think_tags import ThinkTagFilter
from tests.support.dialect_samples.leaked_markup import read, reasoning_of, stream, text_of
from tests.support.tables import table


def feed_all(*deltas: Delta, opened: bool = False) -> list[Delta]:
    return stream([ThinkTagFilter(opened=opened)], deltas)


@table(
    ("text", "reasoning", "answer"),
    [
        ("<think>a</think>b", "a", "b"),
        ("<thinking>a</thinking>b", "a", "b"),
        ("<reasoning>a</reasoning>b", "a", "b"),
        ("<mm:think>a</mm:think>b", "a", "b"),
        # Magistral: RooCodeInc/Roo-Code issue 8522, ggml-org/llama.cpp issue 16158
        ("[THINK]a[1] </THINK>[/THIN[/THINK]b", "a[1] </THINK>[/THIN", "b"),
        ("[THINK]a</think>", "a</think>", ""),
        ("[THI", "", "[THI"),
        ("[THOUGHT]a", "", "[THOUGHT]a"),
        ("[1, 2] [THINK]", "", "[1, 2] [THINK]"),
        ("\n <think>\na\n</think>\n\nb", "\n \na\n\n\n", "b"),
        ("<think>a</think>\n\n    b\n", "a\n\n", "    b\n"),
        ("<think>a</think> b", "a", " b"),
        ("<think></think>b", "", "b"),
        ("<think>a", "a", ""),
        ("<think>a</think>\n\n", "a\n\n", ""),
        ("<think>a</think>  ", "a  ", ""),
        ("<think>a</think", "a</think", ""),
        ("<reasoning>a</reasoning><reasoning>b</reasoning>c", "ab", "c"),
        ("<think>a</think>\n <think>b</think>\nc", "a\n b\n", "c"),
        ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
        ("<think>a<think>b</think>c", "a<think>b", "c"),
        ("<think>a</thinking>b</think>c", "a</thinking>b", "c"),
        ("<mm:think>a</think>b</mm:think>c", "a</think>b", "c"),
        ("a<think>b</think>", "", "a<think>b</think>"),
        ("a</think>b", "", "a</think>b"),
        ("</think>b", "", "</think>b"),
        ("<thinker>a", "", "<thinker>a"),
        ("<a:b:think>c", "", "<a:b:think>c"),
        ("<think >a", "", "<think >a"),
        (" \n a", "", " \n a"),
        (" \n", "", " \n"),
        ("<", "", "<"),
        (" <thi", "", " <thi"),
        ("<html:thi", "", "<html:thi"),
        ("<x-namespace-that-is-much-too-long-to-be-one:think>", "", None),
        ("", "", ""),
    ],
)
def test_a_tagged_block_at_the_beginning_is_reasoning_at_any_cut(
    text: str, reasoning: str, answer: str | None
) -> None:
    expected = reasoning, text if answer is None else answer
    for fragments in ([text], list(text)):
        deltas = read(["think"], fragments)
        assert (reasoning_of(deltas), text_of(deltas)) == expected


@table(
    ("text", "reasoning", "answer"),
    [
        ("a</think>\n\nb", "a\n\n", "b"),
        ("\na<b</thinking>c</think>", "\na<b", "c</think>"),
        ("</reasoning>b", "", "b"),
        ("<think>a</think>b", "a", "b"),
        ("<think>a</thinking>b", "a</thinking>b", ""),
        ("a</think><think>b</think>c", "ab", "c"),
        ("a</think>b</think>c", "a", "b</think>c"),
        (" a", " a", ""),
        ("<thi", "<thi", ""),
        ("  ", "  ", ""),
    ],
)
def test_with_think_open_the_answer_begins_inside_the_block(
    text: str, reasoning: str, answer: str
) -> None:
    for fragments in ([text], list(text)):
        deltas = read(["think_open"], fragments)
        assert (reasoning_of(deltas), text_of(deltas)) == (reasoning, answer)


def test_reasoning_streams_except_for_a_possible_closing_tag() -> None:
    subject = ThinkTagFilter()
    deltas = [
        subject.feed(Text(fragment)) for fragment in ("<think>a<", "b</th", "is</thin", "k>c")
    ]
    assert deltas == [
        [Reasoning("a")],
        [Reasoning("<b")],
        [Reasoning("</this")],
        [Text("c")],
    ]


def test_text_that_cannot_become_the_expected_tag_is_not_held_back() -> None:
    assert ThinkTagFilter().feed(Text("<think>a</rea")) == [Reasoning("a</rea")]
    assert ThinkTagFilter().feed(Text("<xsl:t")) == []
    assert ThinkTagFilter().feed(Text("<xsl:te")) == [Text("<xsl:te")]


def test_text_streams_once_no_block_can_begin() -> None:
    subject = ThinkTagFilter()
    assert subject.feed(Text("\n")) == []
    assert subject.feed(Text("<thi")) == []
    assert subject.feed(Text("s")) == []
    assert subject.feed(Text(">")) == [Text("\n<this>")]
    later = Text("<think>", logprobs=[{"token": "<think>"}])
    assert subject.feed(later) == [later]


def test_held_back_text_is_sent_before_the_next_delta() -> None:
    assert feed_all(Text("<thi"), Refusal("a"), Text("nk>b")) == [
        Text("<thi"),
        Refusal("a"),
        Text("nk>b"),
    ]
    assert feed_all(Text("<think>a</"), ToolCall(0), Text("b</think>c")) == [
        Reasoning("a"),
        Reasoning("</"),
        ToolCall(0),
        Reasoning("b"),
        Text("c"),
    ]
    assert feed_all(Text("<thi"), Finish("stop"), opened=True) == [
        Reasoning("<thi"),
        Finish("stop"),
    ]


def test_a_block_may_begin_after_white_space_and_a_call() -> None:
    assert feed_all(Text("\n"), ToolCall(0), Text("<think>a")) == [
        Text("\n"),
        ToolCall(0),
        Reasoning("a"),
    ]


def test_token_counts_and_notes_do_not_release_held_back_text() -> None:
    assert feed_all(Text("<th"), Usage(1), Text("ink>a</"), Extra("x"), Text("think>b")) == [
        Usage(1),
        Reasoning("a"),
        Extra("x"),
        Text("b"),
    ]


def test_with_separate_reasoning_the_text_does_not_begin_inside_a_block() -> None:
    assert feed_all(Reasoning("a"), Text("b"), opened=True) == [Reasoning("a"), Text("b")]
    assert feed_all(Reasoning("a"), Text("<think>b</think>c")) == [
        Reasoning("a"),
        Reasoning("b"),
        Text("c"),
    ]
