"""Every recorded Anthropic answer comes through whole, however the network cuts it."""

from __future__ import annotations

import json
import random
from itertools import count
from typing import Any

import pytest

from antiphon import replay
from antiphon.core.deltas import Extra, Failure, ReasoningState
from antiphon.core.history import Answered, Called, Said, Step, TextPart, Thought
from antiphon.core.machine import ResponseMachine
from antiphon.core.plan import Plan
from antiphon.dialects.anthropic import AnthropicDialect, decode
from antiphon.dialects.anthropic_request import AnthropicQuirks, encode
from antiphon.pipeline.bridge import Bridge
from antiphon.wire.items import FunctionCall, Message, Reasoning
from antiphon.wire.response import Response
from tests.anthropic_request_validator import problems
from tests.corpus import ABSENT, Case, cases
from tests.naive_anthropic import Carried, read
from tests.oracle import consult
from tests.validator import check

Document = dict[str, Any]

CASES = cases("anthropic")
STREAMS = [case for case in CASES if case.meta["wire"] == "sse"]
ANSWERS = [case for case in CASES if case.meta["http_status"] < 400]
SMALL = 60_000  # bytes; larger recordings are cut at random only
OWN = {"text", "thinking", "redacted_thinking", "tool_use"}

pytestmark = pytest.mark.skipif(not CASES, reason=ABSENT)


def ids(case: Case) -> str:
    return case.id


every_case = pytest.mark.parametrize("case", CASES, ids=ids)
every_stream = pytest.mark.parametrize("case", STREAMS, ids=ids)
every_answer = pytest.mark.parametrize("case", ANSWERS, ids=ids)


def events_of(case: Case, **options: Any) -> list[Document]:
    return replay(case.data, dialect="anthropic", **options)


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
    if size < SMALL:
        assert events_of(case, cuts=range(size)) == whole
    dice = random.Random(case.id)
    for number in (1, 7, 60):
        cuts = [dice.randrange(size) for _ in range(number)]
        assert events_of(case, cuts=cuts) == whole


@every_answer
def test_text_and_thought_come_through_to_the_byte(case: Case) -> None:
    carried = read(case.data)
    said = [part["text"] for item in items(case, "message") for part in item["content"]]
    thought = [part["text"] for item in items(case, "reasoning") for part in item["content"]]
    assert "".join(said) == carried.text("text")
    assert "".join(thought) == carried.text("thinking")


@every_answer
def test_every_call_comes_through_and_no_other(case: Case) -> None:
    calls = [
        (item["call_id"], item["name"], json.loads(item["arguments"]))
        for item in items(case, "function_call")
    ]
    carried = read(case.data).of("tool_use")
    assert calls == [(block["id"], block["name"], block["input"]) for block in carried]


@every_answer
def test_items_keep_the_order_of_their_blocks(case: Case) -> None:
    kinds = {"text": "message", "thinking": "reasoning", "tool_use": "function_call"}
    expected: list[str] = []
    for block in read(case.data).blocks:
        kind = kinds.get(block["type"])
        if kind is None or not (kind == "function_call" or block.get(block["type"])):
            continue
        if kind == "function_call" or expected[-1:] != [kind]:
            expected.append(kind)
    assert [item["type"] for item in final(events_of(case))["output"]] == expected


@every_answer
def test_what_is_cited_on_the_web_is_an_annotation_of_its_passage(case: Case) -> None:
    carried = read(case.data)
    marked = [
        (note["url"], part["text"][note["start_index"] : note["end_index"]])
        for item in items(case, "message")
        for part in item["content"]
        for note in part["annotations"]
    ]
    assert marked == [
        (citation["url"], block["text"])
        for block in carried.of("text")
        for citation in block.get("citations") or []
        if "url" in citation
    ]


@every_case
def test_a_recording_ends_as_its_provider_said(case: Case) -> None:
    response = final(events_of(case))
    assert response["status"] == expected_status(read(case.data))


def expected_status(carried: Carried) -> str:
    if carried.error:
        return "failed"
    if carried.stop in ("max_tokens", "pause_turn"):
        return "incomplete"
    assert carried.stop in ("end_turn", "tool_use")
    return "completed"


@every_answer
def test_the_recorded_usage_is_ours(case: Case) -> None:
    carried = read(case.data)
    usage = final(events_of(case))["usage"]
    cache = ("cache_read_input_tokens", "cache_creation_input_tokens")
    assert usage["input_tokens"] == carried.count("input_tokens", *cache)
    assert usage["input_tokens_details"]["cached_tokens"] == carried.count(cache[0])
    assert usage["output_tokens"] == carried.count("output_tokens")
    inside = carried.usage.get("output_tokens_details") or {}
    thought = inside.get("thinking_tokens") or 0
    assert usage["output_tokens_details"]["reasoning_tokens"] == thought
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


