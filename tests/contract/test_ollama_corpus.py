"""Every recorded answer of Ollama's own API comes through whole, however the network cuts it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from antiphon import replay
from antiphon.core.history import Answered, Called, Said, Step, TextPart, Thought
from antiphon.core.machine import ResponseMachine
from antiphon.core.plan import Plan
from antiphon.dialects.ollama import OllamaDialect
from antiphon.dialects.ollama_request import encode
from antiphon.pipeline.bridge import Bridge
from antiphon.wire.response import Response
from antiphon.wire.sse import wire_document
from tests.corpus import ABSENT, Case, cases
from tests.ollama_request_validator import problems
from tests.oracle import consult
from tests.validator import check

Document = dict[str, Any]

CASES = cases("ollama")
STREAMS = [case for case in CASES if case.meta["wire"] == "ndjson"]
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
    """What a recording carries, line by line."""

    text: str = ""
    thinking: str = ""
    calls: list[Document] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    last: Document = field(default_factory=dict)


def carried(case: Case) -> Carried:
    found = Carried()
    for line in case.data.splitlines():
        found.last = json.loads(line)
        message = found.last.get("message") or {"content": found.last.get("response", "")}
        thinking, text = message.get("thinking") or "", message["content"]
        calls = message.get("tool_calls") or []
        found.thinking += thinking
        found.text += text
        found.calls += [call | call["function"] for call in calls]
        said = [("reasoning", thinking), ("message", text), *(("function_call", c) for c in calls)]
        for kind, value in said:
            if value and (kind == "function_call" or found.kinds[-1:] != [kind]):
                found.kinds.append(kind)
    return found


# --- reading --------------------------------------------------------------------------------------


def streamed(case: Case, cuts: Iterable[int]) -> list[Document]:
    """The events of a recording that comes in pieces, line by line or not."""
    given: Counter[str] = Counter()

    def new_id(prefix: str) -> str:
        given[prefix] += 1
        return f"{prefix}_{given[prefix]:04d}"

    response = Response(id=new_id("resp"), created_at=0, model="")
    machine = ResponseMachine(response, new_id=new_id, now=lambda: 0)
    bridge = Bridge(machine, OllamaDialect())
    offsets = sorted({*cuts, 0, len(case.data)})
    events = [e for begin, end in pairwise(offsets) for e in bridge.feed(case.data[begin:end])]
    return [wire_document(event, n) for n, event in enumerate(events + bridge.close())]


def events_of(case: Case, **options: Any) -> list[Document]:
    return replay(case.data, dialect="ollama", **options)


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
        assert streamed(case, range(size)) == whole
    dice = random.Random(case.id)
    for number in (0, 1, 7, 60):
        cuts = [dice.randrange(size) for _ in range(number)]
        assert streamed(case, cuts) == whole
        assert events_of(case, cuts=cuts) == whole


@every_answer
def test_text_and_thought_come_through_to_the_byte(case: Case) -> None:
    said = [part["text"] for item in items(case, "message") for part in item["content"]]
    thought = [part["text"] for item in items(case, "reasoning") for part in item["content"]]
    assert "".join(said) == carried(case).text
    assert "".join(thought) == carried(case).thinking


@every_answer
def test_every_call_comes_through_and_no_other(case: Case) -> None:
    calls = [
        (item["call_id"], item["name"], json.loads(item["arguments"]))
        for item in items(case, "function_call")
    ]
    assert calls == [(call["id"], call["name"], call["arguments"]) for call in carried(case).calls]


@every_answer
def test_items_keep_the_order_of_the_lines(case: Case) -> None:
    assert [item["type"] for item in final(events_of(case))["output"]] == carried(case).kinds


@every_answer
def test_a_recording_ends_as_its_provider_said_and_counted(case: Case) -> None:
    response, last = final(events_of(case)), carried(case).last
    expected = {"stop": "completed", "length": "incomplete"}
    assert response["status"] == expected[last["done_reason"]]
    assert response["usage"]["input_tokens"] == last["prompt_eval_count"]
    assert response["usage"]["output_tokens"] == last["eval_count"]


@pytest.mark.parametrize("case", [c for c in CASES if c.meta["http_status"] >= 400], ids=ids)
def test_the_body_of_an_error_is_a_fault_and_no_answer(case: Case) -> None:
    fault = OllamaDialect().classify(case.meta["http_status"], {}, case.data)
    assert (fault.type, fault.scope, fault.retryable) == ("model_error", "model", False)
    response = final(events_of(case))
    assert (response["status"], response["output"]) == ("failed", [])


# --- and back -------------------------------------------------------------------------------------


def steps_of(case: Case) -> list[Step]:
    """The answer as the next request's history has it."""
    steps: list[Step] = []
    results: list[Step] = []
    for item in final(events_of(case))["output"]:
        texts = [part["text"] for part in item.get("content", [])]
        if item["type"] == "reasoning":
            steps.append(Thought("".join(texts)))
        elif item["type"] == "message":
            steps.append(Said("assistant", tuple(map(TextPart, texts))))
        else:
            steps.append(Called(item["call_id"], item["name"], item["arguments"]))
            results.append(Answered(item["call_id"], (TextPart("ok"),), item["name"]))
    return steps + results


@every_answer
def test_an_answer_goes_back_as_it_came(case: Case) -> None:
    history = (Said("user", (TextPart("hi"),)), *steps_of(case), Said("user", (TextPart("go on"),)))
    plan = Plan(provider="p", model="m", history=history, replay_reasoning="always")
    body = encode(plan, stream=True).body
    assert problems(body) == []
    sent, found = json.loads(body)["messages"][1], carried(case)
    assert (sent["content"], sent.get("thinking", "")) == (found.text, found.thinking)
    calls = [(call["id"], call["function"]) for call in sent.get("tool_calls", [])]
    assert calls == [
        (call["id"], {"name": call["name"], "arguments": call["arguments"]}) for call in found.calls
    ]


def test_the_corpus_shows_what_these_tests_are_about() -> None:
    """A guard against a corpus that has shrunk until it proves nothing."""
    features = {feature for case in CASES for feature in case.meta["features"]}
    assert {"text", "reasoning", "parallel_tool_calls", "length_finish", "error"} <= features
    assert {case.meta["operation"] for case in CASES} >= {"chat", "generate"}
    assert {case.meta["wire"] for case in CASES} >= {"json", "ndjson"}
