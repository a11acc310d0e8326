"""Decoders of SSE and NDJSON."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import pytest

from antiphon.errors import ResponseTooLarge
from antiphon.framing.ndjson import NDJSONDecoder
from antiphon.framing.sse import Frame, SSEDecoder
from tests.support import corpus
from tests.support.tables import table


def read(*chunks: bytes) -> list[Frame]:
    """The frames of a stream that arrives in these chunks and is then closed."""
    decoder = SSEDecoder()
    return [frame for chunk in chunks for frame in decoder.feed(chunk)] + decoder.close()


def read_lines(*chunks: bytes) -> list[Frame]:
    decoder = NDJSONDecoder()
    return [frame for chunk in chunks for frame in decoder.feed(chunk)] + decoder.close()


def bytewise(data: bytes) -> Iterable[bytes]:
    return (data[i : i + 1] for i in range(len(data)))


# --- Limits ---------------------------------------------------------------------------------------


@table("size", [1, 7, 1000])
@table("opening", [b"data: ", b"data:", b": ", b"event: ", b"x"])
def test_a_line_beyond_the_limit_is_too_large(opening: bytes, size: int) -> None:
    decoder = SSEDecoder(max_bytes=100)
    line = opening + b"x" * 101
    pieces = [line[start : start + size] for start in range(0, len(line), size)]
    with pytest.raises(ResponseTooLarge, match="frame_bytes"):
        deque(map(decoder.feed, pieces))


def test_an_event_of_many_lines_beyond_the_limit_is_too_large() -> None:
    decoder = SSEDecoder(max_bytes=100)
    with pytest.raises(ResponseTooLarge, match="frame_bytes"):
        deque(map(decoder.feed, [b"data: x\n"] * 51))


def test_events_up_to_the_limit_are_read_again_and_again() -> None:
    decoder = SSEDecoder(max_bytes=100)
    line = b"data: " + b"x" * 94 + b"\n"
    for _ in range(3):
        frames = [frame for piece in bytewise(line + b"\n") for frame in decoder.feed(piece)]
        assert frames == [Frame(b"x" * 94)]


@table("data", [b"data:\n", b"data:\ndata:\n", b"data: a\ndata:\ndata: b\n"])
def test_an_event_in_several_chunks_is_the_same_as_in_one(data: bytes) -> None:
    assert read(*bytewise(data + b"\n")) == read(data + b"\n")
    assert read(data, b"\n") == read(data + b"\n")


def test_a_json_line_beyond_the_limit_is_too_large() -> None:
    decoder = NDJSONDecoder(max_bytes=100)
    assert decoder.feed(b"x" * 100 + b"\n") == [Frame(b"x" * 100)]
    decoder.feed(b"x" * 60)
    with pytest.raises(ResponseTooLarge, match="frame_bytes = 100"):
        decoder.feed(b"x" * 60)


# --- SSE in ---------------------------------------------------------------------------------------


def test_a_frame_is_delivered_at_its_blank_line() -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b"data: one\n") == []
    assert decoder.feed(b"\n") == [Frame(b"one")]
    assert decoder.close() == []


def test_one_chunk_may_contain_many_frames() -> None:
    assert SSEDecoder().feed(b"data: 1\n\ndata: 2\n\ndata: 3\n\n") == [
        Frame(b"1"),
        Frame(b"2"),
        Frame(b"3"),
    ]


@table("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_may_end_with_cr_or_lf_or_both(end: bytes) -> None:
    stream = end.join([b"event: greeting", b"data: 1", b"", b"data: 2", b"data: 3", b"", b""])
    expected = [Frame(b"1", "greeting"), Frame(b"2\n3")]
    assert read(stream) == expected
    assert read(*bytewise(stream)) == expected


def test_line_ends_may_be_mixed_within_a_stream() -> None:
    assert read(b"data: 1\r\ndata: 2\rdata: 3\n\r\ndata: 4\n\n") == [Frame(b"1\n2\n3"), Frame(b"4")]


def test_a_crlf_cut_in_two_is_one_line_end() -> None:
    assert read(b"data: 1\r", b"\ndata: 2\r", b"\n\r", b"\n") == [Frame(b"1\n2")]


def test_an_empty_chunk_inside_a_crlf_changes_nothing() -> None:
    assert read(b"data: 1\r", b"", b"\ndata: 2\r\n\r\n") == [Frame(b"1\n2")]


def test_a_second_lf_after_a_cut_crlf_is_a_blank_line() -> None:
    decoder = SSEDecoder()
    assert [decoder.feed(chunk) for chunk in (b"data: 1\r", b"\n", b"\n")] == [
        [],
        [],
        [Frame(b"1")],
    ]


def test_a_cr_alone_ends_a_frame_without_waiting_for_more() -> None:
    assert SSEDecoder().feed(b"data: 1\r\r") == [Frame(b"1")]


def test_lines_of_data_are_joined_by_a_newline() -> None:
    assert read(b'data: {"a":\ndata:\ndata: 1}\n\n') == [Frame(b'{"a":\n\n1}')]


def test_at_most_one_space_after_the_colon_is_dropped() -> None:
    assert read(b"data:0\n\ndata: 1\n\ndata:  2\n\ndata:\t3\n\n") == [
        Frame(b"0"),
        Frame(b"1"),
        Frame(b" 2"),
        Frame(b"\t3"),
    ]


def test_only_the_first_colon_separates() -> None:
    assert read(b"event:a:b\ndata: c: d\n\n") == [Frame(b"c: d", "a:b")]


def test_an_event_name_applies_to_one_frame() -> None:
    assert read(b"event: first\nevent:last\ndata: 1\n\ndata: 2\n\n") == [
        Frame(b"1", "last"),
        Frame(b"2"),
    ]


def test_the_name_of_an_event_without_data_does_not_apply_to_the_next() -> None:
    assert read(b"event: ping\n\ndata: 1\n\n") == [Frame(b"1")]


def test_an_event_name_that_is_not_utf8_is_read_with_replacements() -> None:
    assert read(b"event: caf\xe9\ndata: 1\n\n") == [Frame(b"1", "caf\ufffd")]


def test_other_fields_are_ignored() -> None:
    assert read(b"id: 7\nretry: 100\nretry\nmood: fine\n data: 0\nDATA: 0\ndata: 1\n\n") == [
        Frame(b"1")
    ]


def test_a_field_called_error_is_the_data_of_an_event_of_that_name() -> None:
    """llama.cpp until September 2025: ggml-org/llama.cpp pull request 16109."""
    assert read(b'data: 1\n\nerror: {"code":400}\n\ndata: [DONE]\n\n') == [
        Frame(b"1"),
        Frame(b'{"code":400}', "error"),
        Frame(b"[DONE]"),
    ]


def test_a_json_document_without_a_field_is_data() -> None:
    """Gemini, if a stream fails: googleapis/python-genai#1162, BerriAI/litellm#10410."""
    document = b'{\n  "error": {\n\t"code": 429,\n"details": [\n{}\n]\n  }\n}'
    stream = b"data: 1\n\n" + document + b"\n"
    assert read(stream) == read(*bytewise(stream)) == [Frame(b"1"), Frame(document)]
    stream = b"data: " + document  # only the first line has it
    assert read(stream) == read(*bytewise(stream)) == [Frame(document)]


