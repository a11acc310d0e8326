"""Decoding of request bodies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.errors import InvalidRequest
from antiphon.server.body import (
    BodyDecoder,
    BodyLimits,
    BodyScanner,
    check_input_items,
    check_settings,
    decode_body,
)
from tests.support.tables import table


def refuse(body: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        decode_body(body)
    return caught.value


def test_a_json_object_is_decoded() -> None:
    assert decode_body(b'{"model": "m"}') == {"model": "m"}


@table(
    ("body", "reason"),
    [
        (b"", "unexpected end of input (line 1, column 1)"),
        (b'{"model": "m"', "unexpected end of input (line 1, column 14)"),
        (b'{"model": "m",\n "input" 1}', "expected ':' (line 2, column 10)"),
        (b'{"model": "m", "top_p": NaN}', "(line 1, column 25)"),
        (b'{"model": "\xff"}', "not UTF-8 at byte 11"),
        (b'{"model": "m", "input": "\xed\xa0\x80"}', "not UTF-8 at byte 25"),
        (b'{"model": "m", "top_p": 1e999}', "out of range"),
        (b'{"model": "m", "top_p": ' + b"9" * 9999 + b"}", "out of range"),
        (b'{"model": "m", "input": "\\ud800 and more"}', "surrogate"),
        (b"hello", "line 1"),
    ],
)
def test_invalid_json_is_rejected_with_line_and_column(body: bytes, reason: str) -> None:
    error = refuse(body)
    assert error.message.startswith("The request body is not valid JSON: ")
    assert reason in error.message
    assert (error.status, error.param, error.wire_code) == (400, None, None)


@table(("body", "kind"), [(b"[]", "an array"), (b"null", "null"), (b'"hello"', "a string")])
def test_a_body_that_is_not_an_object_is_rejected_with_its_type(body: bytes, kind: str) -> None:
    error = refuse(body)
    assert error.message == f"The request body must be an object, not {kind}."
    assert (error.status, error.param, error.wire_code) == (400, None, "invalid_type")


@table("depth", [100, 500, 100_000])
def test_a_body_nested_too_deep_is_rejected(depth: int) -> None:
    error = refuse(b'{"model": "m", "tools": ' + b"[" * depth + b"]" * depth + b"}")
    assert (error.message, error.wire_code) == (
        "The request body is nested more than 100 levels deep. Flatten it, or raise"
        " `max_body_depth` in [server], up to 100.",
        "invalid_value",
    )


# Limits


def decode_pieces(decoder: BodyDecoder, body: bytes, size: int) -> dict[str, Any]:
    for start in range(0, len(body), size):
        decoder.feed(body[start : start + size])
    return decoder.close()


def decode_within(limits: BodyLimits, body: bytes) -> None:
    document = decode_pieces(BodyDecoder(BodyScanner(limits)), body, 20)
    check_input_items(document, limits)
    check_settings(document, limits)


@table(
    ("body", "setting"),
    [
        (b'{"input": "' + b"x" * 1000 + b'"}', "max_body_bytes"),
        (b'{"input": [' + b"1," * 60 + b"1]}", "max_body_values"),
        (b'{"input": [' + b"[]," * 30 + b"1]}", "max_body_values"),
        (b'{"input": [' + b"{}," * 30 + b"1]}", "max_body_values"),
        (b'{"input": "' + b"\\n" * 60 + b'"}', "max_text_bytes"),
        (b'{"input": "x' + "é".encode() * 60 + b'"}', "max_text_bytes"),
        (b'{"input": [1, 2, 3, 4]}', "max_input_items"),
        (b'{"input": 1, "tools": ["' + b"x" * 200 + b'"]}', "max_settings_bytes"),
        (b'{"input": 1, "instructions": "' + b"x" * 200 + b'"}', "max_settings_bytes"),
    ],
)
def test_a_body_beyond_a_limit_is_a_413_that_names_the_setting(body: bytes, setting: str) -> None:
    limits = BodyLimits(
        max_body_bytes=500,
        max_body_values=50,
        max_text_bytes=100,
        max_input_items=3,
        max_settings_bytes=150,
    )
    with pytest.raises(InvalidRequest) as caught:
        decode_within(limits, body)
    assert (caught.value.status, caught.value.wire_code) == (413, "request_too_large")
    assert f"`{setting}` in [server]" in caught.value.message


def test_a_limit_is_noticed_before_the_body_is_complete() -> None:
    decoder = BodyDecoder(BodyScanner(BodyLimits(max_body_values=1000)))
    decoder.feed(b'{"input": [' + b"{}," * 400)
    with pytest.raises(InvalidRequest):
        decoder.feed(b"{}," * 200)


def test_base64_data_may_be_longer_than_text() -> None:
    image = "A" * 1000
    decoder = BodyDecoder(BodyScanner(BodyLimits(max_text_bytes=100)))
    for piece in (b'{"text": "a\\n\\n\xc3\xa9", "input": "', image.encode(), b'"}'):
        decoder.feed(piece)
    assert decoder.close() == {"text": "a\n\né", "input": image}


def test_brackets_commas_and_quotes_in_strings_do_not_count() -> None:
    text = '[{,"\\' * 100
    body = json.dumps({"input": text}).encode()
    decoder = BodyDecoder(BodyScanner(BodyLimits(max_body_values=2, max_body_depth=1)))
    for start in range(len(body)):
        decoder.feed(body[start : start + 1])
    assert decoder.close() == {"input": text}


# Fragments


def items(count: int) -> list[dict[str, Any]]:
    part = {"type": "input_text", "text": 'He said "[{,": \\ é 😀\n' * 10}
    return [{"role": "user", "content": [part], "id": f"m{number}"} for number in range(count)]


@table("indent", [None, 1])
@table("size", [1000, 16 * 1024, 1024 * 1024])
def test_a_large_body_is_decoded_in_fragments(indent: int | None, size: int) -> None:
    document = {"model": "m", "input": items(1000), "tools": [{"a": {"b": [[], {}]}}], "z": 1.5}
    body = json.dumps(document, ensure_ascii=False, indent=indent).encode()
    decoder = BodyDecoder()
    assert decode_pieces(decoder, body, size) == document
    assert decoder.scanner.is_large
    check_settings(document, BodyLimits())  # `input` does not count


@table(
    ("broken", "column"),
    [
        (b",", 1),
        (b"1 2", 1),
        (b'"a": [1, 2}', 11),
    ],
)
def test_an_error_in_a_large_body_has_its_line_and_column(broken: bytes, column: int) -> None:
    good = json.dumps({"input": items(200)}, indent=1).encode()[:-2]
    body = good + b',\n "a": [\n  1],\n' + broken + b"}"
    with pytest.raises(InvalidRequest) as caught:
        decode_pieces(BodyDecoder(), body, 1000)
    line = good.count(b"\n") + 4
    assert f"(line {line}, column {column})" in caught.value.message


@table(
    "body",
    [
        b'{"a": [,' + b'"x",' * 9000 + b'"x"]}',
        b"1," * 20_000,
        b'{"a": 1}' + b"," * 20_000,
        b'{"a": [' + b'"x",' * 9000 + b"]}",
        b'{"a": [' + b'"x",' * 9000 + b'"x"}',
        b'{"a": 1' + b" " * 20_000 + b",}",
    ],
)
def test_a_comma_at_a_wrong_place_of_a_large_body_is_an_error(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="not valid JSON"):
        decode_pieces(BodyDecoder(), body, 10_000)


def test_a_key_that_is_sent_twice_around_a_fragment_is_an_error() -> None:
    long = b'"x": "' + b"x" * 20_000 + b'"'
    for body in (
        b'{"a": {"b": 1}, "c": 2, "a": {' + long + b", " + long + b"}}",
        b'{"a": {%b, "y": "%b"}, "\xef\xbf\xbf continued": 1, %b, "z": 1}'
        % (long, b"x" * 3000, long),
    ):
        with pytest.raises(InvalidRequest, match="has a key twice"):
            decode_pieces(BodyDecoder(), body, 1000)


# Encoding


def test_a_body_of_exactly_the_limit_is_accepted() -> None:
    body = b'{"a": 1}'
    assert decode_body(body, BodyLimits(max_body_bytes=len(body))) == {"a": 1}
    with pytest.raises(InvalidRequest, match="max_body_bytes"):
        decode_body(body, BodyLimits(max_body_bytes=len(body) - 1))


def test_a_body_as_deep_as_the_limit_is_accepted() -> None:
    limits = BodyLimits(max_body_depth=4)
    for body in (b'{"a": [[[]]]}', b'{"a": {"b": {"c": {}}}}'):
        assert decode_body(body, limits) == json.loads(body)
    for body in (b'{"a": [[[[]]]]}', b'{"a": {"b": {"c": {"d": {}}}}}'):
        with pytest.raises(InvalidRequest, match="max_body_depth"):
            decode_body(body, limits)


def test_the_default_limits_are_whole_mebibytes() -> None:
    limits = BodyLimits()
    sizes = (limits.max_body_bytes, limits.max_text_bytes, limits.max_settings_bytes)
    assert sizes == (64 * 2**20, 10 * 2**20, 8 * 2**20)


def test_settings_of_exactly_the_limit_are_accepted() -> None:
    document = {"model": "abc", "input": "not counted"}
    check_settings(document, BodyLimits(max_settings_bytes=5))
    with pytest.raises(InvalidRequest, match="max_settings_bytes"):
        check_settings(document, BodyLimits(max_settings_bytes=4))


def test_the_size_of_a_string_begins_with_its_own_first_byte() -> None:
    decoder = BodyDecoder(BodyScanner(BodyLimits(max_text_bytes=8)))
    for piece in (b'{"a": ["', "ééé".encode(), b'",', b'"', "ééé".encode(), b'"]}'):
        decoder.feed(piece)
    assert decoder.close() == {"a": ["ééé", "ééé"]}


def test_a_comma_at_the_beginning_of_a_container_is_an_error_where_a_fragment_may_end() -> None:
    decoder = BodyDecoder()
    with pytest.raises(InvalidRequest, match="JSON"):
        decode_pieces(decoder, b'{"p": "' + b"x" * 20_000 + b'", "a": [,1]}', 20_018)
