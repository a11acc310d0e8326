"""Settings of one provider of Cohere's chat API."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct

_BUDGETS: Mapping[str, int] = MappingProxyType({"low": 1_024, "medium": 4_096, "high": 16_384})


class CohereQuirks(Struct, frozen=True, kw_only=True):
    """How requests to one provider are encoded: data only."""

    budgets: Mapping[str, int] = _BUDGETS
    """The thinking budget of an effort, in tokens. `none` and `disabled` turn thinking off; any
    other effort is sent without a budget, and the model decides."""
    tool_results: Literal["text", "documents"] = "text"
    """How results of tools are sent. Documents can be cited field by field."""
    fields: Mapping[str, Any] = {}
    """Other fields of every request, such as `citation_options` or `safety_mode`."""


PLAIN = CohereQuirks()
