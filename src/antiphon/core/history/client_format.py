"""Members of items and content parts that only some client formats have.

The parser of a client format adds them to its items, and the readers of items read them here:

- `place`: number of the client's message, and of the content block in it.
- `cache_control`: a breakpoint of the prompt cache, as Anthropic and OpenRouter write it.
- `extra`: `{"format": …, "members": {…}}`, what the client's own block has beyond the canonical
  form. Only a provider of the same format gets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from antiphon.core.history.steps import BlockPlace
from antiphon.core.items import CacheBreakpoint


class FormatSupport(Struct, frozen=True, kw_only=True):
    """What a provider accepts of the members that only some client formats have."""

    tool_output_files: bool = False
    tool_errors: bool = False
    client_blocks: str = ""
    """The client format whose content blocks the provider accepts as they are."""
    approvals: frozenset[str] | None = None
    """The ids of approval requests whose MCP calls were made, or are about to be: the gateway makes
    such calls, as functions. None: it does not, for this request."""


RESPONSES = FormatSupport()


def read_place(item: Mapping[str, Any]) -> BlockPlace | None:
    match item.get("place"):
        case [int(message), int(block)]:
            return BlockPlace(message, block)
    return None


def read_cache(value: Mapping[str, Any]) -> CacheBreakpoint | None:
    control = value.get("cache_control")
    if not isinstance(control, dict) or control.get("type") != "ephemeral":
        return None
    return CacheBreakpoint(_text(control.get("ttl")), _text(control.get("scope")))


def read_extra(value: Mapping[str, Any], support: FormatSupport) -> Mapping[str, Any] | None:
    match value.get("extra"):
        case {"format": str(name), "members": dict(members)} if name == support.client_blocks:
            return members or None
    return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
