"""Newline-delimited JSON: one frame a line."""

from __future__ import annotations

from antiphon.framing.limits import DEFAULT_LIMITS
from antiphon.framing.sse import Frame, LineSplitter


class NDJSONDecoder:
    """Decoder of newline-delimited JSON: every line that is not blank is a frame.

    A line of more than `max_bytes` raises `ResponseTooLarge`.
    """

    def __init__(self, max_bytes: int = DEFAULT_LIMITS.frame_bytes) -> None:
        self._lines = LineSplitter(max_bytes)

    def feed(self, chunk: bytes) -> list[Frame]:
        return [Frame(line) for line in self._lines.feed(chunk) if line.strip()]

    def close(self) -> list[Frame]:
        return self.feed(b"\n")
