"""The parser of responses: heads, bodies, ends and limits."""

from __future__ import annotations

from antiphon.engine.http1.parser import MAX_FIELD_BYTES, MAX_FIELDS, ResponseParser

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


def read(*segments: bytes) -> tuple[ResponseParser, bytes]:
    parser = ResponseParser()
    return parser, b"".join([parser.feed(each) for each in segments])


def test_a_head_has_lower_case_names_and_the_first_value() -> None:
    parser, _ = read(OK + b"X-One:  a \t\r\nx-one: b\r\nX-Empty:\r\nContent-Length: 0\r\n\r\n")
    head = parser.head
    assert head is not None
    assert head.status == 200
    assert head.headers == {"x-one": "a", "x-empty": "", "content-length": "0"}
    assert (head.keeps_alive, head.ends_at_close, head.encoding) == (True, False, None)
    assert parser.is_complete


def test_the_chunks_of_one_read_are_one_piece() -> None:
    parser = ResponseParser()
    assert parser.feed(CHUNKED + b"2\r\nab\r\n3\r\ncde\r\n") == b"abcde"
    assert not parser.is_complete
    assert parser.feed(b"1\r\nf\r\n0\r\n\r\n") == b"f"
    assert parser.is_complete


def test_one_response_follows_another() -> None:
    parser, body = read(OK + b"content-length: 2\r\n\r\nab")
    assert (body, parser.is_complete, parser.has_surplus) == (b"ab", True, False)
    assert parser.feed(b"HTTP/1.1 4") == b""
    assert (parser.head, parser.is_complete) == (None, False)
    assert parser.feed(b"04 No\r\ncontent-length: 1\r\n\r\nc") == b"c"
    assert parser.head is not None
    assert (parser.head.status, parser.is_complete) == (404, True)


def test_bytes_after_the_end_are_surplus_and_not_read() -> None:
    for surplus in (b"H", b"late bytes", OK + b"content-length: 1\r\n\r\nx"):
        parser, body = read(OK + b"content-length: 2\r\n\r\nab" + surplus)
        assert (body, parser.is_complete, parser.has_surplus) == (b"ab", True, True), surplus
        assert parser.error is None


def test_a_line_end_after_the_response_carries_nothing() -> None:
    parser, _ = read(OK + b"content-length: 2\r\n\r\nab\r\n")
    assert (parser.is_complete, parser.has_surplus) == (True, False)


def test_an_error_comes_after_the_body_that_was_read_before_it() -> None:
    parser, body = read(CHUNKED + b"2\r\nab\r\nzz\r\n")
    assert body == b"ab"
    assert str(parser.error) == "Invalid character in chunk size"


def test_informational_responses_are_skipped() -> None:
    parser, body = read(
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Hints\r\nlink: a\r\n\r\n" + OK + b"content-length: 1\r\n\r\nx",
    )
    assert parser.head is not None
    assert (parser.head.status, "link" in parser.head.headers, body) == (200, False, b"x")


def test_a_switch_of_protocols_ends_the_connection() -> None:
    head = b"HTTP/1.1 101 Switch\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"
    for surplus in (b"", b"other bytes"):
        parser, body = read(head + surplus)
        assert parser.head is not None
        assert (parser.head.status, parser.head.keeps_alive, body) == (101, False, b"")
        assert parser.is_complete


def test_heads_have_limits() -> None:
    name = b"x: "
    assert read(OK + name + b"a" * (MAX_FIELD_BYTES - 1) + b"\r\n")[0].error is None
    for too_much, reason in (
        (OK + name + b"a" * MAX_FIELD_BYTES + b"\r\ny: 1\r\n", "a header is longer"),
        (OK + b"x: 1\r\n" * (MAX_FIELDS + 1) + b"\r\n", f"more than {MAX_FIELDS} headers"),
        (OK + b"x: \0\r\ny: 1\r\n", "null byte"),
        (b"HTTP/1.1 200 " + b"a" * 8191, "the status line"),
        (b"HTTP/1.1 099 OK\r\n\r\n", "the status is 99"),
        (CHUNKED + b"0\r\n" + b"x: 1\r\n" * (MAX_FIELDS + 1), f"more than {MAX_FIELDS} headers"),
    ):
        assert reason in str(read(too_much)[0].error), reason


def test_what_never_becomes_a_header_or_a_body_has_a_limit() -> None:
    endless = [b"a" * 10_000] * 8
    for start in (OK + b"x: ", OK + b"x", CHUNKED + b"1;", CHUNKED + b"0\r\nx: "):
        assert "a line is longer" in str(read(start, *endless)[0].error), start
    folded = [b"a\r\n " * 2_500] * 8
    assert "a line is longer" in str(read(OK + b"x: ", *folded)[0].error)
    assert "a line is longer" in str(read(OK + b"x: " + b"a" * 80_000)[0].error)


def test_many_complete_headers_in_one_read_are_no_long_line() -> None:
    parser, _ = read(OK + (b"x: " + b"a" * 2_000 + b"\r\n") * 100 + b"y: ")
    assert parser.error is None


def test_a_body_without_a_length_is_not_limited() -> None:
    parser, body = read(OK + b"\r\n", *[b"a" * 50_000] * 4)
    assert (len(body), parser.error) == (200_000, None)


def test_only_what_is_asked_for_is_decoded() -> None:
    def encoding(value: bytes) -> ResponseParser:
        return read(OK + b"content-encoding: %b\r\ncontent-length: 0\r\n\r\n" % value)[0]

    for value, expected in ((b"GZIP", "gzip"), (b"deflate", "deflate"), (b"identity", None)):
        head = encoding(value).head
        assert head is not None
        assert head.encoding == expected
    for value in (b"br", b"ZSTD"):
        assert "which was not asked for" in str(encoding(value).error)


def test_a_body_ends_with_its_connection_if_chunked_is_not_its_last_coding() -> None:
    for line in (b"content-length : 5", b"Content-Length  :5"):  # llhttp reads a length here
        head = read(OK + line + b"\r\n\r\n")[0].head
        assert head is not None
        assert not head.ends_at_close
    for coding, ends in ((b"chunked", False), (b"gzip, Chunked", False), (b"gzip", True)):
        head = read(OK + b"transfer-encoding: %b\r\n\r\n" % coding)[0].head
        assert head is not None
        assert head.ends_at_close is ends
