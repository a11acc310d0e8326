"""Token usage: merged over a stream, added over rounds, estimated where a provider sends none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import UNSET

from antiphon.core.deltas import Usage
from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.items import (
    ApplyPatchCall,
    CustomToolCall,
    Document,
    FunctionCall,
    Item,
    LocalShellCall,
    Message,
    OutputText,
    ReasoningItem,
    ShellCall,
    ToolSearchCall,
)
from antiphon.core.response import InputTokensDetails, OutputTokensDetails, ResponseUsage


def merge_usage(old: Usage, new: Usage) -> Usage:
    """Take the latest value of each count; a missing count keeps its earlier value."""
    return Usage(
        input_tokens=new.input_tokens or old.input_tokens,
        output_tokens=new.output_tokens or old.output_tokens,
        cached_tokens=new.cached_tokens or old.cached_tokens,
        cache_write_tokens=new.cache_write_tokens or old.cache_write_tokens,
        reasoning_tokens=new.reasoning_tokens or old.reasoning_tokens,
        total_tokens=new.total_tokens or old.total_tokens,
        estimated=new.estimated or old.estimated,
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
        estimated=old.estimated or new.estimated,
    )


def _total(usage: Usage) -> int:
    return usage.total_tokens or usage.input_tokens + usage.output_tokens


class UsageCounter:
    """Counts the tokens of a response over all its rounds."""

    __slots__ = ("_current_round", "_earlier_rounds", "is_known")

    def __init__(self, earlier: Usage | None = None) -> None:
        self._earlier_rounds = earlier
        self._current_round: Usage | None = None
        self.is_known = earlier is not None
        """Whether there are any counts."""

    @property
    def total(self) -> Usage | None:
        """The counts so far; None as long as the provider sent none."""
        if self._earlier_rounds is None or self._current_round is None:
            return self._earlier_rounds or self._current_round
        return add_usage(self._earlier_rounds, self._current_round)

    def feed(self, usage: Usage) -> None:
        self.is_known = True
        self._current_round = (
            usage if self._current_round is None else merge_usage(self._current_round, usage)
        )

    def next_round(self) -> None:
        self._earlier_rounds = self.total
        self._current_round = None


_BYTES_PER_TOKEN = 4  # of text in Latin letters; exact enough to see how full a context is


def estimate_usage(input_bytes: int, output: Sequence[Item]) -> Usage:
    """Estimate the token counts by the length of the texts, for a provider that sends none."""
    reasoning = sum(map(_text_bytes, _reasoning_texts(output)))
    output_bytes = sum(map(_text_bytes, _output_texts(output)))
    return Usage(
        input_tokens=estimate_tokens(input_bytes),
        output_tokens=estimate_tokens(reasoning + output_bytes),
        reasoning_tokens=estimate_tokens(reasoning),
        estimated=True,
    )


def estimate_unfinished(
    input_bytes: int, output: Sequence[Item], reported: ResponseUsage | None
) -> ResponseUsage:
    """Estimate the usage of a response that was cut; `reported` was known before its end."""
    estimate = estimate_usage(input_bytes, output)
    if reported is None:
        return wire_usage(estimate)
    details = reported.input_tokens_details
    return wire_usage(
        msgspec.structs.replace(
            estimate,
            input_tokens=reported.input_tokens or estimate.input_tokens,
            cached_tokens=details.cached_tokens,
            cache_write_tokens=details.cache_write_tokens,
            output_tokens=max(reported.output_tokens, estimate.output_tokens),
        )
    )


def usage_estimated(model: str) -> Diagnostic:
    """Tell that the token counts are an estimate."""
    return Diagnostic(
        code=Code.USAGE_ESTIMATED,
        decision=Decision.DEGRADED,
        param="usage",
        message=f"The provider reported no token counts for {model}; `usage` is an estimate.",
    )


def estimate_tokens(length: int) -> int:
    """Estimate the tokens of a text by its length in bytes."""
    return -(-length // _BYTES_PER_TOKEN)  # rounded up: one letter is a token


def _text_bytes(text: str) -> int:
    return len(text.encode())


def _reasoning_texts(output: Sequence[Item]) -> Iterator[str]:
    """What the model has written as reasoning: raw text, or a summary where there is no more."""
    for item in output:
        if isinstance(item, ReasoningItem):
            parts = item.summary if item.content is UNSET else item.content
            yield from (part.text for part in parts)


def _output_texts(output: Sequence[Item]) -> Iterator[str]:
    """What the model has written beside its reasoning: messages, and names and input of calls."""
    for item in output:
        match item:
            case Message(content=parts):
                for part in parts:
                    yield part.text if isinstance(part, OutputText) else part.refusal
            case FunctionCall(name=name, arguments=text) | CustomToolCall(name=name, input=text):
                yield name
                yield text
            case ShellCall() | LocalShellCall() | ApplyPatchCall() | ToolSearchCall():
                yield msgspec.json.encode(_written_part(item)).decode()


def _written_part(call: ShellCall | LocalShellCall | ApplyPatchCall | ToolSearchCall) -> Document:
    """The part of a call that the model has written as its arguments."""
    if isinstance(call, ApplyPatchCall):
        return call.operation
    return call.arguments if isinstance(call, ToolSearchCall) else call.action


def wire_usage(usage: Usage) -> ResponseUsage:
    return ResponseUsage(
        usage.input_tokens,
        InputTokensDetails(usage.cached_tokens, usage.cache_write_tokens),
        usage.output_tokens,
        OutputTokensDetails(usage.reasoning_tokens),
        _total(usage),
        usage.estimated or UNSET,
    )
