"""Whatever a model sends in any round, and whatever filters there are: one valid response.

Real filters in all their combinations, driven as the engine drives them. Rounds have searches, are
retried, fail and are cut off anywhere.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.core.capabilities import Capabilities
from antiphon.core.client_profile import PROFILES
from antiphon.core.deltas import (
    Delta,
    Extra,
    Failure,
    Finish,
    Reasoning,
    ReasoningState,
    Refusal,
    Start,
    Text,
    ToolCall,
    ToolEnd,
    Usage,
)
from antiphon.core.events import Event
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.history.capsule import Sealer
from antiphon.core.plan.next_round import FinishedRound, plan_next_round
from antiphon.core.plan.plan import Plan
from antiphon.core.response import Response
from antiphon.core.stream.source import Source
from antiphon.core.translation.next_step import Calls, Round
from antiphon.core.translation.translation import make_translation
from antiphon.core.web_search.search_call import SearchOutcome
from antiphon.core.web_search.sources import SearchResult
from antiphon.dialects.chat.dialect import ChatDialect
from tests.property.test_machine import deltas as any_deltas
from tests.property.test_machine import failures
from tests.support.machines import (
    NOW,
    Document,
    ScriptedDecoder,
    ScriptedDialect,
    counting_ids,
    documents,
)
from tests.support.openai_sdk_check import check_with_sdk
from tests.support.patches import FILES, patch
from tests.support.plans import make_plan
from tests.support.request_body import parse_body
from tests.support.request_validators.chat import problems
from tests.support.rounds import PATCH, READ, SEARCH, TEXT_FORMAT, ULM
from tests.support.stream_validator import TERMINALS, check

SOUND = patch(FILES["text"])
BROKEN = SOUND.replace("+one", "one")
OTHER = patch(FILES["gone"])
FOUND = SearchResult(title="Rain", url="https://weather.example/rain", snippet="It rains.")
LOST = protocol_fault("The line broke.")


# Requests


mostly = st.sampled_from([True, True, True, False])


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, Capabilities, str]:
    body: Document = {"model": "m", "input": "?"}
    body["tools"] = [tool for tool in (SEARCH, READ, PATCH) if draw(mostly)]
    if draw(st.booleans()):
        body["text"] = TEXT_FORMAT
    if draw(st.booleans()):
        body["parallel_tool_calls"] = False
    if draw(st.booleans()):
        body["reasoning"] = {"summary": "auto"}
    if draw(st.booleans()):
        body["max_tool_calls"] = draw(st.integers(1, 2))
    formats = draw(st.sampled_from([frozenset({"text"}), frozenset({"text", "json_schema"})]))
    choices = draw(st.sampled_from([frozenset({"auto"}), frozenset({"auto", "required"})]))
    able = Capabilities(web_search="managed", formats=formats, tool_choice=choices)
    return json.dumps(body).encode(), able, draw(st.sampled_from(["other", "codex"]))


def planned(request: tuple[bytes, Capabilities, str]) -> Plan:
    body, able, _ = request
    return make_plan(parse_body(body), [], provider="p", model="m", capabilities=able)


# Driving the translation


@dataclass
class Run:
    """One answer, from its first round to its end."""

    plan: Plan
    profile: str
    outcomes: list[SearchOutcome]
    request_count: int = 0
    guards: tuple[str, ...] = ()
    rejected: int = 0
    searched: int = 0
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._sealer = Sealer(["a key"], new_nonce=bytes, now=lambda: NOW)
        self.translation = make_translation(
            self.plan,
            self._source([]),
            Response(id="resp_1", created_at=NOW, model="m"),
            new_id=counting_ids(),
            now=lambda: NOW,
            profile=PROFILES[self.profile],
        )

    def _source(self, reads: Sequence[Sequence[Delta]]) -> Source:
        seal = partial(self._sealer.seal, "local", "i", "m")
        return Source(ScriptedDialect(ScriptedDecoder(reads)), self.guards, seal)

    def play(self, rounds: Sequence[Sequence[Sequence[Delta]]]) -> list[Document]:
        """Run rounds, each a list of reads; after the last one, no further round is possible."""
        for reads in rounds:
            self.request_count += 1
            self.translation.read_from(self._source(reads))
            for _ in reads:
                self.events += self.translation.feed(b"x")
            self.events += self.translation.close()
            if self._is_over():
                break
        if not self.translation.machine.has_ended:
            self.events += self.translation.give_up_round(LOST)
        return documents(self.events)

    def _is_over(self) -> bool:
        translation = self.translation
        while isinstance(translation.next, Calls):
            found = self.outcomes[self.searched % len(self.outcomes)]
            self.searched += 1
            self.events += translation.settle_call(found)
        wanted = translation.next
        if isinstance(wanted, Round) and wanted.fault is not None:
            self.rejected += 1
        elif isinstance(wanted, Round):
            self.plan = plan_next_round(
                self.plan,
                FinishedRound(wanted.items, wanted.follow_up),
                issuer="i",
                unseal=partial(self._sealer.open, "local"),
            )
            assert problems(ChatDialect().encode(self.plan, stream=True).body) == []
            translation.begin_round()
        return translation.machine.has_ended


def check_response(events: list[Document], *, rounds: int = 1) -> Document:
    """The response; its events keep every rule but one: a later round may revise an input."""
    events = _as_if_never_revised(events) if rounds else events
    check(events)
    check_with_sdk(events)
    assert len([event for event in events if event["type"] in TERMINALS]) == 1
    response: Document = events[-1]["response"]
    return response


def _as_if_never_revised(events: list[Document]) -> list[Document]:
    inputs = {
        item["id"]: item["input"]
        for item in events[-1]["response"]["output"]
        if item["type"] == "custom_tool_call"
    }
    kept: list[Document] = []
    revised: set[str] = set()
    for event in events:
        if event["type"] == "response.custom_tool_call_input.delta":
            item = event["item_id"]
            event = {**event, "delta": "" if item in revised else inputs[item]}
            revised.add(item)
        kept.append(event)
    return kept


outcomes = st.lists(
    st.sampled_from(
        [SearchOutcome(results=(FOUND,)), SearchOutcome(), SearchOutcome(failed=True, problem="x")]
    ),
    min_size=1,
    max_size=3,
)


# Anything at all

names = st.none() | st.sampled_from(
    ["read", "apply_patch", "web_search", "answer_trip", "apply_", "web", "other", ""]
)
pieces = st.sampled_from(
    ["", "{}", "{", '{"query": "rain"}', json.dumps({"input": SOUND}), ULM, "}", '{"input": "x']
)
odd_calls = st.builds(
    ToolCall,
    index=st.integers(0, 2),
    call_id=st.none() | st.sampled_from(["", "a", "b"]),
    name=names,
    arguments=pieces,
    kind=st.sampled_from(["function", "function", "custom"]),
)
markup = st.sampled_from(
    ["<think>", "</think>", "<tool_call>", '{"name": "read"}', "</tool_call>", "<th", "\n"]
).map(Text)
guard_names = st.sampled_from([(), ("think",), ("think_open", "hermes"), ("hermes",)])
odd = st.one_of(odd_calls, any_deltas, failures, markup, st.builds(Finish, st.just("stop")))
odd_rounds = st.lists(
    st.lists(st.lists(odd, max_size=3), max_size=5).map(lambda reads: [*reads, [Finish("stop")]]),
    max_size=5,
)


@given(requests(), odd_rounds, outcomes, guard_names)
def test_any_deltas_in_any_rounds_are_one_well_formed_response(
    request: tuple[bytes, Capabilities, str],
    rounds: list[list[list[Delta]]],
    found: list[SearchOutcome],
    guards: tuple[str, ...],
) -> None:
    run = Run(planned(request), request[2], found, guards=guards)
    response = check_response(run.play(rounds), rounds=run.translation.rounds)
    assert response["status"] in ("completed", "incomplete", "failed")


# What models send


@dataclass(frozen=True)
class Call:
    name: str
    arguments: str


CALLS = (
    Call("read", "{}"),
    Call("read", '{"path": "a"}'),
    Call("web_search", '{"query": "rain"}'),
    Call("web_search", '{"query": "sun", "queries": ["moon"]}'),
    Call("web_search", "no words"),
    Call("apply_patch", json.dumps({"input": SOUND})),
    Call("apply_patch", json.dumps({"input": OTHER})),
    Call("apply_patch", json.dumps({"input": BROKEN})),
    Call("answer_trip", ULM),
    Call("answer_trip", '{"town": 1}'),
)
outputs = st.one_of(
    st.sampled_from(["It rains [1].", ULM, "Ulm.", f"So: {ULM}", " "]).map(Text),
    st.sampled_from(["Hm.", "Oh."]).map(Reasoning),
    st.just(ReasoningState("sig", "x")),
    st.just(Refusal("No.")),
    st.sampled_from(CALLS),
    st.sampled_from(CALLS),
)


@dataclass(frozen=True)
class ScriptedRound:
    sent: tuple[Any, ...]
    finish: str
    usage: Usage | None
    ends: bool
    counts: bool
    """It counts its calls from zero again, as all providers do, and so their ids."""

    def deltas(self, number: int) -> list[Delta]:
        deltas: list[Delta] = [Start("m")]
        index = 0
        for each in self.sent:
            if isinstance(each, Call):
                mark = "" if self.counts else f"_{number}"
                deltas += self._called(each, index, f"call_{index}{mark}")
                index += 1
            else:
                deltas.append(each)
        deltas.append(Finish(self.finish))
        return deltas if self.usage is None else [*deltas, self.usage, Extra("x")]

    def _called(self, call: Call, index: int, call_id: str) -> list[Delta]:
        half = len(call.arguments) // 2
        parts = [call.arguments[:half], call.arguments[half:]]
        grown = [ToolCall(index, arguments=part) for part in parts]
        return [ToolCall(index, call_id, call.name), *grown, *([ToolEnd(index)] * self.ends)]


counts = st.integers(0, 90)
rounds_of_outputs = st.lists(
    st.builds(
        ScriptedRound,
        sent=st.lists(outputs, max_size=4).map(tuple),
        finish=st.sampled_from(["stop", "tool_calls", "stop", "tool_calls", "length"]),
        usage=st.none() | st.builds(Usage, counts, counts),
        ends=st.booleans(),
        counts=st.booleans(),
    ),
    min_size=1,
    max_size=6,
)
cut_lists = st.lists(st.integers(0, 30), max_size=6)


def read_in(deltas: Sequence[Delta], cuts: Sequence[int]) -> list[list[Delta]]:
    edges = [0, *sorted(min(cut, len(deltas)) for cut in cuts), len(deltas)]
    return [list(deltas[start:end]) for start, end in pairwise(edges)]


def client_calls(response: Document) -> list[tuple[str, str]]:
    kinds = {"function_call": "arguments", "custom_tool_call": "input"}
    return [
        (item["name"], item[kinds[item["type"]]])
        for item in response["output"]
        if item["type"] in kinds
    ]


def ours(plan: Plan) -> set[str]:
    """Tools whose calls no client sees."""
    hosted = {"web_search"} if plan.search is not None else set()
    return hosted | ({plan.contract.tool} if plan.contract.tool is not None else set())


def one_at_a_time() -> tuple[bytes, Capabilities, str]:
    tools = [SEARCH, READ, PATCH]
    body = {"model": "m", "input": "?", "tools": tools, "parallel_tool_calls": False}
    return json.dumps(body).encode(), Capabilities(web_search="managed"), "other"


def script_of(*sent: Any) -> ScriptedRound:
    return ScriptedRound(sent, "stop", Usage(5, 2), ends=False, counts=True)


PATCHED, LOOKED = Call("apply_patch", json.dumps({"input": BROKEN})), CALLS[2]
MENDED, READING = Call("apply_patch", json.dumps({"input": OTHER})), CALLS[0]
UNCUT: list[list[int]] = [[]] * 6


@example(
    one_at_a_time(),
    [script_of(PATCHED), script_of(Reasoning("Hm.")), script_of(READING)],
    [SearchOutcome()],
    UNCUT,
)
@example(
    one_at_a_time(),
    [script_of(READING, PATCHED), script_of(LOOKED), script_of(READING)],
    [SearchOutcome()],
    UNCUT,
)
@example(
    one_at_a_time(), [script_of(READING, PATCHED), script_of(MENDED)], [SearchOutcome()], UNCUT
)
@example(one_at_a_time(), [script_of(LOOKED, PATCHED), script_of(MENDED)], [SearchOutcome()], UNCUT)
@given(requests(), rounds_of_outputs, outcomes, st.lists(cut_lists, min_size=6, max_size=6))
def test_output_and_usage_of_all_rounds_are_counted_once(
    request: tuple[bytes, Capabilities, str],
    rounds_sent: list[ScriptedRound],
    found: list[SearchOutcome],
    cuts: list[list[int]],
) -> None:
    plan = planned(request)
    run = Run(plan, request[2], found)
    rounds = [each.deltas(number) for number, each in enumerate(rounds_sent)]
    events = run.play([read_in(*each) for each in zip(rounds, cuts, strict=False)])
    response = check_response(events, rounds=run.translation.rounds)

    usages = [each.usage or Usage() for each in rounds_sent[: run.request_count]]
    usage = response["usage"]
    assert usage["input_tokens"] == sum(each.input_tokens for each in usages)
    assert usage["output_tokens"] == sum(each.output_tokens for each in usages)

    again = Run(plan, request[2], found)
    assert check_response(again.play([[[delta] for delta in each] for each in rounds])) == response

    assert len(client_calls(response)) <= 1 or not plan.single_call
    if response["status"] == "completed" and not plan.single_call:
        made = [
            (call.name, call.arguments)
            for each in rounds_sent[: run.request_count]
            for call in each.sent
            if isinstance(call, Call) and call.name not in ours(plan)
        ]
        plain = Counter(call for call in made if call[0] != "apply_patch")
        assert Counter(call for call in client_calls(response) if call[0] != "apply_patch") == plain
        patches = [call for call in client_calls(response) if call[0] == "apply_patch"]
        first = [call for call in made if call[0] == "apply_patch"]
        assert len(first) / 2 <= len(patches) <= len(first)
        written = {json.loads(call[1]).get("input") for call in first}
        assert {text for _, text in patches} <= written | {text for _, text in first}


@given(requests(), rounds_of_outputs, outcomes, st.data())
def test_an_answer_may_fail_after_any_delta(
    request: tuple[bytes, Capabilities, str],
    rounds_sent: list[ScriptedRound],
    found: list[SearchOutcome],
    data: st.DataObject,
) -> None:
    run = Run(planned(request), request[2], found)
    rounds = [each.deltas(number) for number, each in enumerate(rounds_sent)]
    for each in rounds:
        if data.draw(st.booleans()):
            cut_at = data.draw(st.integers(0, len(each)))
            each[cut_at:] = data.draw(st.sampled_from([[], [Failure(LOST)], [Finish("error")]]))
    check_response(run.play([[[delta] for delta in each] for each in rounds]))
    assert run.translation.machine.has_ended
