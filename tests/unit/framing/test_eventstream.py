"""Decoder of Amazon's binary event stream."""

from __future__ import annotations

import json
from struct import pack
from zlib import crc32

import pytest

from antiphon.errors import ResponseTooLarge
from antiphon.framing.eventstream import BROKEN, EventStreamDecoder, read_headers
from antiphon.framing.sse import Frame
from tests.support import corpus
from tests.support.dialect_samples.aws_event_stream import event, exception, header, message
from tests.support.tables import table

HELLO = event("hello", {"a": 1})
FRAME = Frame(b'{"a": 1}', "hello")


def read(*chunks: bytes) -> list[Frame]:
    """The frames of a stream that arrives in these chunks and is then closed."""
    decoder = EventStreamDecoder()
    return [frame for chunk in chunks for frame in decoder.feed(chunk)] + decoder.close()


def damage(data: bytes, offset: int) -> bytes:
    return data[:offset] + bytes([data[offset] ^ 0xFF]) + data[offset + 1 :]


def prelude(total: int, headers: int) -> bytes:
    lengths = pack(">II", total, headers)
    return lengths + pack(">I", crc32(lengths))


def test_a_message_is_a_frame_named_by_its_event_type() -> None:
    assert read(HELLO) == [FRAME]


def test_a_frame_is_delivered_with_the_last_byte_of_its_message() -> None:
    decoder = EventStreamDecoder()
    assert decoder.feed(HELLO[:-1]) == []
    assert decoder.feed(HELLO[-1:]) == [FRAME]
    assert decoder.close() == []


def test_chunk_boundaries_do_not_change_the_frames() -> None:
    data = HELLO * 3
    assert read(*(data[i : i + 1] for i in range(len(data)))) == [FRAME] * 3
    for offset in range(len(data)):
        assert read(data[:offset], data[offset:]) == [FRAME] * 3


def test_a_message_may_be_empty() -> None:
    assert read(message(b"")) == [Frame(b"", "")]


def test_the_frame_of_an_exception_is_named_by_its_type() -> None:
    [frame] = read(exception("throttlingException", {"message": "slow"}))
    assert frame == Frame(b'{"message": "slow"}', "exception:throttlingException")


def test_an_unmodeled_error_is_an_exception_built_from_its_headers() -> None:
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


def test_an_event_type_that_is_not_a_string_is_ignored() -> None:
    assert read(message(b"{}", header(":event-type", pack(">i", 7), 4))) == [Frame(b"{}", "")]


@table(
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
def test_malformed_headers_are_rejected(data: bytes) -> None:
    with pytest.raises(ValueError, match="header"):
        read_headers(data)


@table("offset", range(len(HELLO)))
def test_a_change_of_any_byte_is_detected(offset: int) -> None:
    frames = read(HELLO + damage(HELLO, offset) + HELLO)
    assert frames[0] == FRAME
    assert [frame.event for frame in frames[1:]] == [BROKEN]


@table(
    ("data", "reason"),
    [
        (damage(HELLO, 3), b"prelude"),
        (damage(HELLO, 20), b"The checksum of a message is wrong"),
        (prelude(15, 0), b"length"),
        (prelude(2**20, 2**18), b"length"),
        (message(b"", b"\x01"), b"header"),
        (HELLO[:-1], b"ends inside"),
        (HELLO[:5], b"ends inside"),
    ],
)
def test_the_last_frame_of_a_malformed_stream_has_the_reason(data: bytes, reason: bytes) -> None:
    [frame] = read(data)
    assert frame.event == BROKEN
    assert reason in frame.data


def test_a_message_beyond_the_limit_is_too_large() -> None:
    decoder = EventStreamDecoder(max_bytes=len(HELLO))
    assert decoder.feed(HELLO) == [FRAME]
    with pytest.raises(ResponseTooLarge, match="frame_bytes"):
        decoder.feed(prelude(len(HELLO) + 1, 0))


def test_messages_before_one_beyond_the_limit_are_delivered() -> None:
    decoder = EventStreamDecoder(max_bytes=len(HELLO))
    assert decoder.feed(HELLO + prelude(300_000_000, 0)) == [FRAME]
    with pytest.raises(ResponseTooLarge):
        decoder.feed(b"x")


def test_nothing_is_decoded_after_a_malformed_message() -> None:
    decoder = EventStreamDecoder()
    assert [frame.event for frame in decoder.feed(b"<html>bad gateway</html>")] == [BROKEN]
    assert decoder.feed(HELLO) == []
    assert decoder.close() == []


def test_botocore_reads_the_same_frames() -> None:
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
def test_every_recorded_stream_is_valid_and_contains_json_objects() -> None:
    recorded = corpus.cases(wire="eventstream")
    for case in recorded:
        frames = read(case.data)
        assert len(frames) == case.meta["events"]
        assert all(frame.event != BROKEN for frame in frames)
        assert all(isinstance(json.loads(frame.data), dict) for frame in frames)
