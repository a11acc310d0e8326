"""Token counts of an Anthropic answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from antiphon.core.stream.deltas import Delta, Usage
from antiphon.dialects.service_tier import read_service_tier
from antiphon.dialects.usage import count

_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)


class AnthropicUsage:
    """Accumulated counts: each event carries totals so far, and may leave some out."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._thinking_tokens = 0

    def feed(self, usage: Any) -> Iterator[Delta]:
        if not isinstance(usage, dict):
            return
        counts = self._counts
        for name in _COUNTS:
            counts[name] = count(usage.get(name)) or counts[name]
        match usage.get("output_tokens_details"):
            case {"thinking_tokens": tokens}:
                self._thinking_tokens = count(tokens) or self._thinking_tokens
        yield self._total()
        yield from read_service_tier(usage.get("service_tier"))

    def _total(self) -> Usage:
        counts = self._counts
        cached, written = counts["cache_read_input_tokens"], counts["cache_creation_input_tokens"]
        return Usage(
            input_tokens=counts["input_tokens"] + cached + written,  # the API counts them apart
            output_tokens=counts["output_tokens"],
            cached_tokens=cached,
            cache_write_tokens=written,
            reasoning_tokens=self._thinking_tokens,
        )
