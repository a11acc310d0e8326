"""The numbers of a Chat Completions answer: token counts and log probabilities.

Servers spell them in many ways and sometimes get them wrong. An odd number never spoils an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon.core.stream.deltas import Usage
from antiphon.wire.items import Document


def count(value: Any) -> int:
    """A number of tokens, whatever a server thought a number is."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return 0
    return int(value) if value < 2**53 else 0


def _within(usage: Mapping[str, Any], details: str, name: str) -> int:
    inner = usage.get(details)
    return count(inner.get(name)) if isinstance(inner, dict) else 0


def read_usage(usage: Mapping[str, Any]) -> Usage:
    """Token counts in every spelling seen so far."""
    prompt = count(usage.get("prompt_tokens"))
    completion = count(usage.get("completion_tokens"))
    total = count(usage.get("total_tokens"))
    reasoning = _within(usage, "completion_tokens_details", "reasoning_tokens") or count(
        usage.get("reasoning_tokens")
    )
    # Some count thinking beside the completion instead of inside it; the total gives them away.
    if reasoning and total == prompt + completion + reasoning:
        completion += reasoning
    return Usage(
        input_tokens=prompt,
        output_tokens=completion,
        cached_tokens=_within(usage, "prompt_tokens_details", "cached_tokens")
        or count(usage.get("prompt_cache_hit_tokens"))
        or count(usage.get("cached_tokens"))
        or count(usage.get("cache_read_input_tokens")),
        cache_write_tokens=_within(usage, "prompt_tokens_details", "cache_write_tokens")
        or count(usage.get("cache_creation_input_tokens")),
        reasoning_tokens=reasoning,
        total_tokens=total or None,
    )


def read_logprobs(logprobs: Any) -> tuple[Document, ...]:
    """The tokens of a piece of text, each with every member that clients insist on."""
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    return tuple(
        {**scored, "top_logprobs": _scores(token.get("top_logprobs"))}
        for token in (tokens if isinstance(tokens, list) else ())
        for scored in _scores([token])
    )


def _scores(tokens: Any) -> list[Document]:
    return [
        {
            "token": token,
            "logprob": logprob,
            "bytes": spelled if isinstance(spelled, list) else list(token.encode()),
        }
        for token, logprob, spelled in _scored(tokens)
    ]


def _scored(tokens: Any) -> list[tuple[str, float, Any]]:
    """Token, score and bytes of every entry that has the first two."""
    found = []
    for entry in tokens if isinstance(tokens, list) else ():
        match entry:
            case {"token": str(token), "logprob": int() | float() as logprob}:
                found.append((token, logprob, entry.get("bytes")))
    return found
