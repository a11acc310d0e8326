"""A follow-up: the request for a further round, made by a delta filter."""

from __future__ import annotations

from msgspec import Struct

from antiphon.core.history.steps import Step
from antiphon.core.plan.plan import ToolChoice


class FollowUp(Struct, frozen=True, kw_only=True):
    """What the next round adds to the history, after the items of the round that has ended.

    Tool calls in `steps` have the provider's tool names; `tool_choice` holds for this round only.
    """

    steps: tuple[Step, ...]
    tool_choice: ToolChoice | None = None
