"""Whatever the network, the framer or the decoder does, a translation gives a valid stream."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from antiphon import replay
from antiphon.core.deltas import Delta, Failure, Finish, Text
from antiphon.core.faults.fault import protocol_fault, timeout_fault
from antiphon.core.stream.source import Source
from antiphon.core.translation.translation import Translation
from antiphon.dialects.chat.dialect import ChatDialect
from antiphon.errors import InvalidTransition
from antiphon.framing.sse import Frame, SSEDecoder
from tests.property.test_machine import deltas, failures
from tests.support.machines import (
    Document,
    ReadFramer,
    ScriptedDecoder,
    ScriptedDialect,
    Step,
    documents,
    machine,
    run_steps,
)
from tests.support.stream_validator import TERMINALS, check

CHUNKS: list[dict[str, Any]] = [
    {"model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"index": 0, "delta": {"reasoning_content": "Für\u2028 und"}}]},
    {"choices": [{"index": 0, "delta": {"reasoning_content": " wider 🙂"}}]},
    {"choices": [{"index": 0, "delta": {"content": "Grüße"}}]},
    {
        "choices": [
            {
                "index": 0,
                "delta": {
                    "tool_calls": [
                        {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x"'}},
                        {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{"}},
                    ]
                },
            }
        ]
    },
    {
        "choices": [
            {
                "index": 0,
                "delta": {
                    "tool_calls": [
                        {"index": 1, "function": {"arguments": "}"}},
                        {"index": 0, "function": {"arguments": ': "é"}'}},
                    ]
                },
            }
        ]
    },
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}},
]


def frames(chunks: list[dict[str, Any]], end: str = "\n") -> list[bytes]:
    written = [json.dumps(chunk, ensure_ascii=False) for chunk in chunks] + ["[DONE]"]
    return [f"data: {text}{end}{end}".encode() for text in written]


STREAM = b"".join(frames(CHUNKS))


def terminals(events: list[Document]) -> list[str]:
    return [event["type"] for event in events if event["type"] in TERMINALS]


def drive(translation: Translation, chunks: list[bytes]) -> list[Document]:
    events = [event for chunk in chunks for event in translation.feed(chunk)]
    return documents(events + translation.close())


def test_the_sample_stream_is_valid() -> None:
    events = replay(STREAM)
    check(events)
    types = [item["type"] for item in events[-1]["response"]["output"]]
    assert types == ["reasoning", "message", "function_call", "function_call"]


@given(
    st.lists(st.integers(0, len(STREAM) + 40), max_size=40),
    st.sampled_from(["\n", "\r", "\r\n"]),
)
@example(list(range(len(STREAM) + 40)), "\r\n")
def test_chunk_boundaries_make_no_difference(cuts: list[int], end: str) -> None:
    stream = b"".join(frames(CHUNKS, end))
    assert replay(stream, cuts=cuts) == replay(STREAM)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
fields = [
    "choices index delta message content reasoning_content reasoning reasoning_details refusal",
    "tool_calls function_call function custom id name arguments type logprobs finish_reason",
    "usage error x_groq base_resp model citations annotations extra_content audio text summary",
]
chunk_like = st.recursive(
    json_values,
    lambda inner: (
        st.dictionaries(st.sampled_from(" ".join(fields).split()), inner, max_size=4)
        | st.lists(inner, max_size=2)
    ),
    max_leaves=12,
)
messages = st.dictionaries(st.sampled_from(" ".join(fields).split()), chunk_like, max_size=4)
odd_choices = st.fixed_dictionaries(
    {"choices": st.lists(st.fixed_dictionaries({"delta": messages}) | messages, max_size=2)}
)
junk = (
    st.binary(max_size=40)
    | st.text(max_size=20).map(str.encode)
    | (chunk_like | odd_choices).map(lambda value: json.dumps(value).encode())
)


@given(st.integers(0, len(CHUNKS) + 1), junk)
@example(3, b"[" * 100_000)
@example(3, b'{"choices":[{"delta":{"content":' + b"[" * 100_000)
@example(0, b'{"choices":[{"delta":{"reasoning":"x","reasoning_details":[{"type":[]}]}}]}')
def test_a_junk_frame_anywhere_still_gives_a_well_formed_stream(position: int, data: bytes) -> None:
    lines = frames(CHUNKS)
    lines.insert(position, b"data: " + data + b"\n\n")
    events = replay(b"".join(lines))
    check(events)
    assert len(terminals(events)) == 1


@given(junk)
def test_any_frame_is_read_without_an_exception(data: bytes) -> None:
    """The exceptions that the translation would catch must not happen in the first place."""
    decoder = ChatDialect().decoder()
    assert isinstance(decoder.feed(Frame(data)), list)
    assert isinstance(ChatDialect().decode(data), list)


@given(junk, st.booleans())
def test_any_whole_body_gives_a_well_formed_stream(data: bytes, as_answer: bool) -> None:
    events = replay(b'{"choices":[],"x":' + data + b"}") if as_answer else replay(data)
    check(events)
    assert len(terminals(events)) == 1


@given(st.integers(0, len(STREAM)))
def test_a_stream_that_breaks_off_anywhere_still_ends_once(length: int) -> None:
    events = replay(STREAM[:length])
    check(events)
    assert len(terminals(events)) == 1


errors = st.sampled_from(
    [ValueError("no"), KeyError("x"), RecursionError(), InvalidTransition("odd"), OSError()]
)


@given(st.lists(st.lists(deltas | failures, max_size=3), max_size=8), errors, st.data())
def test_a_decoder_that_breaks_anywhere_ends_the_answer_once(
    steps: list[list[Delta]], error: Exception, data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, len(steps)))
    broken: list[Step] = [*steps[:position], error, *steps[position:]]
    events = run_steps(broken, machine())
    check(events)
    assert len(terminals(events)) == 1
    if not any(isinstance(delta, Failure) for step in steps for delta in step):
        assert terminals(events) == ["response.failed"]


@given(st.lists(st.lists(deltas, max_size=3), max_size=6), errors)
def test_a_decoder_that_breaks_at_its_close_ends_the_answer_once(
    steps: list[list[Delta]], error: Exception
) -> None:
    events = run_steps(steps, machine(), error)
    check(events)
    assert terminals(events) == ["response.failed"]


class FaultyFramer(ReadFramer):
    """Raises at one of its reads; the last number is that of its close."""

    def __init__(self, breaks_at: int, error: Exception) -> None:
        self._ahead = breaks_at
        self._error = error

    def feed(self, chunk: bytes) -> list[Frame]:
        self._count()
        return super().feed(chunk)

    def close(self) -> list[Frame]:
        self._count()
        return super().close()

    def _count(self) -> None:
        self._ahead -= 1
        if self._ahead < 0:
            raise self._error


@given(st.lists(st.lists(deltas, max_size=3), max_size=6), errors, st.data())
def test_a_framer_that_breaks_anywhere_ends_the_answer_once(
    steps: list[list[Delta]], error: Exception, data: st.DataObject
) -> None:
    framer = FaultyFramer(data.draw(st.integers(0, len(steps))), error)
    translation = Translation(machine(), Source(ScriptedDialect(ScriptedDecoder(steps), framer)))
    events = drive(translation, [b"x"] * len(steps))
    check(events)
    assert terminals(events) == ["response.failed"]


@given(st.lists(st.lists(deltas | failures, max_size=3), max_size=6), st.data())
def test_a_failure_from_outside_ends_the_answer_once(
    steps: list[list[Delta]], data: st.DataObject
) -> None:
    translation = Translation(machine(), Source(ScriptedDialect(ScriptedDecoder(steps))))
    position = data.draw(st.integers(0, len(steps)))
    events = [event for _ in steps[:position] for event in translation.feed(b"x")]
    events += translation.fail(timeout_fault("idle"))
    events += translation.fail(protocol_fault("too late"))
    events += [event for _ in steps[position:] for event in translation.feed(b"x")]
    seen = documents(events + translation.close())
    check(seen)
    assert len(terminals(seen)) == 1


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5), st.lists(st.integers(0, 400)))
def test_text_comes_through_unchanged(pieces: list[str], cuts: list[int]) -> None:
    chunks: list[dict[str, Any]] = [
        {"choices": [{"delta": {"content": piece}}]} for piece in pieces
    ]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    events = replay(b"".join(frames(chunks)), cuts=cuts)
    check(events)
    [message] = events[-1]["response"]["output"]
    assert message["content"][0]["text"] == "".join(pieces)


@given(st.lists(st.lists(deltas, max_size=3), max_size=6))
def test_no_events_after_the_end(steps: list[list[Delta]]) -> None:
    translation = Translation(
        machine(),
        Source(ScriptedDialect(ScriptedDecoder([*steps, [Text("x"), Finish("stop")]] * 2))),
    )
    drive(translation, [b"x"] * (len(steps) + 1))
    assert translation.machine.has_ended
    assert translation.feed(b"x") == translation.close() == translation.feed_whole(b"x") == []


def test_a_real_framer_reads_any_bytes() -> None:
    translation = Translation(machine(), Source(ScriptedDialect(ScriptedDecoder([]), SSEDecoder())))
    events = drive(translation, [b": comment\n\n", b"event: x\n\n"])
    check(events)
    assert terminals(events) == ["response.failed"]
