"""A further round of one answer: what a delta filter wants the provider to be asked next."""

from __future__ import annotations

from msgspec import Struct

from antiphon.core.history.steps import Step
from antiphon.core.plan.plan import ToolChoice


class FollowUp(Struct, frozen=True, kw_only=True):
    """Another round: the steps that join the history behind what was told, under the provider's
    names for the tools, and a choice of tools that counts for this round alone."""

    steps: tuple[Step, ...]
    tool_choice: ToolChoice | None = None
