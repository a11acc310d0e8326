"""The reader of one attempt: frames in pieces, and markup that a server left in the text."""

from __future__ import annotations

from antiphon.core.deltas import Delta, Reasoning, Text
from antiphon.core.stream.source import Source
from antiphon.core.translation.stream_reader import StreamReader
from antiphon.dialects.chat.dialect import ChatDialect
from antiphon.framing.limits import DEFAULT_LIMITS


def read(*chunks: bytes, guards: tuple[str, ...] = ()) -> list[Delta]:
    reader = StreamReader(Source(ChatDialect(), guards), DEFAULT_LIMITS)
    frames = [frame for chunk in chunks for frame in reader.read_frames(chunk)]
    decoded = [
        delta for frame in [*frames, *reader.close_frames()] for delta in reader.decoder.feed(frame)
    ]
    return [*reader.filter_markup(decoded), *reader.finish([])]


def content(text: str) -> bytes:
    return b'data: {"choices": [{"delta": {"content": "%s"}}]}\n\n' % text.encode()


def test_a_frame_may_come_in_pieces() -> None:
    frame = content("Hello")
    assert Text("Hello") in read(frame[:20], frame[20:])


def test_halves_of_a_surrogate_pair_in_two_frames_are_joined() -> None:
    found = read(content(r"\ud83d"), content(r"\ude00"))
    assert "".join(delta.text for delta in found if isinstance(delta, Text)) == "\U0001f600"


def test_markup_of_a_guard_is_taken_out() -> None:
    found = read(content("<think>Hm.</think>Yes."), guards=("think",))
    assert [delta.text for delta in found if isinstance(delta, Reasoning)] == ["Hm."]
    assert [delta.text for delta in found if isinstance(delta, Text)] == ["Yes."]
