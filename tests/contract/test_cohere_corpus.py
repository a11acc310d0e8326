"""Every recorded answer of Cohere's chat comes through whole, however the network cuts it."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from antiphon import replay
from antiphon.core.deltas import Extra, ReasoningState
from antiphon.core.history import Answered, Called, Said, Step, TextPart, Thought
from antiphon.core.machine import ResponseMachine
from antiphon.core.plan import Plan
from antiphon.dialects.cohere import CohereDialect
from antiphon.dialects.cohere_request import encode
from antiphon.pipeline.bridge import Bridge
from antiphon.wire.items import FunctionCall, Message, Reasoning
from antiphon.wire.response import Response
from tests.cohere_request_validator import problems
from tests.corpus import ABSENT, Case, cases
from tests.oracle import consult
from tests.validator import check

Document = dict[str, Any]

CASES = cases("cohere")
STREAMS = [case for case in CASES if case.meta["wire"] == "sse"]
ANSWERS = [case for case in CASES if case.meta["http_status"] < 400]
SMALL = 60_000  # bytes; larger recordings are cut at random only

pytestmark = pytest.mark.skipif(not CASES, reason=ABSENT)


def ids(case: Case) -> str:
    return case.id


every_case = pytest.mark.parametrize("case", CASES, ids=ids)
every_stream = pytest.mark.parametrize("case", STREAMS, ids=ids)
every_answer = pytest.mark.parametrize("case", ANSWERS, ids=ids)


# --- a second reading of the recordings, as naive as can be ---------------------------------------


@dataclass
class Carried:
    """The message of a recording, as a client puts it together that keeps every answer."""

    blocks: dict[int, Document] = field(default_factory=dict)
    plan: str = ""
    calls: dict[int, Document] = field(default_factory=dict)
    citations: int = 0
    finish: str = ""
    usage: Document = field(default_factory=dict)

    def text(self, kind: str) -> str:
        return "".join(block.get(kind, "") for block in self.blocks.values())


def carried(case: Case) -> Carried:
    if case.meta["wire"] == "sse":
        return streamed(case.data)
    document = json.loads(case.data)
    message = document["message"]
    return Carried(
        dict(enumerate(message.get("content") or [])),
        message.get("tool_plan") or "",
        dict(enumerate(message.get("tool_calls") or [])),
        len(message.get("citations") or []),
        document["finish_reason"],
        document["usage"],
    )


def streamed(data: bytes) -> Carried:
    found = Carried()
    for line in data.decode().split("\n"):
        if line.startswith("data: {"):
            take(found, json.loads(line.removeprefix("data: ")))
    return found


def take(found: Carried, event: Document) -> None:
    delta = event.get("delta") or {}
    message = delta.get("message") or {}
    match event["type"]:
        case "content-start":
            found.blocks[event["index"]] = message["content"]
        case "content-delta":
            for kind, piece in message["content"].items():
                found.blocks[event["index"]][kind] += piece
        case "tool-plan-delta":
            found.plan += message["tool_plan"]
        case "tool-call-start":
            found.calls[event["index"]] = message["tool_calls"]
        case "tool-call-delta":
            piece = message["tool_calls"]["function"]["arguments"]
            found.calls[event["index"]]["function"]["arguments"] += piece
        case "citation-start":
            found.citations += 1
        case "message-end":
            found.finish, found.usage = delta["finish_reason"], delta["usage"]


# --- reading --------------------------------------------------------------------------------------


def events_of(case: Case, **options: Any) -> list[Document]:
    return replay(case.data, dialect="cohere", **options)


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
    said = [part["text"] for item in items(case, "message") for part in item["content"]]
    thought = [part["text"] for item in items(case, "reasoning") for part in item["content"]]
    found = carried(case)
    assert "".join(said) == found.text("text")
    assert "".join(thought) == found.text("thinking") + found.plan


@every_answer
def test_every_call_comes_through_and_no_other(case: Case) -> None:
    calls = [
        (item["call_id"], item["name"], item["arguments"]) for item in items(case, "function_call")
    ]
    assert calls == [
        (call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in carried(case).calls.values()
    ]


@every_answer
def test_items_keep_the_order_of_their_blocks(case: Case) -> None:
    found = carried(case)
    kinds = ["reasoning" if "thinking" in block else "message" for block in found.blocks.values()]
    kinds += ["reasoning"] * bool(found.plan) + ["function_call"] * len(found.calls)
    assert [item["type"] for item in final(events_of(case))["output"]] == kinds


@every_answer
def test_what_is_cited_without_an_address_is_kept_for_the_trace(case: Case) -> None:
    dialect = CohereDialect()
    decoder = dialect.decoder()
    frames = dialect.framer().feed(case.data)
    deltas = [delta for frame in frames for delta in decoder.feed(frame)] or dialect.decode(
        case.data
    )
    kept = [delta.kind for delta in deltas if isinstance(delta, Extra)]
    assert kept == ["citation"] * carried(case).citations


@every_answer
def test_a_recording_ends_as_its_provider_said(case: Case) -> None:
    expected = {"MAX_TOKENS": "incomplete"}
    assert final(events_of(case))["status"] == expected.get(carried(case).finish, "completed")


@every_answer
def test_the_recorded_usage_is_ours(case: Case) -> None:
    usage, found = final(events_of(case))["usage"], carried(case).usage
    tokens = found["tokens"]
    assert usage["input_tokens"] == tokens["input_tokens"]
    assert usage["output_tokens"] == tokens["output_tokens"]
    assert usage["total_tokens"] == tokens["input_tokens"] + tokens["output_tokens"]
    assert usage["input_tokens_details"]["cached_tokens"] == found.get("cached_tokens", 0)
    thought = tokens.get("reasoning_tokens", 0)
    assert usage["output_tokens_details"]["reasoning_tokens"] == thought


@pytest.mark.parametrize("case", [c for c in CASES if c.meta["http_status"] >= 400], ids=ids)
def test_the_body_of_an_error_is_a_fault_and_no_answer(case: Case) -> None:
    status = case.meta["http_status"]
    fault = CohereDialect().classify(status, {}, case.data)
    expected = {400: ("context_length", "request"), 404: ("model_error", "model")}
    assert (fault.type, fault.scope) == expected[status]
    assert not fault.retryable
    response = final(events_of(case))
    assert (response["status"], response["output"]) == ("failed", [])


# --- and back -------------------------------------------------------------------------------------


def steps_of(case: Case) -> list[Step]:
    """The answer as the next request's history has it, with the state that was sealed into it."""
    sealed: dict[str, tuple[ReasoningState, ...]] = {}
    numbers = count()

    def seal(states: Any, text: str) -> str:
        name = str(len(sealed))
        sealed[name] = tuple(states)
        return name

    machine = ResponseMachine(
        Response(id="r", created_at=0, model="m"),
        new_id=lambda prefix: f"{prefix}_{next(numbers)}",
        now=lambda: 0,
        seal=seal,
    )
    bridge = Bridge(machine, CohereDialect())
    whole = case.meta["wire"] == "json"
    assert bridge.answer(case.data) if whole else bridge.feed(case.data) + bridge.close()
    steps: list[Step] = []
    results: list[Step] = []
    for item in machine.snapshot.output:
        match item:
            case Reasoning():
                steps.append(Thought(states=sealed[str(item.encrypted_content)]))
            case Message(content=parts):
                texts = [getattr(part, "text", "") for part in parts]
                steps.append(Said("assistant", tuple(map(TextPart, texts))))
            case FunctionCall():
                steps.append(Called(item.call_id, item.name, item.arguments))
                results.append(Answered(item.call_id, (TextPart("ok"),), item.name))
    return steps + results


@every_answer
def test_an_answer_goes_back_as_it_came(case: Case) -> None:
    history = (Said("user", (TextPart("hi"),)), *steps_of(case), Said("user", (TextPart("go on"),)))
    plan = Plan(provider="p", model="m", history=history, replay_reasoning="always")
    body = encode(plan, stream=True).body
    assert problems(body) == []
    sent, found = json.loads(body)["messages"][1], carried(case)
    assert sent.get("tool_plan", "") == found.plan
    assert sent.get("tool_calls", []) == [*found.calls.values()]
    blocks = [*found.blocks.values()]
    thinks = any("thinking" in block for block in blocks)
    assert sent.get("content", []) == (blocks if thinks else found.text("text") or [])


def test_the_corpus_shows_what_these_tests_are_about() -> None:
    """A guard against a corpus that has shrunk until it proves nothing."""
    features = {feature for case in CASES for feature in case.meta["features"]}
    assert {"text", "reasoning", "tool_calls", "citations", "length_finish", "error"} <= features
    found = [carried(case) for case in ANSWERS]
    assert any(each.plan for each in found)
    assert any(each.citations for each in found)
