"""Binary framing of any stream, at any chunk boundaries, with any damage."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon.framing.eventstream import BROKEN, EventStreamDecoder
from antiphon.framing.sse import Frame
from tests.support.dialect_samples.aws_event_stream import header, message

names = st.text(st.characters(codec="utf-8"), max_size=8)
messages = st.tuples(names, st.binary(max_size=40))
streams = st.lists(messages, max_size=6)
cuts = st.lists(st.integers(0, 400), max_size=12)


def encode(content: list[tuple[str, bytes]]) -> bytes:
    return b"".join(
        message(payload, header(":event-type", name.encode())) for name, payload in content
    )


def read(data: bytes, offsets: list[int]) -> list[Frame]:
    decoder = EventStreamDecoder()
    frames: list[Frame] = []
    start = 0
    for offset in [*sorted(offsets), len(data)]:
        frames += decoder.feed(data[start:offset])
        start = max(start, min(offset, len(data)))
    return frames + decoder.close()


@given(streams, cuts)
def test_encoded_messages_are_decoded_at_any_chunk_boundaries(
    content: list[tuple[str, bytes]], offsets: list[int]
) -> None:
    assert read(encode(content), offsets) == [Frame(payload, name) for name, payload in content]


@given(streams, cuts, st.integers(0, 10_000), st.integers(1, 255))
def test_a_damaged_byte_ends_the_stream_after_the_frames_before_it(
    content: list[tuple[str, bytes]], offsets: list[int], offset: int, mask: int
) -> None:
    data = bytearray(encode([*content, ("", b"")]))
    offset %= len(data)
    data[offset] ^= mask
    frames = read(bytes(data), offsets)
    whole = [Frame(payload, name) for name, payload in [*content, ("", b"")]]
    assert frames[-1].event == BROKEN
    assert frames[:-1] == whole[: len(frames) - 1]
    assert len(encode([*content, ("", b"")][: len(frames) - 1])) <= offset


@given(st.binary(max_size=200), cuts)
def test_any_bytes_give_the_same_frames_at_any_chunk_boundaries(
    data: bytes, offsets: list[int]
) -> None:
    assert read(data, offsets) == read(data, [])
