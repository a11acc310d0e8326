"""Gemini chunks for tests, and helpers to decode them."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.deltas import Delta, Failure, Start
from antiphon.core.faults.fault import ProviderFault
from antiphon.dialects.gemini.decode import GeminiDecoder
from antiphon.framing.sse import Frame

Document = dict[str, Any]


def feed(*chunks: object, decoder: GeminiDecoder | None = None) -> list[Delta]:
    """Decode chunks; without the `Start` delta."""
    decoder = decoder or GeminiDecoder()
    frames = [
        Frame(chunk if isinstance(chunk, bytes) else json.dumps(chunk).encode()) for chunk in chunks
    ]
    deltas = [delta for frame in frames for delta in decoder.feed(frame)]
    return [delta for delta in deltas if not isinstance(delta, Start)]


def chunk(*parts: object, **candidate: Any) -> Document:
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, **candidate}]}


def decode_parts(*parts: object, **candidate: Any) -> list[Delta]:
    return feed(chunk(*parts, **candidate))


def text(content: str, **more: Any) -> Document:
    return {"text": content, **more}


def call(name: str = "f", **more: Any) -> Document:
    return {"functionCall": {"name": name, **more}}


def fault(deltas: list[Delta]) -> ProviderFault:
    [failure] = [delta for delta in deltas if isinstance(delta, Failure)]
    return failure.fault
