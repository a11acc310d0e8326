"""Every recorded Gemini answer comes through whole, however the network cuts it."""

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
from antiphon.dialects.gemini import GeminiDialect
from antiphon.dialects.gemini_request import GeminiQuirks, encode
from antiphon.pipeline.bridge import Bridge
from antiphon.wire.items import FunctionCall, Message, Reasoning
from antiphon.wire.response import Response
from tests.corpus import ABSENT, Case, cases
from tests.gemini_request_validator import problems
from tests.naive_gemini import Carried, read, returned
from tests.oracle import consult
from tests.validator import check

Document = dict[str, Any]

CASES = cases("gemini")
STREAMS = [case for case in CASES if case.meta["wire"] == "sse"]
ANSWERS = [case for case in CASES if case.meta["http_status"] < 400]
SMALL = 60_000  # bytes; larger recordings are cut at random only

pytestmark = pytest.mark.skipif(not CASES, reason=ABSENT)


def ids(case: Case) -> str:
    return case.id


every_case = pytest.mark.parametrize("case", CASES, ids=ids)
every_stream = pytest.mark.parametrize("case", STREAMS, ids=ids)
every_answer = pytest.mark.parametrize("case", ANSWERS, ids=ids)


def events_of(case: Case, **options: Any) -> list[Document]:
    return replay(case.data, dialect="gemini", **options)


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
    thought = [part["text"] for item in items(case, "reasoning") for part in item["summary"]]
    assert "".join(said) == carried.text(thought=False)
    assert "".join(thought) == carried.text(thought=True)


@every_answer
def test_every_call_comes_through_and_no_other(case: Case) -> None:
    calls = items(case, "function_call")
    carried = read(case.data).of("functionCall")
    assert [(call["name"], json.loads(call["arguments"])) for call in calls] == [
        (call["name"], call.get("args", {})) for call in carried
    ]
    for call, native in zip(calls, carried, strict=True):
        assert call["call_id"]
        assert call["call_id"] == native.get("id", call["call_id"])
    assert len({call["call_id"] for call in calls}) == len(calls)


@every_answer
def test_items_keep_the_order_of_their_parts(case: Case) -> None:
    expected: list[str] = []
    for part in read(case.data).parts:
        if "functionCall" in part:
            expected.append("function_call")
        elif part.get("text"):
            kind = "reasoning" if part.get("thought") else "message"
            expected += [kind] if expected[-1:] != [kind] else []
    found = [item["type"] for item in final(events_of(case))["output"]]
    # A whole answer has a message even if there is nothing in it.
    assert found == expected or (expected == [] and found in ([], ["message"]))


@every_answer
def test_what_is_cited_on_the_web_is_an_annotation_of_its_passage(case: Case) -> None:
    marked = [
        (note["url"], part["text"][note["start_index"] : note["end_index"]])
        for item in items(case, "message")
        for part in item["content"]
        for note in part["annotations"]
    ]
    supports = read(case.data).supports
    if supports:
        assert marked == supports


@every_case
def test_a_recording_ends_as_its_provider_said(case: Case) -> None:
    response = final(events_of(case))
    assert response["status"] == expected_status(read(case.data))


def expected_status(carried: Carried) -> str:
    if carried.error or carried.blocked:
        return "failed"
    if carried.finish in ("MAX_TOKENS", "SAFETY", "RECITATION", "MODEL_ARMOR"):
        return "incomplete"
    if carried.finish == "OTHER":
        return "incomplete" if carried.parts else "failed"
    assert carried.finish == "STOP"
    return "completed"


@every_answer
def test_the_recorded_usage_is_ours(case: Case) -> None:
    carried = read(case.data)
    usage = final(events_of(case))["usage"]
    thought = carried.count("thoughtsTokenCount")
    assert usage["input_tokens"] == carried.count("promptTokenCount", "toolUsePromptTokenCount")
    assert usage["output_tokens"] == carried.count("candidatesTokenCount") + thought
    assert usage["output_tokens_details"]["reasoning_tokens"] == thought
    cached = carried.count("cachedContentTokenCount")
    assert usage["input_tokens_details"]["cached_tokens"] == cached
    assert usage["total_tokens"] == carried.count("totalTokenCount")


