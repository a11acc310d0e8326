"""Responses of a provider, byte by byte: what HTTP/1.1 allows, and what it does not."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping

from tests.support.raw_upstream import BODILESS, FRAMINGS

_OK = b"HTTP/1.1 200 OK\r\n"
_SIZED = b"content-length: 5\r\n\r\nhello"
_CHUNKED = _OK + b"transfer-encoding: chunked\r\n\r\n"
_CHUNKS = b"5\r\nhello\r\n0\r\n\r\n"
_GZIP, _DEFLATE = gzip.compress(b"hello", mtime=0), zlib.compress(b"hello")


def _packed(encoding: bytes, body: bytes) -> bytes:
    return (
        _OK + b"content-encoding: %b\r\ncontent-length: %d\r\n\r\n" % (encoding, len(body)) + body
    )


LENGTHS: Mapping[str, bytes] = {
    "a short body": _OK + b"content-length: 9\r\n\r\nhello",
    "a long body": _OK + b"content-length: 3\r\n\r\nhello",
    "a repeated length": _OK + b"content-length: 5\r\n" + _SIZED,
    "two lengths": _OK + b"content-length: 6\r\n" + _SIZED,
    "a negative length": _OK + b"content-length: -5\r\n\r\nhello",
    "a length with a sign": _OK + b"content-length: +5\r\n\r\nhello",
    "a list of lengths": _OK + b"content-length: 5, 5\r\n\r\nhello",
    "an empty length": _OK + b"content-length:\r\n\r\nhello",
    "a length beyond 64 bits": _OK + b"content-length: 99999999999999999999999\r\n\r\nhello",
    "a length and chunks": _OK
    + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n"
    + _CHUNKS,
    "no length": _OK + b"\r\nhello",
}
CHUNKS: Mapping[str, bytes] = {
    "no last chunk": _CHUNKED + b"5\r\nhello\r\n",
    "half a chunk": _CHUNKED + b"9\r\nhello",
    "an extension": _CHUNKED + b'5;a=b;c="d"\r\nhello\r\n0\r\n\r\n',
    "a size of letters": _CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n",
    "a size with a space": _CHUNKED + b"5 \r\nhello\r\n0\r\n\r\n",
    "a size beyond 64 bits": _CHUNKED + b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "line feeds alone": _CHUNKED + b"5\nhello\n0\n\n",
    "more than the size": _CHUNKED + b"2\r\nhello\r\n0\r\n\r\n",
    "a broken trailer": _CHUNKED + b"5\r\nhello\r\n0\r\nx 1\r\n\r\n",
    "a coding that is not known": _OK + b"transfer-encoding: gzip\r\n\r\nhello",
    "chunked is not the last coding": _OK + b"transfer-encoding: chunked, gzip\r\n\r\nhello",
    "chunked is the last coding": _OK + b"transfer-encoding: gzip, Chunked\r\n\r\n" + _CHUNKS,
    "no chunk before the end": _OK + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n",
    "a space before the colon of a coding": _OK
    + b"connection: close\r\ntransfer-encoding : chunked\r\n\r\n5\r\nhel",
    "two headers of codings": _OK
    + b"transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n"
    + _CHUNKS,
}
HEADS: Mapping[str, bytes] = {
    "nothing": b"",
    "half a head": _OK + b"content-le",
    "no HTTP": b"hello world\r\n\r\n",
    "a TLS record": b"\x16\x03\x01\x02\x00",
    "empty lines first": b"\r\n\r\n" + _OK + _SIZED,
    "line feeds": b"HTTP/1.1 200 OK\ncontent-length: 5\n\nhello",
    "no reason": b"HTTP/1.1 200\r\n" + _SIZED,
    "another version": b"HTTP/9.9 200 OK\r\n" + _SIZED,
    "HTTP/2.0": b"HTTP/2.0 200 OK\r\n" + _SIZED,
    "a status of letters": b"HTTP/1.1 abc OK\r\n\r\n",
    "a status of two digits": b"HTTP/1.1 20 OK\r\n" + _SIZED,
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n" + _SIZED,
    "a folded header": _OK + b"x: a\r\n b\r\n" + _SIZED,
    "a null byte": _OK + b"x: a\0b\r\n" + _SIZED,
    "a control character": _OK + b"x: a\x01b\r\n" + _SIZED,
    "a carriage return in a value": _OK + b"x: a\rb\r\n" + _SIZED,
    "a space in a name": _OK + b"x y: a\r\n" + _SIZED,
    "a line without a colon": _OK + b"xy\r\n" + _SIZED,
    "a short body after a space before the colon": _OK + b"content-length : 9\r\n\r\nhello",
    "a space before the colon": _OK + b"content-length : 5\r\n\r\nhello",
    "a long value": _OK + b"x: " + b"a" * 65_535 + b"\r\n" + _SIZED,
    "a value that is too long": _OK + b"x: " + b"a" * 65_536 + b"\r\n" + _SIZED,
    "a value without an end": _OK + b"x: " + b"a" * 300_000,
    "many headers": _OK + b"x: 1\r\n" * 127 + _SIZED,
    "too many headers": _OK + b"x: 1\r\n" * 128 + _SIZED,
    "a long reason": b"HTTP/1.1 200 " + b"a" * 8190 + b"\r\n" + _SIZED,
    "a reason that is too long": b"HTTP/1.1 200 " + b"a" * 8191 + b"\r\n" + _SIZED,
}
CONNECTIONS: Mapping[str, bytes] = {
    "connection: close": _OK + b"connection: close\r\n" + _SIZED,
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n" + _SIZED,
    "HTTP/1.0 with keep-alive": b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n" + _SIZED,
    "100 Continue": b"HTTP/1.1 100 Continue\r\n\r\n" + _OK + _SIZED,
    "two informational responses": b"HTTP/1.1 103 Hints\r\nlink: x\r\n\r\n" * 2 + _OK + _SIZED,
    "101 with other bytes": (b"HTTP/1.1 101 S\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nhello"),
    "204 with a length": b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\nhello",
    "304 with a length": b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n",
    "two responses": 2 * (_OK + _SIZED),
    "an error that is cut": b"HTTP/1.1 500 X\r\ncontent-length: 9\r\n\r\nhello",
}
ENCODINGS: Mapping[str, bytes] = {
    "gzip": _packed(b"GZip", _GZIP),
    "gzip without its end": _packed(b"gzip", _GZIP[:15]),
    "no gzip at all": _packed(b"gzip", b"hello"),
    "bytes after gzip": _packed(b"gzip", _GZIP + b"xyz"),
    "two members of gzip": _packed(b"gzip", _GZIP * 2),
    "an empty body as gzip": _packed(b"gzip", b""),
    "gzip up to the end of the connection": _OK + b"content-encoding: gzip\r\n\r\n" + _GZIP,
    "deflate": _packed(b"deflate", _DEFLATE),
    "deflate without a header": _packed(b"deflate", _DEFLATE[2:-4]),
    "deflate that the connection cuts": _OK + b"content-encoding: deflate\r\n\r\n" + _DEFLATE[:8],
    "deflate without its end": _packed(b"deflate", _DEFLATE[:8]),
    "brotli": _packed(b"br", b"hello"),
    "zstandard": _packed(b"zstd", b"hello"),
    "an encoding that is not known": _packed(b"other", b"hello"),
    "two encodings": _packed(b"gzip, br", b"hello"),
}
CASES: Mapping[str, bytes] = {
    **{name: framing(b"hello, world") for name, framing in FRAMINGS.items()},
    **BODILESS,
    **LENGTHS,
    **CHUNKS,
    **HEADS,
    **CONNECTIONS,
    **ENCODINGS,
}
