"""Responses recordings: whole items, citations, encrypted reasoning."""

from __future__ import annotations

import json

import pytest

from antiphon.core.plan.plan import Plan
from antiphon.dialects.responses.encode import encode
from antiphon.dialects.responses.quirks import ResponsesQuirks
from tests.support.corpus import ABSENT, Case, cases
from tests.support.recordings import events_of, every, final, history_of, streams
from tests.support.reference_readers.recorded_response import sse_payloads
from tests.support.reference_readers.responses import citations, logprobs, read, simplify_item
from tests.support.upstream_events import (
    event_names,
    events_by_item,
    is_progress,
    is_subsequence,
    progress_events,
)

CASES = cases("responses")
# The text of its item is not the text of its deltas, and what was told cannot be taken back.
CONTRADICTORY = {"openai/responses/stream-shell-call-text-gpt-5.2-2025-12-11-b0894"}

pytestmark = pytest.mark.skipif(not CASES, reason=ABSENT)

every_answer = every(case for case in CASES if read(case.data).items)


@every_answer
def test_every_item_arrives_once_and_whole(case: Case) -> None:
    output = final(events_of(case))["output"]
    found = [simple for item in output for simple in simplify_item(item)]
    expected = read(case.data).simplified_items
    if case.id in CONTRADICTORY:
        found, expected = found[:-1], expected[:-1]
    if not any(item["type"] in ("output_text", "refusal") for item in expected):
        # A whole answer always has a message, if there is nothing else that answers.
        found = [item for item in found if item != {"type": "output_text", "text": ""}]
    # The image of one provider is done while it says that it is still being made.
    made = [item | {"status": "completed"} if "status" in item else item for item in expected]
    assert found == made


@every(streams(CASES))
def test_the_deltas_are_those_of_the_recording(case: Case) -> None:
    sent = read(case.data).deltas
    ours: dict[str, str] = {}
    for event in events_of(case):
        if event["type"].endswith(".delta") and isinstance(event["delta"], str):
            ours[event["type"]] = ours.get(event["type"], "") + event["delta"]
    for kind, text in ours.items():
        # What came without deltas has one of ours.
        assert sent.get(kind, text) == text
    assert sent.keys() <= ours.keys()


@every(streams(CASES))
def test_every_event_of_the_server_reaches_the_client_in_order(case: Case) -> None:
    sent, received = events_by_item(sse_payloads(case.data)), events_by_item(events_of(case))
    assert len(received) == len(sent)
    for theirs, ours in zip(sent, received, strict=True):
        assert is_subsequence(event_names(theirs), event_names(ours)), event_names(ours)


@every(case for case in streams(CASES) if b"_call" in case.data or b"mcp_" in case.data)
def test_every_event_of_a_hosted_tool_is_passed_on_with_our_place(case: Case) -> None:
    events = events_of(case)
    theirs, ours = progress_events(sse_payloads(case.data)), progress_events(events)
    assert [event for event in ours if event in theirs] == theirs
    item_ids: dict[int, str] = {}
    for event in events:
        if event["type"] == "response.output_item.added":
            item_ids[event["output_index"]] = event["item"]["id"]
        elif is_progress(event["type"]) and "item_id" in event:
            assert event["item_id"] == item_ids[event["output_index"]]


@every_answer
def test_citations_and_probabilities_arrive(case: Case) -> None:
    output, expected = final(events_of(case))["output"], read(case.data).items
    cited = citations(output)
    assert len(cited) == len(citations(expected))
    for ours, theirs in zip(cited, citations(expected), strict=True):
        assert ours.items() >= theirs.items()
    assert logprobs(output) == logprobs(expected)


@every(case for case in CASES if read(case.data).status == "incomplete")
def test_an_incomplete_recording_has_its_reason(case: Case) -> None:
    assert final(events_of(case))["incomplete_details"] == {"reason": read(case.data).reason}


@every_answer
def test_reasoning_is_replayed_unchanged(case: Case) -> None:
    history = history_of(case)
    plan = Plan(provider="p", model="m", history=history, replay_reasoning="always")
    quirks = ResponsesQuirks(trailing_reasoning=True)
    body = json.loads(encode(plan, stream=True, quirks=quirks).body)
    sent = [item for item in body["input"] if item["type"] == "reasoning"]
    made = [
        {name: value for name, value in item.items() if name not in ("status", "content")}
        for item in read(case.data).sealed
    ]
    assert sent == made


def test_the_corpus_covers_every_case() -> None:
    """A guard against a corpus that has shrunk until it proves nothing."""
    types = {item["type"] for case in CASES for item in read(case.data).items}
    assert {"message", "reasoning", "function_call", "custom_tool_call", "compaction"} <= types
    assert {"web_search_call", "mcp_call", "shell_call", "image_generation_call"} <= types
    assert sum(bool(read(case.data).sealed) for case in CASES) > 10
    assert {"completed", "incomplete", "failed"} <= {read(case.data).status for case in CASES}
