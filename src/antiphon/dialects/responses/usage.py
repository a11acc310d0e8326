"""Token counts of a Responses API response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon.core.stream.deltas import Usage
from antiphon.dialects import usage as chat_usage

_CHAT_NAMES: Mapping[str, str] = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "prompt_tokens_details": "input_tokens_details",
    "completion_tokens_details": "output_tokens_details",
}


def read_usage(usage: Mapping[str, Any]) -> Usage:
    """Read the counts as those of Chat Completions: some servers use its names here, too."""
    renamed = {chat: usage[own] for chat, own in _CHAT_NAMES.items() if own in usage}
    return chat_usage.read_usage({**usage, **renamed})
