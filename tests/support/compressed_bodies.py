"""Large bodies in gzip, made without compressing each of their bytes."""

from __future__ import annotations

import zlib

_PIECE_BYTES = 1_000_000
_GZIP = 16 + zlib.MAX_WBITS


def compress_repeated(byte: bytes, length: int, *, first: bytes = b"", last: bytes = b"") -> bytes:
    """Compress `length` times the same byte, between `first` and `last`, as one gzip member.

    A piece of the body is compressed once: after a full flush, it is the same wherever it occurs.
    """
    assert length % _PIECE_BYTES == 0
    piece, repetitions = byte * _PIECE_BYTES, length // _PIECE_BYTES
    packer = zlib.compressobj(wbits=_GZIP)
    head = packer.compress(first) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
    end = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    tail = end.compress(last) + end.flush()
    checksum = zlib.crc32(first)
    for _ in range(repetitions):
        checksum = zlib.crc32(piece, checksum)
    size = len(first) + length + len(last)
    trailer = zlib.crc32(last, checksum).to_bytes(4, "little")
    return head + packed * repetitions + tail + trailer + (size % 2**32).to_bytes(4, "little")
