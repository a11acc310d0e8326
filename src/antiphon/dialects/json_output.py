"""Encoding of large JSON documents in small steps, between which other threads have their turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_LONG_STRING = 16 * 1024  # characters that are encoded in one step


def encode_in_steps(document: Mapping[str, Any]) -> bytes:
    """Encode a large JSON object in steps, between which other threads have their turn."""
    return b"".join(_encode_parts(document))


def _encode_parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, str) and len(value) > _LONG_STRING:
        yield b'"'
        for start in range(0, len(value), _LONG_STRING):
            yield msgspec.json.encode(value[start : start + _LONG_STRING])[1:-1]
        yield b'"'
    elif isinstance(value, Mapping) and value:
        for index, (name, each) in enumerate(value.items()):
            yield (b"," if index else b"{") + msgspec.json.encode(name) + b":"
            yield from _encode_parts(each)
        yield b"}"
    elif isinstance(value, list | tuple) and value:
        for index, each in enumerate(value):
            yield b"," if index else b"["
            yield from _encode_parts(each)
        yield b"]"
    else:
        yield msgspec.json.encode(value)