def test_a_line_behind_other_data_is_no_json_document() -> None:
    assert read(b'data: 1\n{"a": 2}\n\n') == [Frame(b"1")]


@table("stream", [b"\n\n\n", b"id: 1\n\n", b"data\n\n", b"data:\n\n", b"data: \n\n"])
def test_a_frame_without_data_is_not_delivered(stream: bytes) -> None:
    assert read(stream, b"data: 1\n\n") == [Frame(b"1")]


def test_comments_are_skipped() -> None:
    assert read(b": PROCESSING\n\n:\ndata: 1\n: inside\ndata: 2\n\n") == [Frame(b"1\n2")]


@table("chunks", [[b"\xef\xbb\xbfdata: 1\n\n"], [b"\xef", b"\xbb\xbfd", b"ata: 1"]])
def test_a_leading_byte_order_mark_is_dropped(chunks: list[bytes]) -> None:
    assert read(*chunks) == [Frame(b"1")]


def test_a_byte_order_mark_elsewhere_is_data() -> None:
    assert read(b"data: \xef\xbb\xbf1\n\n\xef\xbb\xbfdata: 2\n\n") == [Frame(b"\xef\xbb\xbf1")]


@table("character", "\u2028 \u2029 \x85 \x0b \x0c \x1c \x1d \x1e".split(" "))
def test_only_cr_and_lf_end_a_line(character: str) -> None:
    data = f'{{"text":"a{character}b"}}'.encode()
    assert read(b"data: " + data + b"\n\n") == [Frame(data)]
    assert read(*bytewise(b"data: " + data + b"\n\n")) == [Frame(data)]


