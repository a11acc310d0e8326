"""The summary that the echo model writes: a fixed excerpt of every message, so that compaction can
be tried and tested without a real model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

Said: TypeAlias = tuple[str, str]
"""The role and the text of a message."""

_MAX_CHARACTERS = 240  # of one message
_MAX_TOTAL = 24_000
_PATH = re.compile(r"[\w.-]*(?:/[\w.-]+)+|\b[\w-]+\.[a-z]{1,4}\b")


def summarize(messages: Sequence[Said]) -> dict[str, str | list[str]]:
    """Summarize a conversation whose last message asks for the summary."""
    said = [(role, " ".join(text.split())[:_MAX_CHARACTERS]) for role, text in messages[:-1]]
    wishes = [text for role, text in said if role == "user"]
    paths = dict.fromkeys(path for _, text in said for path in _PATH.findall(text))
    return {
        "goal": wishes[0] if wishes else "",
        "decisions": [],
        "open_work": wishes[-1:],
        "files_touched": [*paths][:50],
        "facts": [*_newest(f"{role}: {text}" for role, text in said if text)],
        "last_user_wishes": wishes[-3:],
    }


def _newest(texts: Iterator[str]) -> list[str]:
    """The newest texts that fit, in their order."""
    kept: list[str] = []
    length = 0
    for text in reversed([*texts]):
        length += len(text)
        if length > _MAX_TOTAL:
            break
        kept.append(text)
    return kept[::-1]
