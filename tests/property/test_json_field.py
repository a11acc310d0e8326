"""Reading JSON in fragments agrees with reading it whole."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.stream.json_field import FieldState, JSONProgress, JSONStringField

spaces = st.text(st.sampled_from(" \t\n\r"), max_size=3)
texts = st.text() | st.text(st.sampled_from('\\"/u0dDn{}[] \n\u2028é😀\U0010ffff'))
cut_lists = st.lists(st.integers(0, 100), max_size=10)
documents = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
).map(lambda inner: inner if isinstance(inner, (dict, list)) else [inner])


def pieces(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


def read(fragments: list[str]) -> tuple[str, FieldState]:
    field = JSONStringField("input")
    return "".join([field.feed(fragment) for fragment in fragments]), field.state


@st.composite
def wrapped(draw: st.DrawFn) -> str:
    """`{"input": …}` with any text, any white space, escaped or not, perhaps with more keys."""
    key, text = (
        json.dumps(part, ensure_ascii=draw(st.booleans())) for part in ("input", draw(texts))
    )
    more = json.dumps(draw(texts))
    tokens = ["{", key, ":", text, *draw(st.sampled_from([[], [",", more, ":", "1"]])), "}"]
    return "".join(draw(spaces) + token for token in tokens) + draw(spaces)


@given(wrapped(), cut_lists)
def test_a_field_reads_what_a_parser_reads_at_any_cut(whole: str, cuts: list[int]) -> None:
    # A further key may be "input" again; a parser takes the last, a stream can only take the first.
    expected = dict(reversed(json.loads(whole, object_pairs_hook=list)))["input"], FieldState.CLOSED
    assert read([whole]) == expected
    assert read(pieces(whole, cuts)) == expected
    assert read(list(whole)) == expected


# All that escapes are made of, so that most draws are broken in one way or another.
scraps = st.lists(
    st.sampled_from(
        ["\\", "u", "d83d", "de00", "\\ud83d", "\\ude00", "0041", "D8", "n", "q", "\n", "é"]
    )
)


def plainly_decoded(inside: str) -> str:
    """Escapes replaced from left to right, in the whole text at once."""

    def one(found: re.Match[str]) -> str:
        escape = found[0]
        try:
            text: str = json.loads(f'"{escape}"')
        except ValueError:
            return escape
        return "\ufffd" if "\ud800" <= text <= "\udfff" else text

    pair = r"\\u[dD][89abAB]..\\u[dD][c-fC-F].."
    return re.sub(rf"{pair}|\\u[0-9a-fA-F]{{4}}|\\.", one, inside, flags=re.DOTALL)


@given(scraps, cut_lists)
def test_broken_escapes_read_the_same_at_any_cut(parts: list[str], cuts: list[int]) -> None:
    inside = "".join(parts)
    inside += "\\" * ((len(inside) - len(inside.rstrip("\\"))) % 2)  # or it would swallow the quote
    expected = plainly_decoded(inside), FieldState.CLOSED
    whole = f'{{"input":"{inside}"}}'
    assert read([whole]) == expected
    assert read(pieces(whole, cuts)) == expected
    assert read(list(whole)) == expected


@given(st.text(st.sampled_from('{}[]":, \\inputx')), cut_lists)
def test_any_text_ends_in_the_same_state_at_any_cut(text: str, cuts: list[int]) -> None:
    assert read(pieces(text, cuts)) == read(list(text)) == read([text])


@given(documents, st.booleans(), st.sampled_from([None, 1, "\t"]), spaces, spaces, cut_lists)
def test_json_progress_is_complete_exactly_when_a_parser_would_succeed(
    document: Any,
    ascii_only: bool,
    indent: int | str | None,
    before: str,
    after: str,
    cuts: list[int],
) -> None:
    body = before + json.dumps(document, ensure_ascii=ascii_only, indent=indent)
    progress = JSONProgress()
    for number, fragment in enumerate(body, 1):
        assert not progress.complete
        progress.feed(fragment)
        assert progress.empty == (not body[:number].strip(" \t\n\r"))
    assert progress.complete

    progress = JSONProgress()
    for fragment in pieces(body + after, cuts):
        progress.feed(fragment)
    assert progress.complete


@given(st.text(st.sampled_from('{}[]" \\a')), cut_lists)
def test_json_progress_does_not_depend_on_the_cuts(text: str, cuts: list[int]) -> None:
    ends = []
    for fragments in ([text], list(text), pieces(text, cuts)):
        progress = JSONProgress()
        for fragment in fragments:
            progress.feed(fragment)
        ends.append((progress.empty, progress.open, progress.complete))
    assert ends[0] == ends[1] == ends[2]
