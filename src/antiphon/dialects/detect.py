"""Detection of a recording's dialect, by marks in its first bytes."""

from __future__ import annotations

import re

_LOOKED_AT = 8192  # bytes
_SPACE = re.compile(rb"\s+")
_MARKS: tuple[tuple[str, re.Pattern[bytes]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("bedrock", rb'^\x00\x00..\x00\x00|"stopReason":'),
        ("responses", rb'"type":"response\.|"object":"response"'),
        ("anthropic", rb'"type":"message_start"|"type":"content_block_|"type":"message"[,}]'),
        ("cohere", rb'"type":"message-start"|"type":"content-|"type":"tool-|"billed_units":'),
        ("chat", rb'"choices":'),
        ("gemini", rb'"candidates":|"promptFeedback":'),
        ("ollama", rb'"done":(true|false)'),
    )
)
"""The first that is found counts. White space is taken out before."""
DEFAULT = "chat"


def detect_dialect(data: bytes) -> str:
    """Return the name of the dialect that a stream or a body looks like; without any mark, chat."""
    head = _SPACE.sub(b"", data[:_LOOKED_AT])
    return next((name for name, mark in _MARKS if mark.search(head)), DEFAULT)
