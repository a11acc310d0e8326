"""Token usage: merged over a stream, added over rounds, estimated where a provider sends none."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from antiphon.core.stream.deltas import Usage
from antiphon.wire.items import Item
from antiphon.wire.response import InputTokensDetails, OutputTokensDetails, ResponseUsage


def merge_usage(old: Usage, new: Usage) -> Usage:
    """Take the latest value of each count; a missing count keeps its earlier value."""
    return Usage(
        input_tokens=new.input_tokens or old.input_tokens,
        output_tokens=new.output_tokens or old.output_tokens,
        cached_tokens=new.cached_tokens or old.cached_tokens,
        cache_write_tokens=new.cache_write_tokens or old.cache_write_tokens,
        reasoning_tokens=new.reasoning_tokens or old.reasoning_tokens,
        total_tokens=new.total_tokens or old.total_tokens,
    )


def add_usage(old: Usage, new: Usage) -> Usage:
    """Add the counts of two rounds of one response."""
    return Usage(
        input_tokens=old.input_tokens + new.input_tokens,
        output_tokens=old.output_tokens + new.output_tokens,
        cached_tokens=old.cached_tokens + new.cached_tokens,
        cache_write_tokens=old.cache_write_tokens + new.cache_write_tokens,
        reasoning_tokens=old.reasoning_tokens + new.reasoning_tokens,
        total_tokens=_total(old) + _total(new),
    )


def _total(usage: Usage) -> int:
    return usage.total_tokens or usage.input_tokens + usage.output_tokens


class UsageCounter:
    """Counts the tokens of a response over all its rounds."""

    def __init__(self) -> None:
        self._earlier_rounds: Usage | None = None
        self._current_round: Usage | None = None

    @property
    def total(self) -> Usage | None:
        """The counts so far; None as long as the provider sent none."""
        if self._earlier_rounds is None or self._current_round is None:
            return self._earlier_rounds or self._current_round
        return add_usage(self._earlier_rounds, self._current_round)

    def feed(self, usage: Usage) -> None:
        self._current_round = (
            usage if self._current_round is None else merge_usage(self._current_round, usage)
        )

    def next_round(self) -> None:
        self._earlier_rounds, self._current_round = self.total, None


_BYTES_PER_TOKEN = (
    4  # of text in Latin letters, and of JSON; exact enough to see how full a context is
)


def estimate_usage(request_bytes: int, output: Sequence[Item]) -> Usage:
    """Estimate the token counts by length, for a provider that sends none."""
    return Usage(
        input_tokens=request_bytes // _BYTES_PER_TOKEN,
        output_tokens=sum(len(msgspec.json.encode(item)) for item in output) // _BYTES_PER_TOKEN,
    )


def wire_usage(usage: Usage) -> ResponseUsage:
    return ResponseUsage(
        input_tokens=usage.input_tokens,
        input_tokens_details=InputTokensDetails(usage.cached_tokens, usage.cache_write_tokens),
        output_tokens=usage.output_tokens,
        output_tokens_details=OutputTokensDetails(usage.reasoning_tokens),
        total_tokens=_total(usage),
    )
