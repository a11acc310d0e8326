"""The plan of a turn that compacts, and when a context must be compacted before a response."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from antiphon.core.capabilities import Capabilities
from antiphon.core.compaction.open_items import TYPES, is_kept
from antiphon.core.compaction.request_summary import SummaryTask
from antiphon.core.plan.measure_input import measure_input
from antiphon.core.plan.plan import Plan
from antiphon.core.request import Request
from antiphon.core.stream.usage import estimate_tokens

_DEFAULT_SHARE = 0.8  # of the model's context window


def plan_summary(plan: Plan, task: SummaryTask) -> Plan:
    """Make the plan of a summary out of the plan for its request. The format is the gateway's own,
    so neither the response nor the diagnostics speak of it."""
    notes = tuple(each for each in plan.diagnostics if not each.code.startswith("format."))
    used = structs.replace(plan.used, text_format={"type": "text"})
    return structs.replace(plan, summary_task=task, mcp=None, used=used, diagnostics=notes)


def needs_compaction(
    request: Request, items: Sequence[Mapping[str, Any]], plan: Plan, capabilities: Capabilities
) -> bool:
    """Whether `context_management` asks for a compaction before this request is answered. A
    provider that edits contexts itself does it."""
    if request.context_edits and "context_edits" in capabilities.parameters:
        return False
    threshold = _threshold(request.context_management, capabilities)
    if threshold is None or estimate_tokens(measure_input(plan)) <= threshold:
        return False
    return _has_something_to_compact(items)


def _threshold(settings: Iterable[Mapping[str, Any]], capabilities: Capabilities) -> float | None:
    """The number of tokens beyond which the context is compacted; None if it is unknown."""
    window = capabilities.context_window
    default = None if window is None else window * _DEFAULT_SHARE
    given = [each.get("compact_threshold") or default for each in settings]
    return min((each for each in given if each is not None), default=None)


def _has_something_to_compact(items: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a summary would take the place of any item since the last compaction."""
    for item in reversed(items):
        if item.get("type") in TYPES:
            return False
        if not is_kept(item):
            return True
    return False