@table("end", [b"", b"\n", b"\r", b"\r\n"])
def test_a_last_frame_without_its_blank_line_is_delivered_at_close(end: bytes) -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b"event: end\ndata: 1" + end) == []
    assert decoder.close() == [Frame(b"1", "end")]
    assert decoder.close() == []


def test_an_empty_stream_has_no_frames() -> None:
    assert read() == read(b"") == read(b"\xef\xbb\xbf") == []


def test_a_large_frame_in_one_byte_chunks_is_read() -> None:
    text = b"0123456789" * 20_000
    assert read(*bytewise(b"data: " + text + b"\n\n")) == [Frame(text)]


@pytest.mark.skipif(corpus.root() is None, reason=corpus.ABSENT)
def test_recorded_streams_give_the_same_frames_whole_and_byte_by_byte() -> None:
    recorded = corpus.cases(wire="sse")
    assert recorded
    for case in recorded:
        frames = read(case.data)
        assert frames, case.id
        if len(case.data) < 60_000:
            assert read(*bytewise(case.data)) == frames, case.id
        size = len(case.data) // 97 + 1
        assert read(*(case.data[i : i + size] for i in range(0, len(case.data), size))) == frames


# --- NDJSON in ------------------------------------------------------------------------------------


def test_every_line_of_ndjson_is_a_frame() -> None:
    decoder = NDJSONDecoder()
    assert decoder.feed(b'{"a":1}\n{"b"') == [Frame(b'{"a":1}')]
    assert decoder.feed(b":2}\n") == [Frame(b'{"b":2}')]
    assert decoder.close() == []


def test_blank_lines_of_ndjson_are_skipped() -> None:
    assert read_lines(b"\n1\n \t\n\r\n2\r\n") == [Frame(b"1"), Frame(b"2")]


def test_a_last_line_of_ndjson_needs_no_newline() -> None:
    assert read_lines(*bytewise(b"1\r\n2")) == [Frame(b"1"), Frame(b"2")]


def test_events_after_the_first_are_split_at_blank_lines_only_if_each_is_one_line_of_data() -> None:
    cases = {
        b"data: 1\n\ndata: 2\n\n": [b"1", b"2"],
        b"data: 1\n\ndata: 2\n": [b"1", b"2"],
        b"data: 1\rdata: 2\n\n": [b"1\n2"],
        b"data: 1\ndata: 2\n\n": [b"1\n2"],
        b"data: 1\n\n\n\ndata: 2\n\n": [b"1", b"2"],
        b"data: \n\ndata: 2\n\n": [b"2"],
        b": ping\n\ndata: 2\n\n": [b"2"],
        b"data:2\n\n": [b"2"],
    }
    for chunk, payloads in cases.items():
        decoder = SSEDecoder()
        assert decoder.feed(b"data: 0\n\n") == [Frame(b"0")]
        assert decoder.feed(chunk) + decoder.close() == [Frame(each) for each in payloads], chunk
