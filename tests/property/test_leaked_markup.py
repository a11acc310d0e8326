"""Filters for leaked markup lose nothing, invent nothing, and do not depend on how text is cut."""

from __future__ import annotations

import re
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.deltas import Reasoning, Text
from antiphon.core.filters.markup import GUARDS, make_markup_filters
from tests.support.dialect_samples.leaked_markup import (
    CALL_GUARDS,
    JSON_FORMS,
    TAG_FORMS,
    Writer,
    calls_of,
    pieces,
    read,
    reasoning_of,
    stream,
    text_of,
)
from tests.support.tables import table

MARKS = """
    <think> </think> <thinking> </thinking> <reasoning> </reasoning> <mm:think> </mm:think>
    <tool_call> </tool_call> <function=f> <function= </function> <parameter=k> </parameter>
    <arg_key> </arg_key> <arg_value> </arg_value> [TOOL_CALLS] [ARGS] [CALL_ID] [{"name":"f"}]
    {"name": "f" } {"name":"f"} { [ ] , : \\ \\" functions.f:0
    <|tool_calls_section_begin|> <|tool_calls_section_end|> <|tool_call_begin|> <|tool_call_end|>
    <|tool_call_argument_begin|>
""".split()
OPENER = re.compile(
    r"<tool_call>|<function=|<\|tool_calls_section_begin\|>|<\|tool_call_begin\|>|\[TOOL_CALLS\]"
    r"|</?(?:[\w.-]+:)?(?:think|thinking|reasoning)>"
)

cut_lists = st.lists(st.integers(0, 400), max_size=12)
guards = st.lists(st.sampled_from(GUARDS), unique=True)
prose = st.lists(
    st.text(max_size=4)
    | st.sampled_from([mark[:size] for mark in MARKS for size in range(1, len(mark))])
    | st.sampled_from([" ", "\n"])
).map("".join)
markup = st.lists(st.sampled_from([*MARKS, "f", " ", "\n", "x", "<", "é"])).map("".join)
names = st.text(st.sampled_from("abcXYZ019_-."), min_size=1, max_size=8)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)  # JSON has neither
    | st.text()
    | markup,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
# Values between tags that read as text must not read as anything else, or as the next tag.
tag_texts = st.text(max_size=20).map(lambda text: f"t{text}") | prose.map(lambda text: f"t{text}")
TAG = re.compile(r"</?(?:parameter|function|arg_key|arg_value|tool_call)")
tag_values = tag_texts.filter(lambda text: not TAG.search(text)) | json_values.filter(
    lambda value: not isinstance(value, str) and not TAG.search(str(value))
)
tag_keys = st.text(st.sampled_from("abc _é-"), min_size=1, max_size=6)


@given(prose.filter(lambda text: not OPENER.search(text)), guards, cut_lists)
def test_text_without_a_mark_passes_unchanged(text: str, names: list[str], cuts: list[int]) -> None:
    names = [name for name in names if name != "think_open"]
    deltas = read(names, pieces(text, cuts))
    assert text_of(deltas) == text
    assert all(isinstance(delta, Text) for delta in deltas)


@given(markup, guards, cut_lists)
def test_chunk_boundaries_make_no_difference(text: str, names: list[str], cuts: list[int]) -> None:
    def read_all(fragments: list[str]) -> tuple[str, str, Any]:
        deltas = read(names, fragments)
        return reasoning_of(deltas), text_of(deltas), calls_of(deltas)

    assert read_all(pieces(text, cuts)) == read_all(list(text)) == read_all([text])


@given(markup, cut_lists, st.booleans())
def test_nothing_is_dropped_but_the_tags(text: str, cuts: list[int], opened: bool) -> None:
    deltas = read(["think_open" if opened else "think"], pieces(text, cuts))
    kinds = [type(delta) for delta in deltas]
    assert kinds == sorted(kinds, key=[Reasoning, Text].index)
    kept = reasoning_of(deltas) + text_of(deltas)
    tags = re.compile(r"(</?(?:mm:)?(?:think|thinking|reasoning)>)").split(text)
    # Between the tags everything is kept; of the tags, those that opened and closed a block go.
    rest = kept
    for position, part in enumerate(tags):
        if position % 2 and not rest.startswith(part):
            continue
        assert rest.startswith(part)
        rest = rest.removeprefix(part)
    assert rest == ""


@given(markup, st.lists(st.sampled_from(CALL_GUARDS), unique=True), cut_lists)
def test_text_that_is_not_a_call_is_kept(text: str, names: list[str], cuts: list[int]) -> None:
    deltas = read(names, pieces(text, cuts))
    if calls_of(deltas):
        assert len(text_of(deltas)) < len(text)
    else:
        assert text_of(deltas) == text


@given(
    st.sampled_from(JSON_FORMS),
    names,
    st.dictionaries(st.text(), json_values, max_size=4),
    prose,
    prose,
    cut_lists,
    st.booleans(),
)
def test_a_block_in_json_gives_exactly_its_call(
    form: tuple[str, Writer],
    name: str,
    arguments: dict[str, Any],
    before: str,
    after: str,
    cuts: list[int],
    others: bool,
) -> None:
    guard, write = form
    text = f"{before}.{write(name, arguments)} {after}"
    deltas = read(CALL_GUARDS if others else [guard], pieces(text, cuts))
    assert calls_of(deltas) == [(name, arguments)]
    assert text_of(deltas) == f"{before}. {after}"


@given(
    st.sampled_from(TAG_FORMS),
    names,
    st.dictionaries(tag_keys, tag_values, max_size=4),
    prose,
    prose,
    cut_lists,
    st.booleans(),
)
def test_a_block_in_tags_gives_exactly_its_call(
    form: tuple[str, Writer],
    name: str,
    arguments: dict[str, Any],
    before: str,
    after: str,
    cuts: list[int],
    others: bool,
) -> None:
    guard, write = form
    text = f"{before}.{write(name, arguments)} {after}"
    deltas = read(CALL_GUARDS if others else [guard], pieces(text, cuts))
    assert calls_of(deltas) == [(name, arguments)]
    assert text_of(deltas) == f"{before}. {after}"


LONG = 60_000
BURDENS = {
    "openers": "<tool_call>{",
    "names": "<tool_call>name ",
    "strings": '<tool_call>{"a": "',
    "tags": "<tool_call>f<arg_key>k</arg_key><arg_value>",
    "ends": "<function=f><parameter=k></parameter> ",
    "calls": '<tool_call>{"name": "f"}</tool_call>',
    "sections": "<|tool_calls_section_begin|><|tool_call_begin|>f:0 ",
    "half marks": "[TOOL_<|tool_",
    "reasoning": "<think></think>",
    "white space": " ",
}


@table("burden", BURDENS)
@table("size", [LONG, 50], ids=["whole", "in pieces"])
def test_the_work_is_linear_in_the_text(burden: str, size: int) -> None:
    def seconds(length: int) -> float:
        text = (BURDENS[burden] * length)[:length]
        fragments = [text[start : start + size] for start in range(0, length, size)]
        began = time.process_time()
        read(["think", *CALL_GUARDS], fragments)
        return time.process_time() - began

    # Four times the text may take four times as long; were the work quadratic, sixteen times.
    small = min(seconds(LONG // 4) for _ in range(3))
    assert min(seconds(LONG) for _ in range(2)) < 10 * small + 0.05


@given(guards)
def test_filters_that_were_fed_nothing_give_nothing(names: list[str]) -> None:
    assert stream(make_markup_filters(names), []) == []
