"""Placeholder texts in a request: for empty turns, empty results and omitted media.

Providers refuse empty content, and a model should know that something was there.
"""

from __future__ import annotations

CONTINUE = "Continue."
"""A user turn where the format needs one and the client sent none."""
NO_TEXT = "[no text]"
NO_OUTPUT = "[no output]"


def omission(what: str, reason: str) -> str:
    """`[image omitted: its address cannot be read]`"""
    return f"[{what} omitted: {reason}]"
