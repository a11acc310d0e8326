"""An estimate of the input tokens of a request, for the start of a stream.

The API tells them with the first event, most providers with the last one. Clients show the number,
and some decide by it when to compact a conversation; the end of the stream has the exact one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from antiphon.core.request import Request
from antiphon.core.stream.usage import estimate_tokens

_TEXTS = ("text", "arguments", "output", "name")


def estimate_input(request: Request) -> int:
    """Estimate the tokens of text, calls, results and tools; media count nothing."""
    length = sum(len(text) for item in request.input for text in _texts(item))
    if request.tools:
        length += len(msgspec.json.encode(request.tools))
    return estimate_tokens(length)


def _texts(value: Any) -> Iterator[str]:
    """The texts of an item and its content parts."""
    for name in _TEXTS:
        text = value.get(name)
        if isinstance(text, str):
            yield text
    for name in ("content", "output", "summary"):
        parts = value.get(name)
        for part in parts if isinstance(parts, list) else ():
            yield from _texts(part)
