"""The numbers of a Cohere answer: what was really read and written, else what was paid for."""

from __future__ import annotations

from typing import Any

from antiphon.core.stream.deltas import Usage
from antiphon.dialects.usage import count


def read_usage(usage: Any) -> list[Usage]:
    """Token counts, if there are any: the input includes what was cached, the output thought."""
    if not isinstance(usage, dict):
        return []
    tokens, billed = usage.get("tokens"), usage.get("billed_units")
    counted = tokens if isinstance(tokens, dict) else billed
    if not isinstance(counted, dict):
        return []
    return [
        Usage(
            input_tokens=count(counted.get("input_tokens")),
            output_tokens=count(counted.get("output_tokens")),
            cached_tokens=count(usage.get("cached_tokens")),
            reasoning_tokens=count(counted.get("reasoning_tokens")),
        )
    ]
