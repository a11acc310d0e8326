"""Tools as they are declared to a provider, and which of them the model may call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from antiphon.core.items import CacheBreakpoint


class ToolDeclaration(Struct, frozen=True, kw_only=True):
    """A tool as it is declared to the provider: always a function."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    strict: bool | None = None
    deferred: bool = False
    """The provider hides it until a result refers to it (`TextPart.tool`)."""
    cache: CacheBreakpoint | None = None
    extra: Mapping[str, Any] | None = None
    """Members of the client's own declaration (`TextPart.extra`)."""


class ToolChoice(Struct, frozen=True):
    """`auto`, `none`, `required`, or `function` with the tool's name at the provider."""

    mode: Literal["auto", "none", "required", "function"] = "auto"
    name: str | None = None
