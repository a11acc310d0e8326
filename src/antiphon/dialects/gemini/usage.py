"""Token counts of a Gemini response (`usageMetadata`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from antiphon.core.stream.deltas import Usage
from antiphon.dialects.usage import count


def read_usage(counts: Any) -> Iterator[Usage]:
    """Read the counts of one chunk, if it has any; they are cumulative.

    `thoughtsTokenCount` is not part of `candidatesTokenCount`, and `toolUsePromptTokenCount` (what
    server-side tools added) is not part of `promptTokenCount`: both are added.
    """
    if not isinstance(counts, dict):
        return
    reasoning = count(counts.get("thoughtsTokenCount"))
    usage = Usage(
        input_tokens=count(counts.get("promptTokenCount"))
        + count(counts.get("toolUsePromptTokenCount")),
        output_tokens=count(counts.get("candidatesTokenCount")) + reasoning,
        cached_tokens=count(counts.get("cachedContentTokenCount")),
        reasoning_tokens=reasoning,
        total_tokens=count(counts.get("totalTokenCount")) or None,
    )
    if usage != Usage():
        yield usage
