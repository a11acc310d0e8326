"""Token counts and log probabilities of a Chat Completions answer.

Servers spell them in many ways and sometimes get them wrong. An invalid number counts as 0 and
never fails an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon.core.deltas import Usage
from antiphon.core.items import Document

_NUMBERS = (int, float)  # a bool is none


def count(value: Any) -> int:
    """A token count; 0 for anything that is not a plausible positive number."""
    if type(value) not in _NUMBERS or not value > 0:
        return 0
    return int(value) if value < 2**53 else 0


def _detail_count(usage: Mapping[str, Any], details: str, name: str) -> int:
    inner = usage.get(details)
    return count(inner.get(name)) if isinstance(inner, dict) else 0


def read_usage(usage: Mapping[str, Any]) -> Usage:
    """Usage, from every spelling of the token counts seen so far."""
    prompt = count(usage.get("prompt_tokens"))
    completion = count(usage.get("completion_tokens"))
    total = count(usage.get("total_tokens"))
    reasoning = _detail_count(usage, "completion_tokens_details", "reasoning_tokens") or count(
        usage.get("reasoning_tokens")
    )
    # Some servers count reasoning apart from the completion tokens; the total shows which.
    if reasoning and total == prompt + completion + reasoning:
        completion += reasoning
    return Usage(
        input_tokens=prompt,
        output_tokens=completion,
        cached_tokens=_detail_count(usage, "prompt_tokens_details", "cached_tokens")
        or count(usage.get("prompt_cache_hit_tokens"))
        or count(usage.get("cached_tokens"))
        or count(usage.get("cache_read_input_tokens")),
        cache_write_tokens=_detail_count(usage, "prompt_tokens_details", "cache_write_tokens")
        or count(usage.get("cache_creation_input_tokens")),
        reasoning_tokens=reasoning,
        total_tokens=total or None,
    )


def read_logprobs(logprobs: Any) -> tuple[Document, ...]:
    """Log probabilities of a text delta, each token with every member that clients require."""
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    return tuple(
        {**entry, "top_logprobs": _token_logprobs(token.get("top_logprobs"))}
        for token in (tokens if isinstance(tokens, list) else ())
        for entry in _token_logprobs([token])
    )


def _token_logprobs(tokens: Any) -> list[Document]:
    return [
        {
            "token": token,
            "logprob": logprob,
            "bytes": token_bytes if isinstance(token_bytes, list) else list(token.encode()),
        }
        for token, logprob, token_bytes in _valid_entries(tokens)
    ]


def _valid_entries(tokens: Any) -> list[tuple[str, float, Any]]:
    """Token, logprob and bytes of every entry that has the first two."""
    found = []
    for entry in tokens if isinstance(tokens, list) else ():
        match entry:
            case {"token": str(token), "logprob": int() | float() as logprob}:
                found.append((token, logprob, entry.get("bytes")))
    return found
