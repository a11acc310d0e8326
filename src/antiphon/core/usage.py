"""Token counts: how they add up over a stream, and what they look like on the wire."""

from __future__ import annotations

from antiphon.core.deltas import Usage
from antiphon.wire.response import InputTokensDetails, OutputTokensDetails, ResponseUsage


def merged(old: Usage, new: Usage) -> Usage:
    """The latest word on each count; a count that is missing keeps its earlier value."""
    return Usage(
        input_tokens=new.input_tokens or old.input_tokens,
        output_tokens=new.output_tokens or old.output_tokens,
        cached_tokens=new.cached_tokens or old.cached_tokens,
        cache_write_tokens=new.cache_write_tokens or old.cache_write_tokens,
        reasoning_tokens=new.reasoning_tokens or old.reasoning_tokens,
        total_tokens=new.total_tokens or old.total_tokens,
    )


def wire_usage(usage: Usage) -> ResponseUsage:
    return ResponseUsage(
        input_tokens=usage.input_tokens,
        input_tokens_details=InputTokensDetails(usage.cached_tokens, usage.cache_write_tokens),
        output_tokens=usage.output_tokens,
        output_tokens_details=OutputTokensDetails(usage.reasoning_tokens),
        total_tokens=usage.total_tokens or usage.input_tokens + usage.output_tokens,
    )
