"""Any Gemini stream, however malformed, becomes a well-formed response."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from antiphon import replay
from antiphon.dialects.gemini.decode import GeminiDecoder, decode
from antiphon.framing.sse import Frame
from tests.property.test_history import junk, mangled
from tests.support.stream_validator import check

words = st.sampled_from(["", "a", "b c", "°"])
numbers = st.integers(-2, 9)
pieces = mangled(
    jsonPath=st.sampled_from(["$.a", "$.b", "$.a[0]", "$.a.b", "$"]),
    stringValue=words,
    willContinue=st.booleans(),
)
calls: st.SearchStrategy[dict[str, Any]] = st.just({}) | mangled(
    name=st.sampled_from(["f", "g"]),
    id=st.sampled_from(["x", "y", ""]),
    args=st.dictionaries(words, junk, max_size=2),
    partialArgs=st.lists(pieces, max_size=3),
    willContinue=st.booleans(),
)
parts = st.one_of(
    junk,
    mangled(text=words, thought=st.booleans(), thoughtSignature=words),
    mangled(functionCall=calls, thoughtSignature=words),
    mangled(executableCode=junk, thoughtSignature=words),
    mangled(inlineData=junk, thoughtSignature=words),
)
segments = mangled(startIndex=numbers, endIndex=numbers, text=words)
supports = mangled(segment=segments, groundingChunkIndices=st.lists(numbers | junk, max_size=2))
candidates = mangled(
    content=mangled(parts=st.lists(parts, max_size=3)),
    index=st.integers(0, 1),
    finishReason=numbers
    | st.sampled_from(["STOP", "MAX_TOKENS", "OTHER", "MALFORMED_FUNCTION_CALL", ""]),
    finishMessage=words,
    citationMetadata=mangled(citations=st.lists(mangled(uri=words, startIndex=numbers))),
    groundingMetadata=mangled(
        groundingChunks=st.lists(mangled(web=mangled(uri=words, title=words)), max_size=2),
        groundingSupports=st.lists(supports, max_size=2),
    ),
)
chunks = junk | mangled(
    candidates=st.lists(candidates, max_size=2),
    usageMetadata=mangled(promptTokenCount=numbers, totalTokenCount=numbers),
    promptFeedback=mangled(blockReason=st.sampled_from(["SAFETY", "", "OTHER"])),
    modelVersion=words,
    error=st.none(),
)


@given(st.lists(chunks, max_size=5))
def test_any_chunks_become_a_well_formed_response(sent: list[Any]) -> None:
    lines = [b"data: " + json.dumps(each).encode() + b"\r\n\r\n" for each in sent]
    check(replay(b"".join(lines), dialect="gemini"))
    whole = replay(json.dumps(sent).encode(), dialect="gemini")
    check(whole)
    assert whole[-1]["response"]["status"] in ("completed", "incomplete", "failed")


@given(st.lists(chunks, max_size=4))
def test_a_stream_and_an_array_of_its_chunks_decode_alike(sent: list[Any]) -> None:
    decoder = GeminiDecoder()
    streamed = [d for each in sent for d in decoder.feed(Frame(json.dumps([each]).encode()))]
    assert streamed + decoder.close() == decode(json.dumps(sent).encode())


@given(st.binary(max_size=40))
def test_any_bytes_give_deltas(data: bytes) -> None:
    assert isinstance(GeminiDecoder().feed(Frame(data)), list)
    assert decode(data) or data.strip() == b"[]" or data.strip().startswith(b"{")
