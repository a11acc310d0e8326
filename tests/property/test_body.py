"""A body is decoded to the same object however it is cut, or rejected however it is cut."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidRequest
from antiphon.server.body import (
    FRAGMENT_BYTES,
    BodyDecoder,
    BodyLimits,
    BodyReader,
    BodyScanner,
    decode_body,
)

TEXT = st.text(st.sampled_from('ab"\\,:[]{}é😀\n'), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=40,
)
PADDING = {"type": "input_text", "text": "x" * FRAGMENT_BYTES}
CHANGES = st.sampled_from([b"", b",", b"]", b"}", b"[", b"{", b'"', b":", b"\n", b"\\"])


def make_body(values: list[Any], *, ascii: bool) -> bytes:
    """Make a body with a fragment between the values."""
    padded = [each for value in values for each in (value, PADDING)]
    return json.dumps({"input": padded, "last": values}, ensure_ascii=ascii).encode()


def decode_in_pieces(body: bytes, sizes: list[int]) -> dict[str, Any] | None:
    decoder = BodyDecoder()
    try:
        start = index = 0
        while start < len(body):
            size = sizes[index % len(sizes)]
            decoder.feed(body[start : start + size])
            start, index = start + size, index + 1
        return decoder.close()
    except InvalidRequest:
        return None


SIZES = st.lists(st.integers(100, 20_000), min_size=1, max_size=5)


@given(st.lists(VALUES, max_size=5), st.booleans(), SIZES)
def test_a_body_in_fragments_is_the_body_as_a_whole(
    values: list[Any], ascii: bool, sizes: list[int]
) -> None:
    body = make_body(values, ascii=ascii)
    assert decode_in_pieces(body, sizes) == decode_body(body) == json.loads(body)


@given(st.lists(VALUES, min_size=1, max_size=3), CHANGES, st.floats(0, 0.999), SIZES)
def test_a_broken_body_is_rejected_however_it_is_cut(
    values: list[Any], change: bytes, position: float, sizes: list[int]
) -> None:
    body = make_body(values, ascii=True)
    at = int(len(body) * position)
    broken = body[:at] + change + body[at + 1 :]
    assert decode_in_pieces(broken, sizes) == decode_in_pieces(broken, [len(broken)])


LIMITS = st.builds(
    BodyLimits,
    max_body_bytes=st.sampled_from([50, 1000, 10**6]),
    max_body_values=st.sampled_from([3, 20, 10**6]),
    max_body_depth=st.sampled_from([1, 3, 100]),
    max_text_bytes=st.sampled_from([5, 10**6]),
)
SMALL = st.builds(
    lambda value, ascii: json.dumps({"input": value}, ensure_ascii=ascii).encode(),
    VALUES,
    st.booleans(),
)


def outcome_of(
    decoder: BodyDecoder | BodyReader, pieces: list[bytes]
) -> dict[str, Any] | tuple[str, str | None]:
    try:
        for piece in pieces:
            decoder.feed(piece)
        return decoder.close()
    except InvalidRequest as error:
        return error.message, error.wire_code


@given(SMALL | st.binary(max_size=20), LIMITS, CHANGES, st.floats(0, 0.999), st.booleans())
def test_a_small_body_that_is_decoded_at_once_has_the_same_outcome(
    body: bytes, limits: BodyLimits, change: bytes, position: float, is_cut: bool
) -> None:
    at = int(len(body) * position)
    for each in (body, body[:at] + change + body[at + 1 :]):
        pieces = [each[:at], each[at:]] if is_cut else [each]
        decoder = BodyDecoder(BodyScanner(limits))
        assert outcome_of(BodyReader(limits), pieces) == outcome_of(decoder, pieces)
