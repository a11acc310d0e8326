"""Every recorded Responses answer comes through whole, however the network cuts it."""

from __future__ import annotations

import json
import random
from typing import Any, get_args

import pytest
from openai.types.responses import ResponseOutputItem

from antiphon import replay
from antiphon.core.canonical import canonical
from antiphon.core.capsule import Sealer
from antiphon.core.pairing import paired
from antiphon.core.plan import Plan
from antiphon.core.unsealing import unsealed
from antiphon.dialects.dialect import resolve
from antiphon.dialects.responses_request import ResponsesQuirks, encode
from antiphon.pipeline.bridge import Bridge
from tests.corpus import ABSENT, Case, cases
from tests.machines import documents, machine
from tests.naive_responses import citations, logprobs, read, simplified
from tests.oracle import consult
from tests.validator import check

Document = dict[str, Any]

CASES = cases("responses")
STREAMS = [case for case in CASES if case.meta["wire"] == "sse"]
ANSWERS = [case for case in CASES if read(case.data).items]
SMALL = 20_000  # bytes; larger recordings are cut at random only
# The text of its item is not the text of its deltas, and what was told cannot be taken back.
CONTRADICTORY = {"openai/responses/stream-shell-call-text-gpt-5.2-2025-12-11-b0894"}

pytestmark = pytest.mark.skipif(not CASES, reason=ABSENT)


def ids(case: Case) -> str:
    return case.id


every_case = pytest.mark.parametrize("case", CASES, ids=ids)
every_answer = pytest.mark.parametrize("case", ANSWERS, ids=ids)
every_stream = pytest.mark.parametrize("case", STREAMS, ids=ids)


def told(case: Case, **options: Any) -> list[Document]:
    return replay(case.data, dialect="responses", **options)


def final(events: list[Document]) -> Document:
    response: Document = events[-1]["response"]
    return response


def known_to_the_package(items: list[Document]) -> bool:
    union, *_ = get_args(ResponseOutputItem)
    known = {
        name
        for model in get_args(union)
        for name in get_args(model.model_fields["type"].annotation)
    }
    return all(item["type"] in known for item in items)


@every_case
def test_a_recording_replays_to_a_valid_stream(case: Case) -> None:
    for request in (None, case.request):
        events = told(case, request=request)
        check(events)
        if known_to_the_package(final(events)["output"]):
            consult(events)
        assert final(events)["status"] != "in_progress"


@every_stream
def test_a_recording_cut_anywhere_gives_the_same_events(case: Case) -> None:
    whole = told(case)
    size = len(case.data)
    if size < SMALL:
        assert told(case, cuts=range(size)) == whole
    dice = random.Random(case.id)
    for count in (1, 7, 60):
        assert told(case, cuts=[dice.randrange(size) for _ in range(count)]) == whole
    recorded = case.meta.get("chunk_lengths") or []
    assert told(case, cuts=[sum(recorded[:number]) for number in range(len(recorded))]) == whole


@every_answer
def test_every_item_arrives_once_and_whole(case: Case) -> None:
    output = final(told(case))["output"]
    found = [simple for item in output for simple in simplified(item)]
    expected = read(case.data).told
    if case.id in CONTRADICTORY:
        found, expected = found[:-1], expected[:-1]
    if not any(item["type"] in ("output_text", "refusal") for item in expected):
        # A whole answer always has a message, if there is nothing else that answers.
        found = [item for item in found if item != {"type": "output_text", "text": ""}]
    # The image of one provider is done while it says that it is still being made.
    made = [item | {"status": "completed"} if "status" in item else item for item in expected]
    assert found == made


@every_stream
def test_the_deltas_are_those_of_the_recording(case: Case) -> None:
    sent = read(case.data).deltas
    ours: dict[str, str] = {}
    for event in told(case):
        if event["type"].endswith(".delta"):
            ours[event["type"]] = ours.get(event["type"], "") + event["delta"]
    for kind, text in ours.items():
        # What came without deltas has one of ours.
        assert sent.get(kind, text) == text
    passed_on = ("code_interpreter", "shell_call", "mcp_call")
    assert {kind for kind in sent if not any(word in kind for word in passed_on)} <= ours.keys()


@every_answer
def test_citations_and_probabilities_arrive(case: Case) -> None:
    output, expected = final(told(case))["output"], read(case.data).items
    cited = citations(output)
    assert len(cited) == len(citations(expected))
    for ours, theirs in zip(cited, citations(expected), strict=True):
        assert ours.items() >= theirs.items()
    assert logprobs(output) == logprobs(expected)


@every_case
def test_a_recording_ends_as_its_provider_said(case: Case) -> None:
    carried = read(case.data)
    response = final(told(case))
    assert response["status"] == carried.status
    details = response["incomplete_details"]
    assert (details["reason"] if details else None) == carried.reason


@every_case
def test_the_recorded_usage_is_ours(case: Case) -> None:
    carried = read(case.data).usage
    usage = final(told(case))["usage"]
    for name in ("input_tokens", "output_tokens", "total_tokens"):
        assert usage[name] == max(0, carried.get(name, 0))
    for details in ("input_tokens_details", "output_tokens_details"):
        for name, number in (carried.get(details) or {}).items():
            if name in usage[details]:
                assert usage[details][name] == number


@pytest.mark.parametrize("case", [c for c in CASES if c.meta["http_status"] >= 400], ids=ids)
def test_the_body_of_an_error_is_a_failed_response_without_output(case: Case) -> None:
    response = final(told(case))
    assert response["status"] == "failed"
    assert response["output"] == []


# State


def thread(case: Case) -> tuple[Sealer, list[Document]]:
    """What a client holds of a recorded answer whose state was sealed for it."""
    sealer = Sealer(["key"], new_nonce=bytes, now=lambda: 0)
    subject = machine((), seal=lambda states, raw: sealer.seal("p", "m", states, raw))
    bridge = Bridge(subject, resolve("responses"))
    whole = case.meta["wire"] == "json"
    events = bridge.answer(case.data) if whole else bridge.feed(case.data) + bridge.close()
    items = documents(events)
    check(items)
    return sealer, final(items)["output"]


@every_answer
def test_reasoning_goes_back_as_its_provider_made_it(case: Case) -> None:
    sealer, output = thread(case)
    asked = {"role": "user", "content": "And now?"}
    items = json.loads(json.dumps([*output, asked]))
    steps, _ = canonical(items, inputs=frozenset({"text"}), tool_output_images=False)
    steps, lost = unsealed(steps, issuer="p", model="m", unseal=sealer.open)
    assert not lost
    history, _ = paired(steps)
    plan = Plan(provider="p", model="m", history=history, replay_reasoning="always")
    quirks = ResponsesQuirks(trailing_reasoning=True)
    body = json.loads(encode(plan, stream=True, quirks=quirks).body)
    sent = [item for item in body["input"] if item["type"] == "reasoning"]
    made = [
        {name: value for name, value in item.items() if name not in ("status", "content")}
        for item in read(case.data).sealed
    ]
    assert sent == made


def test_the_corpus_shows_what_these_tests_are_about() -> None:
    """A guard against a corpus that has shrunk until it proves nothing."""
    types = {item["type"] for case in CASES for item in read(case.data).items}
    assert {"message", "reasoning", "function_call", "custom_tool_call", "compaction"} <= types
    assert {"web_search_call", "mcp_call", "shell_call", "image_generation_call"} <= types
    assert sum(bool(read(case.data).sealed) for case in CASES) > 10
    assert {"completed", "incomplete", "failed"} <= {read(case.data).status for case in CASES}
