"""Every recorded answer of every protocol is decoded completely, at any chunk boundaries.

What a recording carries is told by a second reader of its protocol
(`tests/support/reference_readers`). What only one protocol knows is asked in a file of its own.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import get_args

import pytest
from openai.types.responses import ResponseOutputItem

from tests.support.corpus import ABSENT, RECORDINGS, Case, cases
from tests.support.openai_sdk_check import check_with_sdk
from tests.support.recordings import Document, events_of, final, streams
from tests.support.reference_readers.recorded_response import Block
from tests.support.reference_readers.table import OUTPUT_READERS, READERS
from tests.support.stream_validator import check
from tests.support.tables import table

FEATURES: Mapping[str, str] = {
    "anthropic": "text reasoning parallel_tool_calls redacted_thinking error",
    "bedrock": "text reasoning tool_calls parallel_tool_calls citations",
    "chat": "text reasoning tool_calls parallel_tool_calls refusal",
    "cohere": "text reasoning tool_calls citations length_finish error",
    "gemini": "text reasoning parallel_tool_calls thought_signature",
    "ollama": "text reasoning parallel_tool_calls length_finish error",
    "responses": "text reasoning tool_calls",
}
CASES = cases()
BY_NAME = {case.id: case for case in CASES}
SMALL = 60_000  # bytes; larger recordings are cut at random only

pytestmark = pytest.mark.skipif(not CASES, reason=ABSENT)


def protocol(case: Case) -> str:
    return str(case.meta["protocol"])


@cache
def known_to_the_package() -> set[str]:
    union, *_ = get_args(ResponseOutputItem)
    models = get_args(union)
    return {name for each in models for name in get_args(each.model_fields["type"].annotation)}


def native_request(case: Case) -> Document | None:
    """The request to the provider; with an `input`, it would be taken for that of the client."""
    if not isinstance(case.request, dict):
        return None
    return {name: value for name, value in case.request.items() if name != "input"}


@lru_cache(maxsize=2)
def _replay(name: str, with_request: bool) -> list[Document]:
    case = BY_NAME[name]
    return events_of(case, request=native_request(case) if with_request else None)


def replayed(case: Case, with_request: bool = False) -> list[Document]:
    """The events of a recording. They are kept for the other checks of it."""
    return _replay(case.id, with_request)


def check_that_the_stream_is_valid(case: Case) -> None:
    for with_request in (False, True):
        events = replayed(case, with_request)
        check(events)
        types = {item["type"] for item in final(events)["output"]}
        if protocol(case) != "responses" or types <= known_to_the_package():
            check_with_sdk(events)
        assert final(events)["status"] != "in_progress"


def check_that_it_gives_the_same_events_cut_anywhere(case: Case) -> None:
    if not streams([case]):
        return
    whole = replayed(case)
    size = len(case.data)
    if size < SMALL:
        assert events_of(case, cuts=range(size)) == whole
    dice = random.Random(case.id)
    for count in (1, 7, 60):
        assert events_of(case, cuts=[dice.randrange(size) for _ in range(count)]) == whole
    recorded = case.meta.get("chunk_lengths") or []
    cuts = [sum(recorded[:number]) for number in range(len(recorded))]
    assert events_of(case, cuts=cuts) == whole


def read_block(item: Document) -> Block:
    if item["type"] == "message":
        [part] = item["content"]
        kind = part["type"].removeprefix("output_")
        return Block(kind, part[kind])
    if item["type"] == "reasoning":
        kind = "summary" if item["summary"] else "reasoning"
        parts = [*item["summary"], *(item.get("content") or ())]
        return Block(kind, "".join(part["text"] for part in parts))
    written = "input" if item["type"] == "custom_tool_call" else "arguments"
    return Block("call", item[written], item["call_id"], item["name"])


def is_same(ours: Block, theirs: Block) -> bool:
    written = ours.text if theirs.given is None else json.loads(ours.text)
    expected = theirs.text if theirs.given is None else theirs.given
    return (ours.kind, ours.name, written) == (theirs.kind, theirs.name, expected)


def same_call_ids(found: list[Block], expected: list[Block]) -> bool:
    """The recorded id, where there is one that no other call has; else one of ours."""
    seen: set[str | None] = {None}
    for ours, theirs in zip(found, expected, strict=True):
        if theirs.call_id not in seen and ours.call_id != theirs.call_id:
            return False
        seen.add(theirs.call_id)
    calls = [block.call_id for block in found if block.kind == "call"]
    return all(calls) and len(set(calls)) == len(calls)


def check_that_text_reasoning_and_calls_arrive_in_order(case: Case) -> None:
    if protocol(case) not in OUTPUT_READERS:
        return
    expected = OUTPUT_READERS[protocol(case)](case.data).output
    for with_request in (False, True):
        found = [read_block(item) for item in final(replayed(case, with_request))["output"]]
        assert [block.kind for block in found] == [block.kind for block in expected]
        differing = [pair for pair in zip(found, expected, strict=True) if not is_same(*pair)]
        assert differing == []
        assert same_call_ids(found, expected)


def check_that_it_ends_with_the_status_of_its_finish_reason(case: Case) -> None:
    response = final(replayed(case))
    assert response["status"] == READERS[protocol(case)](case.data).status
    assert (response["error"] is not None) == (response["status"] == "failed")
    assert (response["incomplete_details"] is not None) == (response["status"] == "incomplete")


def check_that_usage_is_converted(case: Case) -> None:
    usage = final(replayed(case))["usage"]
    ours = usage | usage["input_tokens_details"] | usage["output_tokens_details"]
    assert READERS[protocol(case)](case.data).counts.items() <= ours.items()


def check_that_the_body_of_an_error_is_a_failed_response_without_output(case: Case) -> None:
    if case.meta["http_status"] >= 400:
        response = final(replayed(case))
        assert response["status"] == "failed"
        assert response["output"] == []


CHECKS = (
    check_that_the_stream_is_valid,
    check_that_text_reasoning_and_calls_arrive_in_order,
    check_that_it_ends_with_the_status_of_its_finish_reason,
    check_that_usage_is_converted,
    check_that_the_body_of_an_error_is_a_failed_response_without_output,
    check_that_it_gives_the_same_events_cut_anywhere,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@table("check_recording", CHECKS, ids=lambda check_recording: check_recording.__name__)
def test_a_recording_is_translated_completely(
    case: Case, check_recording: Callable[[Case], None]
) -> None:
    check_recording(case)


@table("name", READERS)
def test_the_corpus_covers_every_case(name: str) -> None:
    """A guard against a corpus that has shrunk until it proves nothing."""
    found = {feature for case in cases(name) for feature in case.meta["features"]}
    assert set(FEATURES[name].split()) <= found
    assert {bool(streams([case])) for case in cases(name)} == {True, False}


def test_the_number_of_recordings_is_the_one_that_is_reported_without_them() -> None:
    found = Counter(case.meta["protocol"] for case in CASES)
    assert {protocol: found[protocol] for protocol in RECORDINGS} == dict(RECORDINGS)
