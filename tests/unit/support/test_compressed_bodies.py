"""Large compressed bodies: `gzip` reads what they were made of."""

from __future__ import annotations

import gzip

from tests.support.compressed_bodies import compress_repeated


def test_a_body_of_repeated_bytes_is_one_valid_gzip_member() -> None:
    packed = compress_repeated(b"0", 3_000_000, first=b'{"input": "', last=b'"}')
    assert gzip.decompress(packed) == b'{"input": "' + b"0" * 3_000_000 + b'"}'
    assert packed.count(b"\x1f\x8b\x08") == 1
    assert len(packed) < 10_000
