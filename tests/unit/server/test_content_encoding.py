"""Decompression of request bodies in bounded pieces."""

from __future__ import annotations

import gzip
import zlib

import pytest
from aiohttp import compression_utils

from antiphon.errors import InvalidRequest
from antiphon.server.content_encoding import PIECE_BYTES, ContentDecoder
from tests.support.compressed_bodies import compress_repeated
from tests.support.tables import table

BODY = b'{"model": "m", "input": "' + b"x" * 100_000 + b'"}'


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


COMPRESSED = {
    "gzip": gzip.compress(BODY),
    "two gzip members": gzip.compress(BODY[:50]) + gzip.compress(BODY[50:]),
    "deflate": zlib.compress(BODY),
    "deflate without a header": raw_deflate(BODY),
}


@table("step", [1, 7, 10_000])
@table("name", COMPRESSED)
def test_a_body_is_decompressed_in_small_pieces(name: str, step: int) -> None:
    data = COMPRESSED[name]
    decoder = ContentDecoder("gzip" if "gzip" in name else "deflate")
    pieces = [
        piece
        for start in range(0, len(data), step)
        for piece in decoder.feed(data[start : start + step])
    ]
    decoder.close()
    assert b"".join(pieces) == BODY
    assert max(map(len, pieces)) <= PIECE_BYTES


def test_pieces_are_made_one_at_a_time() -> None:
    bomb = compress_repeated(b"0", 500_000_000)
    pieces = ContentDecoder("gzip").feed(bomb)
    assert len(next(pieces)) == PIECE_BYTES  # of half a gigabyte


def test_data_that_is_not_compressed_as_declared_is_an_error() -> None:
    for encoding in ("gzip", "deflate"):
        with pytest.raises(InvalidRequest, match="does not match its Content-Encoding"):
            list(ContentDecoder(encoding).feed(BODY))


@table("name", COMPRESSED)
@table("step", [1, 10_000])
def test_incomplete_data_is_an_error(name: str, step: int) -> None:
    whole = COMPRESSED[name]
    for missing in (1, 4, 8, 9, 30, len(whole) - 5):
        data = whole[:-missing]
        decoder = ContentDecoder("gzip" if "gzip" in name else "deflate")
        for start in range(0, len(data), step):
            list(decoder.feed(data[start : start + step]))
        with pytest.raises(InvalidRequest, match="does not match its Content-Encoding"):
            decoder.close()


def test_a_body_without_any_data_is_an_error() -> None:
    for encoding in ("gzip", "deflate"):
        with pytest.raises(InvalidRequest, match="does not match its Content-Encoding"):
            ContentDecoder(encoding).close()


def test_the_number_of_gzip_members_is_limited() -> None:
    """Members without content would take time and produce nothing that another limit counts."""
    decoder = ContentDecoder("gzip")
    list(decoder.feed(gzip.compress(b"") * 1000))
    with pytest.raises(InvalidRequest, match="does not match its Content-Encoding"):
        list(decoder.feed(gzip.compress(b"") * 100))


def test_bytes_after_the_end_are_an_error() -> None:
    for encoding, data in (("gzip", gzip.compress(BODY)), ("deflate", zlib.compress(BODY))):
        decoder = ContentDecoder(encoding)
        with pytest.raises(InvalidRequest, match="does not match its Content-Encoding"):
            list(decoder.feed(data + b"more"))


def test_an_encoding_that_is_not_supported_is_a_415_that_names_the_supported_ones() -> None:
    with pytest.raises(InvalidRequest) as caught:
        ContentDecoder("compress")
    assert caught.value.status == 415
    assert "'compress' is not supported; use gzip, deflate" in caught.value.message


@pytest.mark.parametrize(
    ("encoding", "is_installed"),
    [("br", compression_utils.HAS_BROTLI), ("zstd", compression_utils.HAS_ZSTD)],
)
def test_other_encodings_are_supported_if_their_library_is_installed(
    encoding: str, *, is_installed: bool
) -> None:
    try:
        ContentDecoder(encoding)
        accepted = True
    except InvalidRequest:
        accepted = False
    assert accepted == is_installed
