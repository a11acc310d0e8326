"""Amazon's binary framing, rule by rule."""

from __future__ import annotations

import json
from struct import pack
from zlib import crc32

import pytest

from antiphon.wire.eventstream import BROKEN, EventStreamDecoder, read_headers
from antiphon.wire.sse import Frame
from tests.support import corpus
from tests.support.dialect_samples.aws_event_stream import event, exception, header, message

HELLO = event("hello", {"a": 1})
SAID = Frame(b'{"a": 1}', "hello")


def read(*chunks: bytes) -> list[Frame]:
    """The frames of a stream that came in these chunks and was then closed."""
    decoder = EventStreamDecoder()
    return [frame for chunk in chunks for frame in decoder.feed(chunk)] + decoder.close()


def damaged(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def prelude(total: int, headers: int) -> bytes:
    lengths = pack(">II", total, headers)
    return lengths + pack(">I", crc32(lengths))


def test_a_message_is_a_frame_named_by_its_event_type() -> None:
    assert read(HELLO) == [SAID]


def test_a_frame_leaves_with_the_last_byte_of_its_message() -> None:
    decoder = EventStreamDecoder()
    assert decoder.feed(HELLO[:-1]) == []
    assert decoder.feed(HELLO[-1:]) == [SAID]
    assert decoder.close() == []


def test_where_the_network_cuts_is_of_no_consequence() -> None:
    data = HELLO * 3
    assert read(*(data[i : i + 1] for i in range(len(data)))) == [SAID] * 3
    for place in range(len(data)):
        assert read(data[:place], data[place:]) == [SAID] * 3


def test_a_message_may_be_empty() -> None:
    assert read(message(b"")) == [Frame(b"", "")]


def test_an_exception_says_so_in_its_name() -> None:
    [frame] = read(exception("throttlingException", {"message": "slow"}))
    assert frame == Frame(b'{"message": "slow"}', "exception:throttlingException")


def test_an_error_without_a_shape_is_an_exception_made_of_its_headers() -> None:
    [frame] = read(
        message(
            b"",
            header(":message-type", b"error"),
            header(":error-code", b"InternalFailure"),
            header(":error-message", b"boom"),
        )
    )
    assert frame.event == "exception:InternalFailure"
    assert json.loads(frame.data) == {"message": "boom"}


def test_a_name_that_is_no_text_is_no_name() -> None:
    assert read(message(b"{}", header(":event-type", pack(">i", 7), 4))) == [Frame(b"{}", "")]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (0, b"", True),
        (1, b"", False),
        (2, b"\xff", -1),
        (3, pack(">h", -300), -300),
        (4, pack(">i", 70_000), 70_000),
        (5, pack(">q", -(2**40)), -(2**40)),
        (6, b"\x00\x01", b"\x00\x01"),
        (7, "é".encode(), "é"),
        (8, pack(">q", 1_700_000_000_000), 1_700_000_000_000),
        (9, bytes(range(16)), bytes(range(16))),
    ],
)
def test_a_header_of_every_type_is_read(kind: int, value: bytes, expected: object) -> None:
    headers = read_headers(header("a", value, kind) + header("b", b"x"))
    assert headers == {"a": expected, "b": "x"}


@pytest.mark.parametrize(
    "data", [header("a", b"", 10), header("a", b"xyz")[:-1], b"\x05ab", b"\x01a"]
)
def test_headers_of_another_form_are_no_headers(data: bytes) -> None:
    with pytest.raises(ValueError, match="header"):
        read_headers(data)


@pytest.mark.parametrize("place", range(len(HELLO)))
def test_no_damaged_byte_goes_unnoticed(place: int) -> None:
    frames = read(HELLO + damaged(HELLO, place) + HELLO)
    assert frames[0] == SAID
    assert [frame.event for frame in frames[1:]] == [BROKEN]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (damaged(HELLO, 3), b"prelude"),
        (damaged(HELLO, 20), b"The checksum of a message is wrong"),
        (prelude(15, 0), b"length"),
        (prelude(2**31, 0), b"length"),
        (prelude(2**20, 2**18), b"length"),
        (message(b"", b"\x01"), b"header"),
        (HELLO[:-1], b"ends inside"),
        (HELLO[:5], b"ends inside"),
    ],
)
def test_a_broken_stream_says_what_is_wrong(data: bytes, reason: bytes) -> None:
    [frame] = read(data)
    assert frame.event == BROKEN
    assert reason in frame.data


def test_nothing_comes_after_the_break() -> None:
    decoder = EventStreamDecoder()
    assert [frame.event for frame in decoder.feed(b"<html>bad gateway</html>")] == [BROKEN]
    assert decoder.feed(HELLO) == []
    assert decoder.close() == []


def test_amazons_own_client_reads_the_same_frames() -> None:
    reason = "Amazon's client is not here: pip install botocore"
    buffer = pytest.importorskip("botocore.eventstream", reason=reason).EventStreamBuffer()
    odd = header("odd", b"\x00\x01", 6) + header("on", b"", 0)
    data = HELLO + message(b"{}", header(":event-type", b"other"), odd) + exception("x", {"a": 2})
    buffer.add_data(data)
    theirs = []
    for each in buffer:
        headers = each.headers
        name = headers.get(":event-type") or "exception:" + headers[":exception-type"]
        theirs.append(Frame(each.payload, name))
    assert read(data) == theirs


@pytest.mark.skipif(not corpus.cases(wire="eventstream"), reason=corpus.ABSENT)
def test_every_recorded_stream_is_whole_and_carries_objects() -> None:
    recorded = corpus.cases(wire="eventstream")
    for case in recorded:
        frames = read(case.data)
        assert len(frames) == case.meta["events"]
        assert all(frame.event != BROKEN for frame in frames)
        assert all(isinstance(json.loads(frame.data), dict) for frame in frames)
