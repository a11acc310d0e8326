"""Token counts: how they add up over a stream, and what they look like on the wire."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from antiphon.core.stream.deltas import Usage
from antiphon.wire.items import Item
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


def added(old: Usage, new: Usage) -> Usage:
    """What two rounds of one answer cost together."""
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


class Meter:
    """What an answer costs, over all its rounds."""

    def __init__(self) -> None:
        self._before: Usage | None = None
        self._round: Usage | None = None

    @property
    def total(self) -> Usage | None:
        """None as long as nobody has said anything of it."""
        if self._before is None or self._round is None:
            return self._before or self._round
        return added(self._before, self._round)

    def feed(self, usage: Usage) -> None:
        self._round = usage if self._round is None else merged(self._round, usage)

    def next_round(self) -> None:
        self._before, self._round = self.total, None


_BYTES_PER_TOKEN = 4  # of text in Latin letters, and of JSON; enough to tell half full from full


def estimated(asked_bytes: int, output: Sequence[Item]) -> Usage:
    """What an answer may have cost, where nobody says."""
    return Usage(
        input_tokens=asked_bytes // _BYTES_PER_TOKEN,
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
