"""Every recorded Bedrock answer comes through whole, however the network cuts it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from antiphon import replay
from antiphon.core.deltas import Extra
from antiphon.dialects.bedrock import BedrockDialect
from tests.corpus import ABSENT, Case, cases
from tests.naive_bedrock import read
from tests.oracle import consult
from tests.validator import check

Document = dict[str, Any]

CASES = cases("bedrock")
STREAMS = [case for case in CASES if case.meta["wire"] == "eventstream"]
ANSWERS = [case for case in CASES if case.meta["http_status"] < 400]
ERRORS = [case for case in CASES if case.meta["http_status"] >= 400]

pytestmark = pytest.mark.skipif(not CASES, reason=ABSENT)


def ids(case: Case) -> str:
    return case.id


every_case = pytest.mark.parametrize("case", CASES, ids=ids)
every_stream = pytest.mark.parametrize("case", STREAMS, ids=ids)
every_answer = pytest.mark.parametrize("case", ANSWERS, ids=ids)


def events_of(case: Case, **options: Any) -> list[Document]:
    return replay(case.data, dialect="bedrock", **options)


def final(events: list[Document]) -> Document:
    response: Document = events[-1]["response"]
    return response


def items(case: Case, kind: str) -> list[Document]:
    return [item for item in final(events_of(case))["output"] if item["type"] == kind]


@every_case
def test_a_recording_replays_to_a_valid_stream(case: Case) -> None:
    for request in (None, case.request):
        events = events_of(case, request=request)
        check(events)
        consult(events)
        assert final(events)["status"] != "in_progress"


@every_stream
def test_a_recording_cut_anywhere_gives_the_same_events(case: Case) -> None:
    whole = events_of(case)
    size = len(case.data)
    assert events_of(case, cuts=range(size)) == whole
    dice = random.Random(case.id)
    for number in (1, 7, 60):
        cuts = [dice.randrange(size) for _ in range(number)]
        assert events_of(case, cuts=cuts) == whole


@every_stream
def test_a_recording_that_breaks_off_or_is_damaged_still_ends_well_formed(case: Case) -> None:
    dice = random.Random(case.id)
    for _ in range(20):
        place = dice.randrange(1, len(case.data))
        damaged = bytearray(case.data)
        damaged[place] ^= 0xFF
        for data in (case.data[:place], bytes(damaged)):
            events = replay(data, dialect="bedrock")
            check(events)
            assert final(events)["status"] in ("failed", "incomplete", "completed")
            said = read(case.data).text()
            told = "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
            assert said.startswith(told)


@every_answer
def test_text_and_thought_come_through_to_the_byte(case: Case) -> None:
    carried = read(case.data)
    said = [part["text"] for item in items(case, "message") for part in item["content"]]
    thought = [part["text"] for item in items(case, "reasoning") for part in item["content"]]
    assert "".join(said) == carried.text()
    assert "".join(thought) == carried.thought()


@every_answer
def test_every_call_comes_through_and_no_other(case: Case) -> None:
    calls = [
        (item["call_id"], item["name"], json.loads(item["arguments"]))
        for item in items(case, "function_call")
    ]
    assert calls == [
        (call["toolUseId"], call["name"], json.loads(call["input"] or "{}"))
        for call in read(case.data).calls()
    ]


@every_answer
def test_what_is_cited_on_the_web_is_an_annotation(case: Case) -> None:
    parts = [part for item in items(case, "message") for part in item["content"]]
    notes = [note for part in parts for note in part["annotations"]]
    assert [note["url"] for note in notes] == read(case.data).cited()
    assert all(note["end_index"] <= len(part["text"]) for part in parts for note in notes)


@every_case
def test_a_recording_ends_as_its_provider_said(case: Case) -> None:
    carried = read(case.data)
    incomplete = {"max_tokens", "guardrail_intervened"}
    expected = "incomplete" if carried.stop in incomplete else "completed"
    assert final(events_of(case))["status"] == ("failed" if carried.error else expected)


@every_answer
def test_the_recorded_usage_is_ours(case: Case) -> None:
    carried = read(case.data)
    usage = final(events_of(case))["usage"]
    assert usage["input_tokens"] == carried.input_tokens
    assert usage["output_tokens"] == carried.output_tokens
    assert usage["input_tokens_details"]["cached_tokens"] == carried.cached_tokens
    assert usage["total_tokens"] == carried.input_tokens + carried.output_tokens


@pytest.mark.parametrize(
    "case", [case for case in STREAMS if "citations" in case.meta["features"]], ids=ids
)
def test_what_the_service_did_for_itself_is_kept_for_the_trace(case: Case) -> None:
    dialect = BedrockDialect()
    decoder = dialect.decoder()
    deltas = [delta for frame in dialect.framer().feed(case.data) for delta in decoder.feed(frame)]
    kept = {delta.kind for delta in deltas if isinstance(delta, Extra)}
    blocks = read(case.data).blocks
    cited = any("web" not in each["location"] for b in blocks for each in b.get("citations", []))
    assert ("block_toolUse" in kept) == any("type" in b.get("toolUse", {}) for b in blocks)
    assert ("block_toolResult" in kept) == any("toolResult" in block for block in blocks)
    assert ("citation" in kept) == cited


EXPECTED = {
    "ValidationException": ("model_error", "model", False),  # its text is about the model
    "ResourceNotFoundException": ("model_error", "model", False),
    "ServiceUnavailableException": ("provider_overloaded", "provider", True),
    "": ("invalid_request", "request", False),
}


@pytest.mark.parametrize("case", ERRORS, ids=ids)
def test_the_body_of_an_error_is_a_fault_and_no_answer(case: Case) -> None:
    status, headers = case.meta["http_status"], case.meta["response_headers"]
    fault = BedrockDialect().classify(status, headers, case.data)
    kind = headers.get("x-amzn-errortype", "").partition(":")[0]
    assert (fault.type, fault.scope, fault.retryable) == EXPECTED[kind]
    assert final(events_of(case))["output"] == []


def test_the_corpus_shows_what_these_tests_are_about() -> None:
    """A guard against a corpus that has shrunk until it proves nothing."""
    features = {feature for case in CASES for feature in case.meta["features"]}
    assert {"text", "reasoning", "tool_calls", "parallel_tool_calls", "citations"} <= features
    operations = {case.meta["operation"] for case in CASES}
    assert {"converse", "converse-stream", "invoke", "invoke-with-response-stream"} <= operations
    carried = [read(case.data) for case in CASES]
    assert any(each.cited() for each in carried)
    assert any(each.cached_tokens for each in carried)
    assert any(each.stop == "guardrail_intervened" for each in carried)
