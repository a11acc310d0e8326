"""Surrogate pairs that are split over two frames are joined; other frames pass unchanged."""

from __future__ import annotations

import time

from antiphon.framing.ndjson import NDJSONDecoder
from antiphon.framing.sse import Frame, SSEDecoder
from antiphon.framing.surrogates import SurrogateJoiner
from tests.support.tables import table


def join(*lines: bytes) -> list[bytes]:
    joiner = SurrogateJoiner(NDJSONDecoder())
    frames = joiner.feed(b"\n".join(lines)) + joiner.close()
    return [frame.data for frame in frames]


def test_the_second_half_moves_to_the_frame_with_the_first() -> None:
    joined = join(rb'{"content":"a\ud83d"}', rb'{"content":"\ude00b"}')
    assert joined == [rb'{"content":"a\ud83d\ude00"}', rb'{"content":"b"}']


def test_a_frame_with_a_first_half_waits_for_the_next_frame() -> None:
    joiner = SurrogateJoiner(NDJSONDecoder())
    assert joiner.feed(b'{"a":"x"}\n') == [Frame(b'{"a":"x"}')]
    assert joiner.feed(b'{"a":"\\ud83d"}\n') == []
    assert joiner.feed(b'{"a":"\\ude00"}\n') == [
        Frame(rb'{"a":"\ud83d\ude00"}'),
        Frame(b'{"a":""}'),
    ]
    assert joiner.close() == []


def test_each_of_two_texts_gets_its_own_half() -> None:
    both = rb'{"function_call":{"arguments":"%b"},"tool_calls":[{"arguments":"%b"}],"content":"%b"}'
    first, second = join(both % ((rb"\ud83d",) * 3), both % ((rb"\ude00",) * 3))
    assert first == both % ((rb"\ud83d\ude00",) * 3)
    assert second == both % ((b"",) * 3)


@table(
    "lines",
    [
        (rb'{"a":"\\ud83d"}', rb'{"a":"x"}'),  # an escaped backslash, as in the JSON of arguments
        (rb'{"a":"\ud83d\ude00"}', rb'{"a":"x"}'),
        (rb'{"a":"\ud83d"}', rb'{"b":"\ude00"}', b"[DONE]"),
        (rb'{"a":"\ud83d"}', rb'{"a":"x\ude00"}'),
        (rb'{"token":"\ud83d"}', rb'{"token":"\ude00"}'),
    ],
)
def test_halves_that_do_not_belong_together_stay_where_they_are(lines: tuple[bytes, ...]) -> None:
    assert join(*lines) == list(lines)


def test_keep_alives_between_the_halves_keep_their_place() -> None:
    ping = b'{"type":"ping"}'
    joined = join(rb'{"text":"\ud83d"}', ping, rb'{"text":"\ude00"}')
    assert joined == [rb'{"text":"\ud83d\ude00"}', ping, b'{"text":""}']


def test_a_half_waits_for_a_few_frames_only() -> None:
    joiner = SurrogateJoiner(NDJSONDecoder())
    half, ping = rb'{"text":"\ud83d"}', b'{"type":"ping"}'
    assert joiner.feed(b"\n".join([half, ping, ping, ping, b""])) == []
    assert joiner.feed(ping + b"\n") == [Frame(half), *[Frame(ping)] * 4]


def test_the_name_of_an_event_stays_with_its_frame() -> None:
    joiner = SurrogateJoiner(SSEDecoder())
    stream = b'event: one\ndata: {"a":"\\ud83d"}\n\nevent: two\ndata: {"a":"\\ude00"}\n\n'
    assert [frame.event for frame in joiner.feed(stream)] == ["one", "two"]


HALVES = rb'{"a":[%b]}' % b",".join([rb'"\ud83d"'] * 25_000)


FOLLOWING = {
    "strings under another key": rb'{"b":[%b]}' % b",".join([rb'"\ude00"'] * 25_000),
    "strings under the same key": rb'{"a":[%b]}' % b",".join([rb'"\ude00"'] * 25_000),
    "a string without an end": rb'{"a":"' + rb"\"" * 100_000,
    "white space": rb'{"a"' + b" " * 200_000,
}


@table("name", FOLLOWING)
def test_the_work_is_linear_in_two_frames(name: str) -> None:
    began = time.process_time()
    join(HALVES, FOLLOWING[name])
    assert time.process_time() - began < 3  # were it quadratic, half a minute


def test_many_halves_are_joined_in_their_order() -> None:
    first, second = join(rb'{"a":["x\ud83d","y\ud83d"]}', rb'{"a":["\ude00","\ude01"]}')
    assert first == rb'{"a":["x\ud83d\ude00","y\ud83d\ude01"]}'
    assert second == rb'{"a":["",""]}'


def test_a_string_without_an_end_and_a_large_frame_keep_their_halves() -> None:
    for first in (rb'{"b":"\ud83d","a":"\ud83d', rb'{"a":"%b\ud83d"}' % (b"x" * 300_000)):
        assert join(first, rb'{"a":"\ude00"}') == [first, rb'{"a":"\ude00"}']
