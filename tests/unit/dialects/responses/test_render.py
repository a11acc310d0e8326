"""Rendering of events: server-sent events and documents."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.core.events import (
    ArgumentsDelta,
    Completed,
    Created,
    Event,
    HostedToolEvent,
    InProgress,
    ReasoningDelta,
    TextDelta,
)
from antiphon.core.response import Response
from antiphon.dialects.client_dialect import EventBatch
from antiphon.dialects.responses.render import (
    DONE,
    SSEEncoder,
    encode_document,
    encode_event,
    event_to_dict,
    render_batch,
    with_frames,
)
from antiphon.framing.sse import Frame, SSEDecoder


class Note(msgspec.Struct, frozen=True, tag_field="type", tag="test.note"):
    text: str = ""
    marks: tuple[int, ...] = ()


class Bare(msgspec.Struct, frozen=True, tag_field="type", tag="test.bare"):
    pass


def read(*chunks: bytes) -> list[Frame]:
    """The frames of a stream that arrives in these chunks and is then closed."""
    decoder = SSEDecoder()
    return [frame for chunk in chunks for frame in decoder.feed(chunk)] + decoder.close()


def test_an_event_is_named_and_numbered() -> None:
    encoder = SSEEncoder()
    assert encoder.feed([Note("hi\u2028\n", (1, 2))]) == (
        b"event: test.note\n"
        b'data: {"type":"test.note","sequence_number":0,'
        b'"text":"hi\xe2\x80\xa8\\n","marks":[1,2]}\n\n'
    )


def test_one_event_is_encoded_as_in_a_stream() -> None:
    encoder = SSEEncoder()
    encoder.feed([Bare()] * 7)
    assert encode_event(Note("hi"), 7) == encoder.feed([Note("hi")])


def test_an_event_without_fields_is_only_named_and_numbered() -> None:
    assert SSEEncoder().feed([Bare()]) == (
        b'event: test.bare\ndata: {"type":"test.bare","sequence_number":0}\n\n'
    )


def test_sequence_numbers_continue_across_batches() -> None:
    encoder = SSEEncoder()
    stream = encoder.feed([Bare(), Note()]) + encoder.feed([]) + encoder.feed([Bare()] * 9)
    numbers = [msgspec.json.decode(frame.data)["sequence_number"] for frame in read(stream)]
    assert numbers == list(range(11))
    assert encoder.sequence_number == 11


def test_encoding_something_else_than_an_event_fails_and_uses_no_number() -> None:
    encoder = SSEEncoder()
    for stranger in (Frame(b""), msgspec.defstruct("Other", [], tag_field="kind", tag="a")()):
        with pytest.raises(TypeError, match="is not an event"):
            encoder.feed([stranger])
    assert encoder.sequence_number == 0


def test_an_event_of_a_hosted_tool_has_its_own_name() -> None:
    encoder = SSEEncoder()
    event = HostedToolEvent("response.x.searching", {"item_id": "x_1", "output_index": 0})
    assert encoder.feed([Bare(), event, Bare()]).splitlines()[3:5] == [
        b"event: response.x.searching",
        b'data: {"type":"response.x.searching","sequence_number":1,'
        b'"item_id":"x_1","output_index":0}',
    ]
    assert encoder.sequence_number == 3
    assert event_to_dict(event, 1) == {
        "type": "response.x.searching",
        "sequence_number": 1,
        "item_id": "x_1",
        "output_index": 0,
    }


def test_an_event_is_encoded_as_a_document_without_framing() -> None:
    hosted = HostedToolEvent("response.x.searching", {"item_id": "x_1"})
    for event in (Note("hi", (1,)), Bare(), hosted):
        [frame] = read(encode_event(event, 7))
        assert encode_document(event, 7) == frame.data


def test_a_batch_is_rendered_once() -> None:
    batch = EventBatch(3, [HostedToolEvent("response.x.searching", {})])
    rendered = with_frames(batch)
    assert rendered.frames == render_batch(batch)
    assert render_batch(rendered) is rendered.frames
    assert (rendered.first, rendered.events) == (batch.first, batch.events)


def test_done_is_a_complete_frame() -> None:
    assert read(DONE) == [Frame(b"[DONE]")]


def test_event_to_dict_gives_what_a_client_parses() -> None:
    event = Note("hi", (1, 2))
    document = event_to_dict(event, 0)
    assert document == msgspec.json.decode(read(SSEEncoder().feed([event]))[0].data)
    assert list(document) == ["type", "sequence_number", "text", "marks"]
    assert event_to_dict(Bare(), 7) == {"type": "test.bare", "sequence_number": 7}


def test_pieces_of_different_parts_and_items_keep_their_places_and_their_text() -> None:
    events: list[Event] = [
        TextDelta("msg_1", 0, 0, "a"),
        TextDelta("msg_1", 0, 1, "b"),
        TextDelta("msg_1", 2, 0, '"delta":""'),
        TextDelta("100%d", 0, 0, "%b %"),
        TextDelta("msg_1", 0, 0, "c", ({"token": "c"},)),
        ReasoningDelta("rs_1", 0, 0, "d"),
        ReasoningDelta("rs_1", 0, 1, "é\n"),
        ArgumentsDelta("fc_1", 1, "{}"),
        ArgumentsDelta("fc_1", 2, "{}"),
    ]
    expected = [
        b"event: %b\ndata: %b\n\n"
        % (str(event.__struct_config__.tag).encode(), encode_document(event, number))
        for number, event in enumerate(events, 7)
    ]
    assert render_batch(EventBatch(7, events)) == b"".join(expected)


def test_the_first_two_events_repeat_the_same_response_each_with_its_number() -> None:
    response = Response(id="resp_1", created_at=1, model="m", instructions="50 % of %d")
    other = msgspec.structs.replace(response, status="failed")
    for second in (response, other):
        events: list[Event] = [Created(response), InProgress(second), Completed(other)]
        one_by_one = [encode_event(event, 7 + at) for at, event in enumerate(events)]
        batch = EventBatch(7, events)
        assert render_batch(batch) == b"".join(one_by_one)
