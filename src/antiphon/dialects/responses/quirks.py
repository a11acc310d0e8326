"""Differences between servers of the Responses API and OpenAI's own."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan


class ResponsesQuirks(Struct, frozen=True, kw_only=True):
    """How one provider differs from OpenAI: data, and one function at most."""

    sealed_reasoning: bool = True
    """The provider returns encrypted reasoning if requested, and expects it back."""
    plain_reasoning: bool = False
    """Reasoning is sent back as text. OpenAI refuses it; servers of open models accept nothing
    else."""
    trailing_reasoning: bool = False
    """Reasoning may be the last item of a turn. OpenAI requires the item that it led to."""
    server_tools: frozenset[str] = frozenset()
    """Names of calls that the provider executes itself, though they look like client calls."""
    patch: Callable[[Document, Plan], Document] | None = None
    """Changes the finished body."""


PLAIN = ResponsesQuirks()
