"""The filters for leaked markup, by the names of the markup."""

from __future__ import annotations

from typing import get_args

import pytest

from antiphon import config
from antiphon.core.deltas import (
    Delta,
    Finish,
    Reasoning,
    ReasoningState,
    Start,
    Text,
    ToolCall,
    Usage,
)
from antiphon.core.filters.markup import GUARDS, filter_whole_response, make_markup_filters
from antiphon.errors import ConfigError
from tests.support.dialect_samples.leaked_markup import stream

CALL = '<tool_call>{"name": "f"}</tool_call>'


def test_every_name_makes_a_filter() -> None:
    assert [len(make_markup_filters([name])) for name in GUARDS] == [1] * len(GUARDS)
    assert len(make_markup_filters(GUARDS)) == 2
    assert make_markup_filters([]) == []


def test_the_configuration_knows_every_name() -> None:
    assert set(get_args(config.TextLeak)) == set(GUARDS)


def test_an_unknown_name_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="`guards` has an unknown name 'thnik'; known: think, "):
        make_markup_filters(["think", "thnik"])


def test_filters_are_fresh_for_every_answer() -> None:
    for _ in range(2):
        filters = make_markup_filters(["think"])
        assert filter_whole_response([Text("<think>a")], filters) == [Reasoning("a")]


def test_without_filters_nothing_changes() -> None:
    deltas: list[Delta] = [Text("<think>a</think>"), ToolCall(0), Reasoning("b")]
    assert filter_whole_response(deltas, []) == deltas


def test_a_call_inside_of_reasoning_is_not_a_call() -> None:
    fragments = [f"<think>{CALL}</th", "ink>\nx" + CALL[:5], CALL[5:]]
    deltas = stream(make_markup_filters(["hermes", "think"]), [Text(each) for each in fragments])
    assert deltas == [
        Reasoning(CALL),
        Reasoning("\n"),
        Text("x"),
        ToolCall(0, name="f", arguments="{}"),
    ]


def test_what_one_filter_releases_at_the_end_reaches_the_next() -> None:
    assert stream(make_markup_filters(["think", "glm"]), [Text("<tool")]) == [Text("<tool")]


def test_reasoning_in_the_text_of_a_whole_answer_goes_before_its_calls() -> None:
    state = ReasoningState("x", "y", "tool")
    deltas: list[Delta] = [
        Start("m"),
        ReasoningState("x", "z"),
        state,
        ToolCall(0, "a", "f", "{}"),
        Text("<think>b</think>\n\nc"),
        Finish("stop"),
    ]
    assert filter_whole_response(deltas, make_markup_filters(["think"])) == [
        *deltas[:2],
        Reasoning("b"),
        Reasoning("\n\n"),
        *deltas[2:4],
        Text("c"),
        Finish("stop"),
    ]


def test_token_counts_of_a_whole_answer_do_not_end_held_back_text() -> None:
    deltas: list[Delta] = [Text("<thi"), Usage(1), Text("nk>a")]
    assert filter_whole_response(deltas, make_markup_filters(["think"])) == [
        Usage(1),
        Reasoning("a"),
    ]
