"""Fields that one Ollama server needs in every request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class OllamaQuirks(Struct, frozen=True, kw_only=True):
    """Additions to every request: data only."""

    options: Mapping[str, Any] = {}
    """Options of every request unless the request sets them, such as `num_ctx`: without it the
    server chooses the size of the context, and drops the rest of the input silently."""
    fields: Mapping[str, Any] = {}
    """Other fields of every request, such as `keep_alive` or `truncate`."""


PLAIN = OllamaQuirks()
