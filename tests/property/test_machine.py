"""State machine: any deltas give a well-formed event stream with exactly one terminal event."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from antiphon.core.deltas import (
    Annotation,
    Delta,
    EmptyReasoning,
    Extra,
    Failure,
    Finish,
    ItemEnd,
    RawItem,
    RawItemEvent,
    RawItemStarted,
    Reasoning,
    ReasoningState,
    Refusal,
    Start,
    Text,
    ToolCall,
    ToolEnd,
    Usage,
)
from antiphon.core.faults.classify import classify
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.stream.finish import FINISH_REASONS
from antiphon.core.stream.phase import Phase
from antiphon.core.tools.identity import ToolIdentity
from antiphon.errors import BridgeError
from tests.support.machines import TOOLS, Document, documents, machine, run
from tests.support.openai_sdk_check import check_with_sdk
from tests.support.stream_validator import TERMINALS, check

NAMES = [tool.provider_name for tool in TOOLS]

texts = st.text(max_size=6)
pieces = st.sampled_from(
    [
        "",
        " ",
        "{",
        "}",
        "{}",
        '{"input": "',
        "a",
        "\\",
        '"',
        '"}',
        '{"commands": ["ls"]}',
        "\\u00e9",
    ]
) | st.text(max_size=4)
names = st.none() | st.sampled_from(["", *NAMES, "get_", "weather", "other"])
call_ids = st.none() | st.sampled_from(["", "a", "b", "call_1"])
counts = st.integers(0, 9)
faults = st.sampled_from([protocol_fault("broken"), classify(429, {}, b""), classify(400, {}, b"")])

calls = st.builds(
    ToolCall,
    index=st.integers(0, 3),
    call_id=call_ids,
    name=names,
    arguments=pieces,
    kind=st.sampled_from(["function", "function", "function", "custom"]),
)
SEARCH = {"type": "web_search_call", "status": "in_progress", "action": {"type": "search"}}
STAGES = ("in_progress", "searching", "completed", "failed")
outputs = st.one_of(
    st.builds(Text, text=texts),
    st.builds(Refusal, text=texts),
    st.builds(Reasoning, texts, st.sampled_from(["raw", "summary"]), st.integers(0, 2)),
    calls,
    calls,
    st.builds(ToolEnd, index=st.integers(0, 4), complete=st.booleans()),
    st.builds(Annotation, st.just({"type": "file_path", "file_id": "f", "index": 0})),
    st.builds(RawItem, st.just({"type": "compaction", "encrypted_content": "x"})),
    st.builds(RawItemStarted, st.integers(0, 2), st.just(SEARCH)),
    st.builds(
        RawItemEvent,
        st.integers(0, 2),
        st.sampled_from([f"response.web_search_call.{stage}" for stage in STAGES]),
        st.just({"item_id": "x", "output_index": 5}),
    ),
    st.builds(RawItem, st.just(SEARCH | {"status": "completed"}), st.none() | st.integers(0, 2)),
    st.builds(EmptyReasoning),
    st.builds(ItemEnd),
    st.builds(ReasoningState, scheme=texts, value=texts),
    st.builds(Usage, counts, counts, counts, counts, counts, st.none() | counts),
    st.builds(Start, st.none() | texts, st.none() | texts),
    st.builds(Extra, texts),
)
finishes = st.builds(
    Finish, st.none() | st.sampled_from([*FINISH_REASONS, "", "OTHER", "who knows?"])
)
deltas: st.SearchStrategy[Delta] = st.one_of(outputs, outputs, outputs, finishes)
failures: st.SearchStrategy[Delta] = st.builds(Failure, faults)


def terminals(events: list[Document]) -> list[str]:
    return [event["type"] for event in events if event["type"] in TERMINALS]


@given(st.lists(deltas | failures, max_size=14))
def test_any_deltas_give_a_well_formed_stream_with_one_end(stream: list[Delta]) -> None:
    events = run(stream)
    check(events)
    assert len(terminals(events)) == 1


@given(st.lists(outputs, max_size=14), finishes)
def test_any_output_that_is_finished_is_a_stream_the_official_client_reads(
    stream: list[Delta], finish: Finish
) -> None:
    events = run([*stream, finish])
    check(events)
    check_with_sdk(events)
    assert len(terminals(events)) == 1


@given(st.lists(deltas, max_size=12), st.data())
def test_a_failure_anywhere_keeps_a_well_formed_stream(
    stream: list[Delta], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(stream)))
    events = run([*stream[:index], Failure(protocol_fault("broken")), *stream[index:]])
    check(events)
    assert terminals(events) == ["response.failed"]


@given(st.lists(deltas, max_size=12), st.booleans())
def test_an_error_changes_nothing_in_the_machine(stream: list[Delta], sealed: bool) -> None:
    subject = machine(seal=(lambda states, raw: f"sealed:{len(states)}") if sealed else None)
    events = subject.start()
    for delta in stream:
        before = (subject.phase, subject.snapshot, subject.pending_finish)
        try:
            events += subject.feed(delta)
        except BridgeError:
            after = (subject.phase, subject.snapshot, subject.pending_finish)
            assert after == before
    before = (subject.phase, subject.snapshot, subject.pending_finish)
    try:
        events += subject.finish()
    except BridgeError:
        after = (subject.phase, subject.snapshot, subject.pending_finish)
        assert after == before
        events += subject.fail(protocol_fault("broken"))
    check(documents(events))
    assert subject.phase in (Phase.COMPLETED, Phase.INCOMPLETE, Phase.FAILED)


@given(st.lists(deltas, max_size=8), st.sampled_from(["idle", "finished", "failed"]), deltas)
def test_a_call_in_the_wrong_phase_changes_nothing(
    stream: list[Delta], phase: str, wrong: Delta
) -> None:
    subject = machine()
    if phase != "idle":
        subject.start()
        for delta in stream:
            try:
                subject.feed(delta)
            except BridgeError:
                continue
        if phase == "finished":
            assume(_finishes(subject.finish, "length"))
        else:
            subject.fail(protocol_fault("broken"))
    before = (subject.phase, subject.snapshot)
    with pytest.raises(BridgeError):
        subject.feed(wrong)
    assert (subject.phase, subject.snapshot) == before


def _finishes(finish: object, reason: str) -> bool:
    assert callable(finish)
    try:
        finish(reason)
    except BridgeError:
        return False
    return True


# Calls


arguments = st.dictionaries(st.text(max_size=4), st.text(max_size=4) | st.integers(), max_size=3)


@st.composite
def interleaved(draw: st.DrawFn) -> tuple[list[tuple[str, str]], list[Delta]]:
    """Whole calls cut into pieces, the pieces of all of them shuffled together."""
    written = draw(st.lists(arguments.map(json.dumps), min_size=1, max_size=4))
    queues = [
        [
            ToolCall(
                index, f"id_{index}" if first else None, "get_weather" if first else None, part
            )
            for first, part in _numbered(_cut(text, draw(st.lists(st.integers(0, 40), max_size=4))))
        ]
        for index, text in enumerate(written)
    ]
    shuffled: list[Delta] = []
    while any(queues):
        index = draw(st.sampled_from([i for i, queue in enumerate(queues) if queue]))
        shuffled.append(queues[index].pop(0))
    return [(f"id_{i}", text) for i, text in enumerate(written)], shuffled


def _cut(text: str, cuts: Sequence[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[a:b] for a, b in pairwise(places)] or [""]


def _numbered(parts: list[str]) -> list[tuple[bool, str]]:
    return [(number == 0, part) for number, part in enumerate(parts)]


@given(interleaved(), st.sampled_from([TOOLS, ()]))
def test_interleaved_calls_come_out_whole_and_in_order_of_appearance(
    drawn: tuple[list[tuple[str, str]], list[Delta]], tools: tuple[ToolIdentity, ...]
) -> None:
    expected, stream = drawn
    order = list(dict.fromkeys(f"id_{d.index}" for d in stream if isinstance(d, ToolCall)))
    events = run([*stream, Finish("tool_calls")], tools)
    check(events)
    output = events[-1]["response"]["output"]
    assert [item["call_id"] for item in output] == order
    assert {item["call_id"]: item["arguments"] for item in output} == dict(expected)


@given(st.text(), st.booleans(), st.lists(st.integers(0, 500), max_size=12), st.text(max_size=3))
@example("\N{GRINNING FACE}", True, list(range(30)), "")
@example('a"\\\n', True, list(range(30)), " ")
def test_the_input_of_a_custom_tool_streams_as_it_arrives(
    text: str, ascii_only: bool, cuts: list[int], space: str
) -> None:
    gap = "".join(char for char in space if char in " \t\n\r")
    written = f'{gap}{{{gap}"input"{gap}:{gap}{json.dumps(text, ensure_ascii=ascii_only)}{gap}}}'
    parts = _cut(written, cuts)
    head = ToolCall(0, "id_0", "exec")
    chunks: list[list[Document]] = []
    subject = machine()
    subject.start()
    subject.feed(head)
    chunks += (documents(subject.feed(ToolCall(0, arguments=part))) for part in parts)
    deltas_of = [
        [e["delta"] for e in chunk if e["type"].endswith("input.delta")] for chunk in chunks
    ]
    assert all(len(texts) <= 1 and "" not in texts for texts in deltas_of)
    assert "".join("".join(texts) for texts in deltas_of) == json.loads(written)["input"] == text

    events = run([head, *(ToolCall(0, arguments=part) for part in parts), Finish("stop")])
    check(events)
    [item] = events[-1]["response"]["output"]
    assert (item["type"], item["input"]) == ("custom_tool_call", text)


@given(st.integers(1, 60))
def test_a_chunk_of_custom_input_is_sent_at_once(length: int) -> None:
    """Plain text is never held back: the one delta of a chunk has all of its text."""
    subject = machine()
    subject.start()
    subject.feed(ToolCall(0, "id_0", "exec", '{"input": "'))
    for number in range(length):
        [event] = documents(subject.feed(ToolCall(0, arguments=f"line {number}. ")))
        assert event["delta"] == f"line {number}. "
