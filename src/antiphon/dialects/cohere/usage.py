"""Token counts of a Cohere response: `tokens` (actual), else `billed_units`."""

from __future__ import annotations

from typing import Any

from antiphon.core.deltas import Usage
from antiphon.dialects.usage import count


def read_usage(usage: Any) -> list[Usage]:
    """Read the counts, if any: input includes cached tokens, output includes reasoning."""
    if not isinstance(usage, dict):
        return []
    tokens = usage.get("tokens")
    billed = usage.get("billed_units")
    counts = tokens if isinstance(tokens, dict) else billed
    if not isinstance(counts, dict):
        return []
    return [
        Usage(
            input_tokens=count(counts.get("input_tokens")),
            output_tokens=count(counts.get("output_tokens")),
            cached_tokens=count(usage.get("cached_tokens")),
            reasoning_tokens=count(counts.get("reasoning_tokens")),
        )
    ]