@every_case
def test_what_the_server_did_for_itself_is_kept_for_the_trace(case: Case) -> None:
    carried = read(case.data)
    dialect = AnthropicDialect()
    if case.meta["wire"] == "json":
        deltas = decode(case.data)
    else:
        decoder = dialect.decoder()
        deltas = [
            delta for frame in dialect.framer().feed(case.data) for delta in decoder.feed(frame)
        ]
    kept = [delta.kind for delta in deltas if isinstance(delta, Extra)]
    for kind in {block["type"] for block in carried.blocks} - OWN:
        assert kept.count(kind) == len(carried.of(kind))
    assert any(isinstance(delta, Failure) for delta in deltas) == carried.error


@pytest.mark.parametrize("case", [c for c in CASES if c.meta["http_status"] >= 400], ids=ids)
def test_the_body_of_an_error_is_a_fault_and_no_answer(case: Case) -> None:
    status, headers = case.meta["http_status"], case.meta.get("response_headers") or {}
    fault = AnthropicDialect().classify(status, headers, case.data)
    expected = {400: ("invalid_request", "request"), 404: ("model_error", "model")}
    assert (fault.type, fault.scope) == expected[status]
    assert not fault.retryable
    assert final(events_of(case))["output"] == []


# --- state ----------------------------------------------------------------------------------------


class Vault:
    """Seals by keeping, so that a test can open without a key."""

    def __init__(self) -> None:
        self.sealed: dict[str, tuple[ReasoningState, ...]] = {}

    def seal(self, states: Any, text: str) -> str:
        name = str(len(self.sealed))
        self.sealed[name] = tuple(states)
        return name


def steps_of(case: Case) -> list[Step]:
    """The answer as the next request's history has it."""
    vault, numbers = Vault(), count()
    machine = ResponseMachine(
        Response(id="r", created_at=0, model="m"),
        new_id=lambda prefix: f"{prefix}_{next(numbers)}",
        now=lambda: 0,
        seal=vault.seal,
    )
    bridge = Bridge(machine, AnthropicDialect())
    whole = case.meta["wire"] == "json"
    events = bridge.answer(case.data) if whole else bridge.feed(case.data) + bridge.close()
    assert events
    steps: list[Step] = []
    answers: list[Step] = []
    for item in machine.snapshot.output:
        match item:
            case Reasoning():
                states = vault.sealed[str(item.encrypted_content)]
                steps.append(Thought(states=states))
            case Message(content=parts):
                texts = [getattr(part, "text", "") for part in parts]
                steps.append(Said("assistant", tuple(map(TextPart, texts))))
            case FunctionCall():
                steps.append(Called(item.call_id, item.name, item.arguments))
                answers.append(Answered(item.call_id, (TextPart("ok"),), item.name))
    return steps + answers


@every_answer
def test_what_was_thought_goes_back_to_the_byte_and_in_its_place(case: Case) -> None:
    history = (Said("user", (TextPart("hi"),)), *steps_of(case), Said("user", (TextPart("go on"),)))
    plan = Plan(provider="p", model="m", history=history)
    body = encode(plan, stream=True, quirks=AnthropicQuirks(thinking="adaptive")).body
    assert problems(body) == []
    sent = json.loads(body)["messages"][1]["content"]
    native = [block for block in read(case.data).blocks if block["type"] in OWN - {"text"}]
    kept = [block for block in sent if block["type"] != "text"]
    assert [_plain(block) for block in kept] == [_plain(block) for block in native]
    for block in read(case.data).of("thinking", "redacted_thinking"):
        assert json.dumps(block, ensure_ascii=False, separators=(",", ":")).encode() in body


def _plain(block: Document) -> Document:
    """Without what says who called: no part of a call that is sent back."""
    return {name: value for name, value in block.items() if name != "caller"}


def test_the_corpus_shows_what_these_tests_are_about() -> None:
    """A guard against a corpus that has shrunk until it proves nothing."""
    features = {feature for case in CASES for feature in case.meta["features"]}
    assert {"text", "reasoning", "parallel_tool_calls", "redacted_thinking"} <= features
    carried = [read(case.data) for case in CASES]
    assert any(each.citations() for each in carried)
    assert any(each.stop == "pause_turn" for each in carried)
    assert any(b["signature"] and not b["thinking"] for e in carried for b in e.of("thinking"))
    assert any(each.error for each in carried)