@every_answer
def test_what_the_server_did_for_itself_is_kept_for_the_trace(case: Case) -> None:
    carried = read(case.data)
    dialect = GeminiDialect()
    decoder = dialect.decoder()
    if case.meta["wire"] == "sse":
        framer = dialect.framer()
        frames = [*framer.feed(case.data), *framer.close()]
        deltas = [delta for frame in frames for delta in decoder.feed(frame)]
    else:
        deltas = dialect.decode(case.data)
    kept = [delta.kind for delta in deltas if isinstance(delta, Extra)]
    for kind in ("executableCode", "codeExecutionResult", "toolCall", "toolResponse", "inlineData"):
        assert kept.count(kind) == len(carried.of(kind))
    assert any(isinstance(delta, Failure) for delta in deltas) == (
        carried.blocked is not None or (carried.finish == "OTHER" and not carried.parts)
    )


@pytest.mark.parametrize("case", [c for c in CASES if c.meta["http_status"] >= 400], ids=ids)
def test_the_body_of_an_error_is_a_fault_and_no_answer(case: Case) -> None:
    status, headers = case.meta["http_status"], case.meta.get("response_headers") or {}
    for body in (case.data, b"[" + case.data + b"]"):
        fault = GeminiDialect().classify(status, headers, body)
        expected = {400: ("invalid_request", "request"), 403: ("auth", "key")}
        assert (fault.type, fault.scope) == expected.get(status, ("model_error", "model"))
        assert not fault.retryable
    assert final(events_of(case))["output"] == []


# --- state ----------------------------------------------------------------------------------------


class Vault:
    """Seals by keeping, so that a test can open without a key."""

    def __init__(self) -> None:
        self.sealed: dict[str, tuple[ReasoningState, ...]] = {}

    def seal(self, states: Any, text: str) -> str:
        name = str(len(self.sealed))
        # What is sealed goes through JSON.
        self.sealed[name] = tuple(
            ReasoningState(state.scheme, json.loads(json.dumps(state.value)), state.attach)
            for state in states
        )
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
    bridge = Bridge(machine, GeminiDialect())
    streamed = case.meta["wire"] == "sse"
    events = bridge.feed(case.data) + bridge.close() if streamed else bridge.answer(case.data)
    assert events
    steps: list[Step] = []
    answers: list[Step] = []
    for item in machine.snapshot.output:
        match item:
            case Reasoning():
                states = vault.sealed.get(str(item.encrypted_content), ())
                steps.append(Thought(states=states))
            case Message(content=parts):
                texts = [getattr(part, "text", "") for part in parts]
                steps.append(Said("assistant", tuple(map(TextPart, texts))))
            case FunctionCall():
                steps.append(Called(item.call_id, item.name, item.arguments))
                answers.append(Answered(item.call_id, (TextPart("ok"),), item.name))
    return steps + answers


COMPLETED = [case for case in ANSWERS if read(case.data).finish == "STOP"]


@pytest.mark.parametrize("case", COMPLETED, ids=ids)
def test_an_answer_goes_back_part_by_part_as_it_came(case: Case) -> None:
    history = (Said("user", (TextPart("hi"),)), *steps_of(case), Said("user", (TextPart("go on"),)))
    plan = Plan(provider="p", model="m", history=history)
    body = encode(plan, stream=True, quirks=GeminiQuirks(sentinel=False)).body
    sent = json.loads(body)["contents"][1]
    native = returned(read(case.data).parts)
    assert sent == {"role": "model", "parts": [_plain(part) for part in native]}
    if "REDACTED" not in json.dumps(native):  # a signature is base64
        assert problems(body) == []


def _plain(part: Document) -> Document:
    """A call with its arguments, be there none."""
    if "functionCall" not in part:
        return part
    return {**part, "functionCall": {"args": {}, **part["functionCall"]}}


def test_the_corpus_shows_what_these_tests_are_about() -> None:
    """A guard against a corpus that has shrunk until it proves nothing."""
    assert {case.meta["wire"] for case in CASES} == {"sse", "json", "json-array"}
    features = {feature for case in CASES for feature in case.meta["features"]}
    assert {"text", "reasoning", "parallel_tool_calls", "thought_signature"} <= features
    carried = [read(case.data) for case in CASES]
    signed = [part for each in carried for part in each.parts if "thoughtSignature" in part]
    assert any(part.get("text") == "" for part in signed)
    assert any(part.get("text") for part in signed)
    assert any("functionCall" in part for part in signed)
    assert any("toolCall" in part for part in signed)
    assert any(each.supports for each in carried)
    assert any(each.blocked for each in carried)
    assert any(each.error for each in carried)
    assert any(each.finish == "OTHER" for each in carried)
