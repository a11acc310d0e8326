"""Recordings with leaked reasoning or calls behind the filters; and those without any."""

from __future__ import annotations

import re
from typing import Any

import pytest

from antiphon.core.deltas import Delta, Extra
from antiphon.core.filters.markup import filter_whole_response, make_markup_filters
from antiphon.dialects.chat import decode as chat
from antiphon.framing.sse import SSEDecoder
from tests.support.corpus import ABSENT, Case, cases
from tests.support.dialect_samples.leaked_markup import (
    CALL_GUARDS,
    calls_of,
    reasoning_of,
    stream,
    text_of,
)
from tests.support.machines import run
from tests.support.recordings import every
from tests.support.stream_validator import check

CASES = cases("chat")
TAGGED = [
    case
    for case in CASES
    if {"think_tags_in_content", "reasoning_tags_in_content"} & set(case.meta["quirks"])
]
MARKED = [case for case in CASES if "tool_call_markup_in_content" in case.meta["quirks"]]
CLEAN = [case for case in CASES if case not in TAGGED and case not in MARKED]
TAG = re.compile(r"</?(?:think|reasoning)>")

pytestmark = pytest.mark.skipif(not CASES, reason=ABSENT)


def decoded(case: Case, *names: str) -> list[Delta]:
    """The deltas of a recording behind the filters of these names."""
    filters = make_markup_filters(names)
    if case.meta["wire"] != "sse":
        return filter_whole_response(chat.decode(case.data), filters)
    decoder, framer = chat.ChatDecoder(), SSEDecoder()
    frames = framer.feed(case.data) + framer.close()
    deltas = [delta for frame in frames for delta in decoder.feed(frame)] + decoder.close()
    return stream(filters, deltas)


@every(TAGGED)
def test_only_tagged_reasoning_is_removed_from_the_text(case: Case) -> None:
    content = text_of(decoded(case))
    deltas = decoded(case, "think", *CALL_GUARDS)
    thought, answer = reasoning_of(deltas), text_of(deltas)
    *blocks, rest = TAG.split(content)
    assert blocks
    assert answer == rest.lstrip("\n")
    assert thought + answer == "".join([*blocks, rest])
    # The tags go back where they were found, and the recorded text is whole again.
    places = [found.start() for found in TAG.finditer(content)]
    restored = thought + answer
    for offset, tag in zip(places, TAG.findall(content), strict=True):
        restored = restored[:offset] + tag + restored[offset:]
    assert restored == content


@every(TAGGED)
def test_calls_beside_tagged_reasoning_are_unchanged(case: Case) -> None:
    def others(deltas: list[Delta]) -> list[Any]:
        return [delta for delta in deltas if not hasattr(delta, "text")]

    assert others(decoded(case, "think", *CALL_GUARDS)) == others(decoded(case))


@every([*TAGGED, *MARKED])
def test_a_filtered_recording_is_a_valid_stream_with_reasoning_first(case: Case) -> None:
    events = run(decoded(case, "think", *CALL_GUARDS))
    check(events)
    response = events[-1]["response"]
    kinds = [item["type"] for item in response["output"]]
    assert response["status"] == "completed"
    assert kinds[0] == "reasoning"
    assert kinds.count("reasoning") == 1
    assert kinds == sorted(kinds, key=["reasoning", "function_call", "message"].index)


@every(MARKED)
def test_a_call_that_came_as_markup_too_is_sent_once(case: Case) -> None:
    plain, deltas = decoded(case), decoded(case, *CALL_GUARDS)
    assert "<tool_call>" in text_of(plain)
    assert text_of(deltas).strip() == ""
    assert calls_of(deltas) == calls_of(plain) != []
    assert any(isinstance(delta, Extra) for delta in deltas)


def test_recordings_without_leaked_markup_are_the_same_behind_every_filter() -> None:
    assert CLEAN
    for case in CLEAN:
        plain, deltas = decoded(case), decoded(case, "think", *CALL_GUARDS)
        assert text_of(deltas) == text_of(plain), case.id
        assert [delta for delta in deltas if not hasattr(delta, "text")] == [
            delta for delta in plain if not hasattr(delta, "text")
        ], case.id
