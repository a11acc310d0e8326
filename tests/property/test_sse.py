"""SSE and NDJSON framing of any stream at any chunk boundaries."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from antiphon.dialects.responses.render import SSEEncoder, event_to_dict
from antiphon.framing.ndjson import NDJSONDecoder
from antiphon.framing.sse import Frame, SSEDecoder


class Note(msgspec.Struct, frozen=True, tag_field="type", tag="test.note"):
    text: str


class Bare(msgspec.Struct, frozen=True, tag_field="type", tag="test.bare"):
    pass


# A little of everything that could be mistaken for something else.
values = st.text(st.sampled_from('a :{"\u2028\u2029\x85\x0b\x0c\ufeff\u00e9\U0001f600'), max_size=8)
names = st.sampled_from(["data", "event", "error", "id", "", "mood", " data", "\ufeffdata"])
lines = st.one_of(
    st.builds("{}{}{}".format, names, st.sampled_from(["", ":", ": ", ":  "]), values),
    st.sampled_from(["", "", "data: 1", ": ping", "\ufeffdata: 2", "data: {", "{", '"a": [', "}"]),
)
ends = st.sampled_from(["\n", "\n", "\r", "\r\n"])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Lines with their ends, perhaps with a BOM, and perhaps without a last line end."""
    any_line = st.builds("{}{}".format, lines, ends)
    events = st.sampled_from(["data: 1\n\n", "data: 23\n\n", "data:4\n\n", "data: \n\n"])
    body = "".join(draw(st.lists(any_line | events, max_size=16)))
    return (draw(st.sampled_from(["", "\ufeff"])) + body + draw(st.just("") | lines)).encode()


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def run(decoder: SSEDecoder | NDJSONDecoder, chunks: list[bytes]) -> list[Frame]:
    return [frame for chunk in chunks for frame in decoder.feed(chunk)] + decoder.close()


def slow_frames(data: bytes) -> list[Frame]:
    """A slow reference decoder: the whole text at once, field by field as in the standard."""
    frames, payload, event = [], list[str](), ""
    is_document = False
    text = data.decode()
    text = text[1:] if text.startswith("\ufeff") else text
    for line in [*re.split(r"\r\n|\r|\n", text), ""]:
        name, value = line.split(":", 1) if ":" in line else (line, "")
        value = value[1:] if value.startswith(" ") else value
        if line == "":
            if "\n".join(payload):
                frames.append(Frame("\n".join(payload).encode(), event))
            payload, event, is_document = [], "", False
        elif name == "data":
            payload.append(value)
        elif name == "event":
            event = value
        elif name == "error":  # not in the standard
            payload.append(value)
            event = name
        elif is_document or (payload[0] if payload else line[0]) in ("{", "["):  # nor is this
            is_document = True
            payload.append(line)
    return frames


def slow_lines(data: bytes) -> list[Frame]:
    text = data.removeprefix(b"\xef\xbb\xbf")
    return [Frame(line) for line in re.split(rb"[\r\n]", text) if not re.fullmatch(rb"\s*", line)]


cut_lists = st.lists(st.integers(0, 200), max_size=12)
readers: list[tuple[Callable[[], SSEDecoder | NDJSONDecoder], Callable[[bytes], list[Frame]]]] = [
    (SSEDecoder, slow_frames),
    (NDJSONDecoder, slow_lines),
]


@given(streams(), cut_lists)
def test_frames_do_not_depend_on_chunk_boundaries(data: bytes, cuts: list[int]) -> None:
    for decoder, slow in readers:
        expected = slow(data)
        assert run(decoder(), [data]) == expected
        assert run(decoder(), pieces(data, cuts)) == expected
        assert run(decoder(), pieces(data, list(range(len(data))))) == expected


@given(st.lists(st.lists(st.builds(Note, st.text()) | st.builds(Bare), max_size=4)), cut_lists)
def test_encoded_events_decode_to_the_same_events(
    batches: list[list[Note | Bare]], cuts: list[int]
) -> None:
    encoder = SSEEncoder()
    stream = b"".join(encoder.feed(batch) for batch in batches)
    events = [event for batch in batches for event in batch]
    frames = run(SSEDecoder(), pieces(stream, cuts))
    assert [msgspec.json.decode(frame.data) for frame in frames] == [
        event_to_dict(event, number) for number, event in enumerate(events)
    ]
    assert [msgspec.json.decode(frame.data, type=Note | Bare) for frame in frames] == events
    assert [frame.event for frame in frames] == [f"test.{type(e).__name__.lower()}" for e in events]
