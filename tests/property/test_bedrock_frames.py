"""Any Converse frames are decoded to deltas, and the bridge ends the response well formed."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from antiphon import replay
from antiphon.dialects.bedrock.decode import BedrockDecoder, decode
from antiphon.framing.sse import Frame
from tests.property.test_history import junk, mangled
from tests.support.dialect_samples.aws_event_stream import event
from tests.support.stream_validator import check

names = st.sampled_from(
    """
    messageStart contentBlockStart contentBlockDelta contentBlockStop messageStop metadata chunk
    exception:throttlingException !broken other
    """.split()
)
texts = st.sampled_from(["", "a", "{", "}", '{"a":1}'])
citations = mangled(location=mangled(web=mangled(url=texts, domain=texts)), title=texts)
thoughts = mangled(text=texts, signature=texts, redactedContent=texts, data=texts)
calls = mangled(toolUseId=texts, name=texts, type=st.sampled_from(["server_tool_use", "x"]))
deltas = st.one_of(
    mangled(text=texts),
    mangled(reasoningContent=thoughts),
    mangled(toolUse=mangled(input=texts)),
    mangled(citation=citations),
    junk,
)
inner = mangled(
    completion=texts,
    type=st.sampled_from(["message_start", "content_block_delta", "completion"]),
    stop_reason=texts,
    choices=junk,
    metadata=junk,
)
documents = mangled(
    contentBlockIndex=st.integers(0, 2),
    start=mangled(toolUse=calls),
    delta=deltas,
    stopReason=texts,
    usage=mangled(inputTokens=st.integers(-1, 9), totalTokens=st.integers(0, 20)),
    bytes=st.builds(lambda each: base64.b64encode(json.dumps(each).encode()).decode(), inner),
)
blocks = st.one_of(
    mangled(text=texts),
    mangled(toolUse=mangled(toolUseId=texts, name=texts, input=junk)),
    mangled(reasoningContent=mangled(reasoningText=thoughts)),
    mangled(citationsContent=mangled(content=junk, citations=st.lists(citations, max_size=2))),
    junk,
)
bodies = mangled(
    output=mangled(message=mangled(content=st.lists(blocks, max_size=4))),
    stopReason=texts,
    usage=junk,
)


@given(st.lists(st.tuples(names, documents | junk), max_size=8))
def test_any_frames_are_decoded_to_deltas(frames: list[tuple[str, Any]]) -> None:
    decoder = BedrockDecoder()
    for name, document in frames:
        found = decoder.feed(Frame(json.dumps(document).encode(), name))
        assert isinstance(found, list)
    assert decoder.close() == []


@given(st.lists(st.tuples(names, documents), max_size=8))
def test_any_stream_of_events_ends_well_formed(events: list[tuple[str, Any]]) -> None:
    replayed = replay(b"".join(event(*each) for each in events), dialect="bedrock")
    check(replayed)


@given(bodies | junk)
def test_any_whole_body_gives_deltas_and_ends_well_formed(body: Any) -> None:
    data = json.dumps(body).encode()
    assert decode(data)
    check(replay(data, dialect="bedrock"))


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_as_a_body(data: bytes) -> None:
    assert decode(data)
