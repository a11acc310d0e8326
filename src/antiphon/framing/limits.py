"""Limits of one response of a provider: the settings in `[limits]`, as the code reads them.

They are far above what models send. What exceeds one raises `ResponseTooLarge`, which names it.
"""

from __future__ import annotations

from msgspec import Struct


class ResponseLimits(Struct, frozen=True, kw_only=True):
    """The largest response that is accepted. Bytes are counted after decompression."""

    frame_bytes: int = 16 * 1024 * 1024
    """One line or message of a stream."""
    body_bytes: int = 32 * 1024 * 1024
    """A response that is not streamed."""
    stream_bytes: int = 256 * 1024 * 1024
    """A streamed response, with all of its rounds."""
    text_chars: int = 4 * 1024 * 1024
    reasoning_chars: int = 4 * 1024 * 1024
    argument_chars: int = 4 * 1024 * 1024
    """The names and arguments of all tool calls."""
    calls: int = 1024
    items: int = 4096
    """Output items, tool calls included."""


DEFAULT_LIMITS = ResponseLimits()
