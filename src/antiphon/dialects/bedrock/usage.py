"""Token counts of a Converse answer."""

from __future__ import annotations

from antiphon.core.stream.deltas import Usage
from antiphon.dialects.usage import count
from antiphon.wire.items import Document


def read_usage(usage: Document) -> Usage:
    """Usage. `inputTokens` excludes cache reads and writes, unless the total shows otherwise."""
    input_tokens, output_tokens = count(usage.get("inputTokens")), count(usage.get("outputTokens"))
    cached = count(usage.get("cacheReadInputTokens"))
    written = count(usage.get("cacheWriteInputTokens"))
    total = count(usage.get("totalTokens"))
    if total != input_tokens + output_tokens:
        input_tokens += cached + written
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=cached,
        cache_write_tokens=written,
        total_tokens=total or None,
    )
