"""Every recorded Chat Completions answer comes through whole, however the network cuts it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from antiphon import replay
from tests.corpus import ABSENT, Case, cases
from tests.naive_chat import Block, Carried, read
from tests.oracle import consult
from tests.validator import check

Document = dict[str, Any]

CASES = cases("chat")
STREAMS = [case for case in CASES if case.meta["wire"] == "sse"]
SMALL = 60_000  # bytes; larger recordings are cut at random only

pytestmark = pytest.mark.skipif(not CASES, reason=ABSENT)


def ids(case: Case) -> str:
    return case.id


every_case = pytest.mark.parametrize("case", CASES, ids=ids)
every_stream = pytest.mark.parametrize("case", STREAMS, ids=ids)


def final(events: list[Document]) -> Document:
    response: Document = events[-1]["response"]
    return response


@every_case
def test_a_recording_replays_to_a_valid_stream(case: Case) -> None:
    for request in (None, case.request):
        events = replay(case.data, request=request)
        check(events)
        consult(events)
        assert final(events)["status"] != "in_progress"


@every_stream
def test_a_recording_cut_anywhere_gives_the_same_events(case: Case) -> None:
    whole = replay(case.data)
    size = len(case.data)
    if size < SMALL:
        assert replay(case.data, cuts=range(size)) == whole
    dice = random.Random(case.id)
    for count in (1, 7, 60):
        cuts = [dice.randrange(size) for _ in range(count)]
        assert replay(case.data, cuts=cuts) == whole
    recorded = case.meta.get("chunk_lengths") or []
    cuts = [sum(recorded[:number]) for number in range(len(recorded))]
    assert replay(case.data, cuts=cuts) == whole


def told(events: list[Document]) -> list[Block]:
    """The blocks of a stream, each with the text of its deltas in the order they came."""
    output = final(events)["output"]
    blocks = [_block(item) for item in output]
    places = {item["id"]: place for place, item in enumerate(output)}
    for event in events:
        if event["type"].endswith(".delta"):
            blocks[places[event["item_id"]]].text += event["delta"]
    return blocks


def _block(item: Document) -> Block:
    if item["type"] == "message":
        [part] = item["content"]
        return Block("refusal" if part["type"] == "refusal" else "text")
    if item["type"] == "reasoning":
        return Block("reasoning")
    return Block("call", call_id=item["call_id"], name=item["name"])


def same_call_ids(expected: list[Block], found: list[Block]) -> bool:
    """The recorded id, where there is one that no other call has; else one of ours."""
    seen: set[str | None] = {None}
    for ours, theirs in zip(found, expected, strict=True):
        if theirs.call_id not in seen and ours.call_id != theirs.call_id:
            return False
        seen.add(theirs.call_id)
    return len({block.call_id for block in found}) == len(found)


@every_case
@pytest.mark.parametrize("with_request", [False, True], ids=["alone", "with_request"])
def test_a_recording_comes_through_to_the_byte(case: Case, with_request: bool) -> None:
    carried = read(case.data)
    blocks = told(replay(case.data, request=case.request if with_request else None))
    assert [(b.kind, b.name, b.text) for b in blocks] == [
        (b.kind, b.name, b.text) for b in carried.blocks
    ]
    calls = [block for block in blocks if block.kind == "call"]
    assert same_call_ids(carried.of("call"), calls)


@every_case
def test_a_recording_ends_as_its_provider_said(case: Case) -> None:
    carried = read(case.data)
    response = final(replay(case.data))
    assert response["status"] == expected_status(carried)
    if response["status"] == "failed" and not carried.error:
        assert response["error"]["message"] == "Provider returned no finish reason."
    if carried.error:
        assert response["error"]["message"]


def expected_status(carried: Carried) -> str:
    if carried.error or carried.finish is None:
        return "failed"
    if carried.finish in ("length", "content_filter"):
        return "incomplete"
    assert carried.finish in ("stop", "tool_calls", "eos", "eos_token")
    return "completed"


@every_case
def test_the_recorded_usage_is_ours(case: Case) -> None:
    carried = read(case.data).usage
    usage = final(replay(case.data))["usage"]
    prompt, completion = carried.get("prompt_tokens", 0), carried.get("completion_tokens", 0)
    inside = carried.get("completion_tokens_details") or {}
    thought = inside.get("reasoning_tokens") or carried.get("reasoning_tokens") or 0
    cached = (carried.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    total = carried.get("total_tokens") or prompt + completion
    assert usage["input_tokens"] == prompt
    # Some count thinking beside the completion, and say so by their total.
    assert usage["output_tokens"] in (completion, total - prompt if thought else completion)
    assert usage["output_tokens_details"]["reasoning_tokens"] == thought
    assert usage["input_tokens_details"]["cached_tokens"] >= cached
    assert usage["total_tokens"] == total


@pytest.mark.parametrize("case", [c for c in CASES if c.meta["http_status"] >= 400], ids=ids)
def test_the_body_of_an_error_is_a_failed_response_without_output(case: Case) -> None:
    response = final(replay(case.data))
    assert response["status"] == "failed"
    assert response["output"] == []


def test_the_corpus_shows_what_these_tests_are_about() -> None:
    """A guard against a corpus that has shrunk until it proves nothing."""
    features = {feature for case in CASES for feature in case.meta["features"]}
    assert {"text", "reasoning", "tool_calls", "parallel_tool_calls", "refusal"} <= features
    assert any(read(case.data).finish is None for case in STREAMS)
    assert any(read(case.data).error for case in STREAMS)
