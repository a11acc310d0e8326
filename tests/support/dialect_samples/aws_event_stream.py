"""Encoder of AWS event streams for tests: messages from headers and payloads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from struct import pack
from typing import Any
from zlib import crc32

STRING = 7


def header(name: str, value: bytes, kind: int = STRING) -> bytes:
    """Encode a header; `value` is the raw value, without its length prefix."""
    sized = pack(">H", len(value)) + value if kind in (6, 7) else value
    return pack(">B", len(name)) + name.encode() + pack(">B", kind) + sized


def message(payload: bytes, *headers: bytes) -> bytes:
    """Encode a message with both checksums."""
    named = b"".join(headers)
    prelude = pack(">II", 12 + len(named) + len(payload) + 4, len(named))
    content = prelude + pack(">I", crc32(prelude)) + named + payload
    return content + pack(">I", crc32(content))


def event(name: str, document: Any) -> bytes:
    return message(
        json.dumps(document).encode(),
        header(":event-type", name.encode()),
        header(":content-type", b"application/json"),
        header(":message-type", b"event"),
    )


def exception(name: str, document: Any) -> bytes:
    return message(
        json.dumps(document).encode(),
        header(":exception-type", name.encode()),
        header(":message-type", b"exception"),
    )


def stream(events: Iterable[tuple[str, Any]]) -> bytes:
    return b"".join(event(name, document) for name, document in events)
