"""Any frames of the Ollama and Cohere formats are decoded, with one terminal event."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon import replay
from antiphon.dialects.cohere.decode import CohereDecoder
from antiphon.dialects.cohere.decode import decode as decode_cohere
from antiphon.dialects.ollama.decode import OllamaDecoder
from antiphon.dialects.ollama.decode import decode as decode_ollama
from antiphon.framing.sse import Frame
from tests.property.test_history import junk, mangled
from tests.support.stream_validator import check

texts = st.sampled_from(["", "a", "é\n", "{}", '{"x": 1}'])
names = st.sampled_from(["look", ""])
indexes = st.integers(-1, 2)
function = mangled(name=names, arguments=texts | st.just({"x": 1}))
call = mangled(id=st.sampled_from(["c", "d"]), function=function, name=names, parameters=junk)
calls = call | st.lists(call, max_size=2)

# --- Ollama ---------------------------------------------------------------------------------------

line = mangled(
    model=st.just("m"),
    message=mangled(content=texts, thinking=texts, tool_calls=calls, images=junk),
    response=texts,
    done=st.booleans(),
    done_reason=st.sampled_from(["stop", "length", "load", "", "odd"]),
    eval_count=st.integers(),
    logprobs=junk,
    error=st.none() | texts,
)

# --- Cohere ---------------------------------------------------------------------------------------

source = mangled(document=mangled(url=texts, title=texts), tool_output=junk)
cited = mangled(start=indexes, end=indexes, sources=st.lists(source, max_size=2), type=texts)
block = mangled(type=st.sampled_from(["text", "thinking"]), text=texts, thinking=texts)
message = mangled(
    content=block | st.lists(block, max_size=2) | texts,
    tool_plan=texts,
    tool_calls=calls,
    citations=cited | st.lists(cited, max_size=2),
)
usage = mangled(tokens=mangled(input_tokens=st.integers()), billed_units=junk)
kinds = st.sampled_from(
    """
    message-start content-start content-delta content-end tool-plan-delta tool-call-start
    tool-call-delta tool-call-end citation-start citation-end message-end debug
    """.split()
)
event = mangled(
    type=kinds,
    index=indexes,
    delta=mangled(
        message=message,
        finish_reason=st.sampled_from(["COMPLETE", "TOOL_CALL", "ERROR"]),
        usage=usage,
        error=st.none() | texts,
    ),
)
whole = mangled(message=message, finish_reason=st.just("COMPLETE"), usage=usage, id=texts)
older = mangled(
    event_type=st.sampled_from(
        [
            "stream-start",
            "text-generation",
            "tool-calls-chunk",
            "tool-calls-generation",
            "stream-end",
        ]
    ),
    generation_id=texts,
    text=texts,
    tool_calls=calls,
    finish_reason=st.just("COMPLETE"),
    response=mangled(meta=usage),
)


def events(documents: list[Any], opening: bytes, ending: bytes) -> bytes:
    return b"".join(opening + json.dumps(each).encode() + ending for each in documents)


@given(st.lists(line | junk, max_size=6))
def test_any_ollama_lines_give_exactly_one_terminal_event(lines: list[Any]) -> None:
    check(replay(events(lines, b"", b"\n"), dialect="ollama"))


@given(st.lists(event | older | whole | junk, max_size=8))
def test_any_cohere_events_give_exactly_one_terminal_event(documents: list[Any]) -> None:
    check(replay(events(documents, b"data: ", b"\n\n"), dialect="cohere"))


@given(whole | older | line | junk)
def test_any_whole_answer_gives_exactly_one_terminal_event(document: Any) -> None:
    for dialect in ("ollama", "cohere"):
        check(replay(json.dumps(document).encode(), dialect=dialect))


@given(st.lists(line | junk, max_size=4), st.lists(event | older | whole | junk, max_size=6))
def test_decoding_never_raises(lines: list[Any], documents: list[Any]) -> None:
    ollama, cohere = OllamaDecoder(), CohereDecoder()
    for each in lines:
        assert isinstance(ollama.feed(Frame(json.dumps(each).encode())), list)
    for each in documents:
        assert isinstance(cohere.feed(Frame(json.dumps(each).encode())), list)


@given(st.binary(max_size=40))
def test_any_bytes_decode_to_deltas(data: bytes) -> None:
    for decode in (decode_ollama, decode_cohere):
        for body in (data, b'{"message":' + data, b'{"message":{"content":"' + data + b'"}}'):
            assert decode(body)


@pytest.mark.parametrize("depth", [100, 100_000])
def test_deep_nesting_does_not_raise(depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    for name in (b"content", b"tool_calls", b"thinking", b"citations"):
        body = b'{"message":{"%b":%b},"done":true}' % (name, nested)
        assert decode_ollama(body)
        assert decode_cohere(body)
