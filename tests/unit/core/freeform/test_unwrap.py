"""Unwrapping of freeform input: removes wrappers and nothing else."""

from __future__ import annotations

import json

import pytest

from antiphon.core.freeform.unwrap import Unwrapper
from tests.support.patches import FILES, WRAPPERS, patch
from tests.support.tables import table

PATCH = patch(*FILES.values())
PLAIN = {"nothing", "no last line break", "more line breaks"}


def unwrapped(text: str, *, declared: bool = False) -> str:
    fresh = Unwrapper(declared=declared)
    return fresh.feed(text) + fresh.close()


@table("declared", [False, True])
@table("style", WRAPPERS)
def test_every_wrapper_is_removed(style: str, declared: bool) -> None:
    fresh = Unwrapper(declared=declared)
    text = fresh.feed(WRAPPERS[style](PATCH)) + fresh.close()
    assert text == (WRAPPERS[style](PATCH) if style in PLAIN else PATCH)
    agreed = style in PLAIN or (declared and style == "input object")
    assert fresh.wrapped is not agreed


@table("declared", [False, True])
@table("style", WRAPPERS)
def test_a_cut_anywhere_changes_nothing(style: str, declared: bool) -> None:
    text = WRAPPERS[style](patch(FILES["markers"]))
    whole = Unwrapper(declared=declared)
    expected = (whole.feed(text) + whole.close(), whole.wrapped, whole.ended, whole.unterminated)
    for place in range(len(text) + 1):
        fresh = Unwrapper(declared=declared)
        found = fresh.feed(text[:place]) + fresh.feed(text[place:]) + fresh.close()
        assert (found, fresh.wrapped, fresh.ended, fresh.unterminated) == expected


@table(
    "text",
    [
        "",
        "c",
        "``",
        "apply_patch",
        "apply_patch = 3",
        "apply_patch(1)",
        "cat <<'EOF\"\nx",
        "cat file.txt",
        "<< 1",
        "  indented\n",
        '"use strict";\nrun();\n',
        f'"{"x" * 300}";\nrun();\n',
        '{ const a = "b" }',
        '{"a" "b"}',
        '{"input" "b"}',
        "{}",
        "[1, 2]",
        '["ls"]',
        '{"input": 3}',
        '{"input": {}}',
        '{"command": ["bash" 7',
        '{"input',
        "`" * 300,
    ],
)
def test_text_that_is_not_a_wrapper_is_unchanged(text: str) -> None:
    fresh = Unwrapper()
    assert "".join(map(fresh.feed, text)) + fresh.close() == text
    assert not fresh.wrapped


@pytest.mark.parametrize("size", [1, 4, 16])
def test_plain_text_is_passed_on_with_every_piece(size: int) -> None:
    fresh = Unwrapper()
    for place in range(0, len(PATCH), size):
        assert fresh.feed(PATCH[place : place + size]) == PATCH[place : place + size]
    assert fresh.close() == ""


def test_text_that_could_open_a_wrapper_is_held_only_until_it_cannot() -> None:
    fresh = Unwrapper()
    assert [fresh.feed(piece) for piece in ("c", "a", "n", "d")] == ["", "", "can", "d"]


def test_only_a_possible_closing_is_held_inside_of_a_wrapper() -> None:
    fresh = Unwrapper()
    pieces = ["``", "`js\n", "a\n", "``", "` x\n", "b\n```", "\n"]
    assert [fresh.feed(piece) for piece in pieces] == ["", "", "a\n", "", "``` x\n", "b\n", ""]
    assert fresh.close() == ""


def test_an_incomplete_closing_is_text() -> None:
    assert unwrapped("```\na\n``") == "a\n``"


def test_a_closing_counts_only_at_the_end() -> None:
    assert unwrapped("```\na\n```\nb\n") == "a\n```\nb\n"
    assert unwrapped("apply_patch <<EOF\na\nEOF\nls\n") == "a\nEOF\nls\n"


def test_a_closing_longer_than_the_limit_is_text() -> None:
    text = "a\n```" + " " * 300
    fresh = Unwrapper()
    assert "".join(map(fresh.feed, "```\n" + text)) == text
    assert fresh.close() == ""


def test_a_closing_counts_only_at_the_beginning_of_a_line() -> None:
    assert unwrapped("```\na```") == "a```"
    fresh = Unwrapper()
    assert fresh.feed("```\na") + fresh.feed("```") + fresh.close() == "a```"


def test_the_longest_of_several_likely_fields_is_the_input() -> None:
    fields = {"command": "apply_patch", "input": PATCH}
    assert unwrapped(json.dumps(fields)) == PATCH
    assert unwrapped(json.dumps({"why": "x", "edits": PATCH})) == PATCH
    assert unwrapped(json.dumps({"input": [{"text": PATCH}]})) == PATCH
    assert unwrapped(json.dumps({"input": "bash"})) == "bash"


def test_json_that_holds_no_text_stays_as_it_is() -> None:
    for text in ('{"count": 3}', '{"list": []}', '{"a": ["' + "[" * 2000):
        assert unwrapped(text) == text


def test_wrappers_are_removed_three_deep_and_no_deeper() -> None:
    text = json.dumps({"input": json.dumps({"input": json.dumps({"input": "```\na\n```"})})})
    assert unwrapped(text) == "```\na\n```"


def test_text_that_has_to_begin_like_a_wrapper_is_kept() -> None:
    for text in ('{"input": "a"}', '{"why": "", "input": "a"}', "```\na\n```", '"a"'):
        fresh = Unwrapper(lambda _: True)
        assert fresh.feed(text) + fresh.close() == text
        assert not fresh.wrapped


def test_the_declared_object_is_removed_even_where_text_is_kept() -> None:
    fresh = Unwrapper(lambda _: True, declared=True)
    assert fresh.feed('{"input": "{\\"input\\": 1}"}') + fresh.close() == '{"input": 1}'
    assert not fresh.wrapped


def test_the_declared_object_shows_whether_its_string_is_closed() -> None:
    fresh = Unwrapper(declared=True)
    assert (fresh.ended, fresh.unterminated) == (False, False)
    assert fresh.feed('{"input": "x') == "x"
    assert (fresh.ended, fresh.unterminated) == (False, True)
    assert fresh.feed('"') == ""
    assert (fresh.ended, fresh.unterminated) == (True, False)


def test_text_instead_of_the_declared_object_is_the_input() -> None:
    assert unwrapped("*** Begin", declared=True) == "*** Begin"
    assert unwrapped("```\na\n```", declared=True) == "a\n"
