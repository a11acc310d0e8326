"""Freeform input: whatever models write into their patches, what is sent matches the grammar."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.deltas import Delta, Finish, ToolCall, ToolEnd, ToolRevision
from antiphon.core.freeform.filter import FreeformInputFilter
from antiphon.core.freeform.unwrap import Unwrapper
from tests.support.filters import DrivenFilter
from tests.support.patches import (
    DAMAGES,
    TOOLS,
    WRAPPERS,
    arguments,
    called,
    final_input,
    inputs,
    is_valid_patch,
    patch,
    run_round,
    valid_patches,
)
from tests.support.tables import table

RIGHT = patch("*** Update File: a.py\n@@\n-1\n+2\n")

lines = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=12)
paths = lines.map(lambda text: "p" + text)
changes = st.lists(st.tuples(st.sampled_from("+- "), lines).map("".join), min_size=1, max_size=4)
files = st.one_of(
    st.tuples(paths, st.lists(lines, min_size=1, max_size=3)).map(
        lambda made: f"*** Add File: {made[0]}\n" + "".join(f"+{line}\n" for line in made[1])
    ),
    paths.map(lambda path: f"*** Delete File: {path}\n"),
    st.tuples(paths, changes).map(
        lambda made: f"*** Update File: {made[0]}\n@@\n" + "".join(f"{x}\n" for x in made[1])
    ),
)
patches = st.lists(files, min_size=1, max_size=3).map(lambda made: patch(*made))
wrappers = st.sampled_from(sorted(WRAPPERS))
damages = st.sampled_from(sorted(DAMAGES))
cut_lists = st.lists(st.integers(0, 400), max_size=8)


def make_filter() -> DrivenFilter:
    return DrivenFilter(FreeformInputFilter(TOOLS))


def corpus() -> Iterator[tuple[str, str]]:
    """Patches in every wrapper, and broken in every way in some of them, each under its name."""
    styles = list(WRAPPERS)
    for number, text in enumerate(valid_patches()):
        for style in styles:
            yield f"{number} in {style}", WRAPPERS[style](text)
        for position, damage in enumerate(DAMAGES):
            for style in (styles[0], styles[(number + position) % len(styles)]):
                yield f"{number} with {damage} in {style}", WRAPPERS[style](DAMAGES[damage](text))


def test_nearly_all_calls_end_with_valid_input_if_the_correction_is_valid() -> None:
    results = {}
    for number, (name, text) in enumerate(corpus()):
        free: list[Delta] = [ToolCall(0, "c1", "apply_patch", text, "custom")]
        first = free if number % 2 else called(arguments(text))
        results[name] = is_valid_patch(final_input(make_filter(), first, RIGHT))
    wrong = [name for name, sound in results.items() if not sound]
    assert len(results) >= 500
    assert len(wrong) <= len(results) // 100, wrong


def test_input_that_is_only_wrapped_needs_no_correction() -> None:
    for text in valid_patches():
        for style, wrap in WRAPPERS.items():
            subject = make_filter()
            deltas = run_round(subject, called(arguments(wrap(text))))
            assert subject.follow_up is None, style
            assert inputs(deltas)[0].strip("\n") == text.strip("\n"), style


def outcome(subject: DrivenFilter, pieces: list[str]) -> object:
    """The outcome of a round, independent of chunk boundaries."""
    first: list[Delta] = [ToolCall(0, "c1", "apply_patch")]
    deltas = run_round(subject, first + [ToolCall(0, arguments=piece) for piece in pieces])
    sent = "".join(delta.arguments for delta in deltas if isinstance(delta, ToolCall))
    ends = [delta for delta in deltas if isinstance(delta, ToolEnd | ToolRevision)]
    return sent, ends, subject.follow_up, list(subject.diagnostics)


@table("damage", [None, *DAMAGES])
@table("style", ["nothing", "patch fence", "shell list", "late field"])
def test_one_cut_at_any_position_makes_no_difference(style: str, damage: str | None) -> None:
    text = DAMAGES[damage](RIGHT) if damage else RIGHT
    text = arguments(WRAPPERS[style](text))
    expected = outcome(make_filter(), [text])
    first = [None, *DAMAGES].index(damage) % 3  # every third position, with each damage others
    for position in range(first, len(text) + 1, 3):
        assert outcome(make_filter(), [text[:position], text[position:]]) == expected
    assert outcome(make_filter(), list(text)) == expected


@given(patches, wrappers, damages | st.none(), cut_lists)
def test_chunk_boundaries_make_no_difference(
    text: str, style: str, damage: str | None, cuts: list[int]
) -> None:
    text = arguments(WRAPPERS[style](DAMAGES[damage](text) if damage else text))
    positions = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(positions)]
    assert outcome(make_filter(), pieces) == outcome(make_filter(), [text])


@given(patches, wrappers)
def test_valid_patches_are_unwrapped(text: str, style: str) -> None:
    subject = make_filter()
    found = inputs(run_round(subject, called(arguments(WRAPPERS[style](text)), size=11)))
    assert found[0].strip("\n") == text.strip("\n")
    assert subject.follow_up is None


@given(patches, wrappers, damages, patches, wrappers)
def test_a_valid_correction_is_always_sent(
    text: str, style: str, damage: str, right: str, second_style: str
) -> None:
    subject = make_filter()
    first = called(arguments(WRAPPERS[style](DAMAGES[damage](text))))
    assert is_valid_patch(final_input(subject, first, WRAPPERS[second_style](right)))


@given(st.text(), st.lists(st.integers(0, 100), max_size=5), st.booleans())
def test_unwrapping_any_text_does_not_depend_on_its_cuts(
    text: str, cuts: list[int], declared: bool
) -> None:
    whole = Unwrapper(declared=declared)
    positions = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    fresh = Unwrapper(declared=declared)
    pieces = [fresh.feed(text[a:b]) for a, b in pairwise(positions)]
    assert "".join(pieces) + fresh.close() == whole.feed(text) + whole.close()


marks = st.lists(
    st.sampled_from(
        [*"`'\"{}[]:,\\ \nax", "```", "<<", "EOF", "cat", "apply_patch", '{"input": "', "| "]
    ),
    max_size=24,
).map("".join)


@given(marks, st.integers(0, 60), st.booleans())
def test_unwrapping_marks_does_not_depend_on_cuts(text: str, cut: int, declared: bool) -> None:
    whole, halves = Unwrapper(declared=declared), Unwrapper(declared=declared)
    expected = whole.feed(text) + whole.close()
    assert halves.feed(text[:cut]) + halves.feed(text[cut:]) + halves.close() == expected
    assert (halves.wrapped, halves.unterminated) == (whole.wrapped, whole.unterminated)


@pytest.mark.parametrize("size", [1, 3, 4, 20])
def test_valid_input_is_sent_with_every_chunk(size: int) -> None:
    for text in valid_patches():
        subject = make_filter()
        subject.feed(ToolCall(0, "c1", "apply_patch", '{"input": "'))
        for position in range(0, len(text), size):
            piece = text[position : position + size]
            written = arguments(piece)[len('{"input": "') : -2]
            assert subject.feed(ToolCall(0, arguments=written)) == [
                ToolCall(0, arguments=piece, kind="custom")
            ]


def test_the_cost_of_a_chunk_does_not_grow() -> None:
    line = "+" + "x" * 78 + "\n"

    def seconds(count: int) -> float:
        subject = make_filter()
        deltas = called(arguments(patch("*** Add File: a\n" + line * count)), size=40)
        began = time.process_time()
        run_round(subject, deltas)
        return time.process_time() - began

    seconds(10)
    short, long = (min(seconds(count) for _ in range(3)) for count in (100, 1000))
    assert long < short * 10 * 4


def test_a_filter_without_freeform_calls_changes_nothing() -> None:
    deltas = run_round(make_filter(), [])
    assert deltas == [Finish("tool_calls")]
