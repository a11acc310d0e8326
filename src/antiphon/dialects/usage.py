"""Token counts and log probabilities of a Chat Completions response.

Servers spell them in many ways and sometimes get them wrong. An invalid number counts as 0 and
never fails a response.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon.core.deltas import Usage
from antiphon.core.items import Document

_NUMBERS = (int, float)  # a bool is none
_NO_DETAILS: Mapping[str, Any] = {}


def count(value: Any) -> int:
    """A token count; 0 for anything that is not a plausible positive number."""
    if type(value) not in _NUMBERS or not value > 0:
        return 0
    return int(value) if value < 2**53 else 0


def _first_count(*values: Any) -> int:
    """The first token count among values that may all be missing; 0 if there is none."""
    for value in values:
        if value is not None and (found := count(value)):
            return found
    return 0


def _first_details(*values: Any) -> Mapping[str, Any]:
    return next((value for value in values if value and isinstance(value, dict)), _NO_DETAILS)


def read_usage(usage: Mapping[str, Any]) -> Usage:
    """Usage, from every spelling of the token counts seen so far."""
    find = usage.get
    prompt = _first_count(find("prompt_tokens"), find("input_tokens"))
    completion = _first_count(find("completion_tokens"), find("output_tokens"))
    total = count(find("total_tokens"))
    written = _first_details(find("completion_tokens_details"), find("output_tokens_details"))
    read = _first_details(
        find("prompt_tokens_details"), find("input_tokens_details"), find("prompt_token_details")
    )
    reasoning = _first_count(written.get("reasoning_tokens"), find("reasoning_tokens"))
    # Some servers count reasoning apart from the completion tokens; the total shows which.
    if reasoning and total == prompt + completion + reasoning:
        completion += reasoning
    cached = _first_count(
        read.get("cached_tokens"),
        read.get("cache_read_tokens"),
        find("prompt_cache_hit_tokens"),
        find("cached_tokens"),
        find("num_cached_tokens"),
        find("cache_read_input_tokens"),
    )
    written_to_cache = _first_count(
        read.get("cache_write_tokens"),
        read.get("cache_creation_tokens"),
        find("cache_creation_input_tokens"),
    )
    return Usage(prompt, completion, cached, written_to_cache, reasoning, total or None)


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
