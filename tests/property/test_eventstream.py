"""Binary framing holds for any stream, any cut and any damage."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon.wire.eventstream import BROKEN, EventStreamDecoder
from antiphon.wire.sse import Frame
from tests.support.dialect_samples.aws_event_stream import header, message

names = st.text(st.characters(codec="utf-8"), max_size=8)
messages = st.tuples(names, st.binary(max_size=40))
streams = st.lists(messages, max_size=6)
cuts = st.lists(st.integers(0, 400), max_size=12)


def written(said: list[tuple[str, bytes]]) -> bytes:
    return b"".join(
        message(payload, header(":event-type", name.encode())) for name, payload in said
    )


def read(data: bytes, places: list[int]) -> list[Frame]:
    decoder = EventStreamDecoder()
    frames: list[Frame] = []
    at = 0
    for place in [*sorted(places), len(data)]:
        frames += decoder.feed(data[at:place])
        at = max(at, min(place, len(data)))
    return frames + decoder.close()


@given(streams, cuts)
def test_what_was_written_is_read_however_it_was_cut(
    said: list[tuple[str, bytes]], places: list[int]
) -> None:
    assert read(written(said), places) == [Frame(payload, name) for name, payload in said]


@given(streams, cuts, st.integers(0, 10_000), st.integers(1, 255))
def test_damage_spares_what_came_before_it_and_ends_the_stream(
    said: list[tuple[str, bytes]], places: list[int], place: int, mask: int
) -> None:
    data = bytearray(written([*said, ("", b"")]))
    place %= len(data)
    data[place] ^= mask
    frames = read(bytes(data), places)
    whole = [Frame(payload, name) for name, payload in [*said, ("", b"")]]
    assert frames[-1].event == BROKEN
    assert frames[:-1] == whole[: len(frames) - 1]
    assert len(written([*said, ("", b"")][: len(frames) - 1])) <= place


@given(st.binary(max_size=200), cuts)
def test_any_bytes_give_the_same_frames_however_they_were_cut(
    data: bytes, places: list[int]
) -> None:
    assert read(data, places) == read(data, [])
