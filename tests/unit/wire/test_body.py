"""Decoding of request bodies."""

from __future__ import annotations

import pytest

from antiphon.errors import InvalidRequest
from antiphon.wire.body import decode_body


def refuse(body: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        decode_body(body)
    return caught.value


def test_a_json_object_is_decoded() -> None:
    assert decode_body(b'{"model": "m"}') == {"model": "m"}


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("body", "kind"), [(b"[]", "an array"), (b"null", "null"), (b'"hello"', "a string")]
)
def test_a_body_that_is_not_an_object_is_rejected_with_its_type(body: bytes, kind: str) -> None:
    error = refuse(body)
    assert error.message == f"The request body must be an object, not {kind}."
    assert (error.status, error.param, error.wire_code) == (400, None, "invalid_type")


@pytest.mark.parametrize("depth", [100, 500, 100_000])
def test_a_body_nested_too_deep_is_rejected(depth: int) -> None:
    error = refuse(b'{"model": "m", "tools": ' + b"[" * depth + b"]" * depth + b"}")
    assert (error.message, error.wire_code) == (
        "The request body is nested more than 100 levels deep. Flatten it, or raise"
        " `max_body_depth` in [server], up to 100.",
        "invalid_value",
    )
