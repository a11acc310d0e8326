"""Reasoning effort: the provider's value for it, and when thinking has to be reduced or disabled.

`decide_effort` maps the requested effort to the provider's value, and then lowers it where this
request does not allow as much thinking, or any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct

from antiphon.core.capabilities import Capabilities
from antiphon.core.diagnostic import Code, Diagnostic, degraded, ignored
from antiphon.core.history.steps import (
    MessageStep,
    ReasoningStep,
    RefusalPart,
    Step,
    TextPart,
    ToolResultStep,
    is_own,
)
from antiphon.core.plan.parameters import find_update, subject_of
from antiphon.core.plan.plan import Notes
from antiphon.core.request import Request
from antiphon.core.tools.declaration import ToolChoice

_AUTO = ToolChoice()

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


_LOW_BUDGET = 4096
_MEDIUM_BUDGET = 12_288


def effort_of_budget(tokens: int | None) -> str:
    """The effort that a thinking budget of a client means; None: it has set none."""
    if tokens is None or tokens >= _MEDIUM_BUDGET:
        return "high"  # the default of the APIs that have budgets
    return "medium" if tokens >= _LOW_BUDGET else "low"


class Effort(Struct, frozen=True):
    """The reasoning effort of a plan."""

    value: str | None
    """The provider's value for it; None: the field is left out."""
    effective: str | None
    """The effort of the API that the value amounts to; None if effort has no effect."""


def decide_effort(
    request: Request,
    items: Sequence[Mapping[str, Any]],
    steps: Sequence[Step],
    choice: ToolChoice,
    capabilities: Capabilities,
    notes: Notes,
) -> Effort:
    """Decide the effort of a request; an item of the history may have changed it."""
    param, requested = find_update(items, "reasoning", "effort") or (
        "reasoning.effort",
        request.effort,
    )
    value = resolve_effort(requested, param, capabilities, notes)
    if request.thinking is not None and request.thinking.budget_tokens is not None:
        value = apply_budget(value, request.thinking.budget_tokens, capabilities, notes)
    value = adjust_effort(
        value,
        param,
        capabilities,
        notes,
        choice=choice,
        steps=steps,
        limit=request.max_output_tokens,
    )
    return Effort(value, effective_effort(requested, value, capabilities))


def resolve_effort(
    requested: object, param: str, capabilities: Capabilities, notes: Notes
) -> str | None:
    """Map the requested effort to the provider's value; `param` is where it was requested."""
    available = capabilities.efforts
    model = capabilities.model_name
    if not isinstance(requested, str):
        return None
    if requested in available:
        return available[requested]
    nearest = _nearest_effort(requested, available)
    if nearest is None:
        message = f"Effort {requested!r} is not supported by {model}; ignored."
        notes.append(ignored(Code.EFFORT_IGNORED, param, message, subject_of(param)))
        return None
    message = f"Effort {requested!r} is not available for {model}; using {nearest!r}."
    notes.append(_degraded(param, message))
    return available[nearest]


def apply_budget(
    effort: str | None, budget: int, capabilities: Capabilities, notes: Notes
) -> str | None:
    """Use a thinking budget where the provider's effort is one, or may be, within its limits;
    elsewhere the effort stands for it, and a diagnostic reports that."""
    if effort is None or effort == capabilities.efforts.get("none"):
        return effort
    if effort.isdecimal() or capabilities.thinking_budgets:
        most = capabilities.max_thinking_budget or budget
        return str(max(capabilities.min_thinking_budget, min(budget, most)))
    message = (
        f"A thinking budget of {budget} tokens is not available for {capabilities.model_name};"
        f" using the effort {effort!r}."
    )
    notes.append(_degraded("thinking.budget_tokens", message))
    return effort


def _nearest_effort(requested: str, available: Mapping[str, str | None]) -> str | None:
    """Find the next lower effort, else the next higher one. `none` is never used for another:
    it would disable thinking, where the client requested some."""
    if requested not in EFFORTS:
        return None
    index = EFFORTS.index(requested)
    by_distance = (*reversed(EFFORTS[1:index]), *EFFORTS[index + 1 :])
    return next((effort for effort in by_distance if effort in available), None)


def effective_effort(
    requested: object, effort: str | None, capabilities: Capabilities
) -> str | None:
    """Map the provider's value back to an effort of the API; None if there is none, or no effort
    was requested."""
    available = capabilities.efforts
    if effort is not None and effort == available.get("none"):
        return "none"
    if effort in EFFORTS:
        return effort
    if not isinstance(requested, str):
        return None
    if requested in available and requested in EFFORTS:
        return requested
    return _nearest_effort(requested, available)


def adjust_effort(
    effort: str | None,
    param: str,
    capabilities: Capabilities,
    notes: Notes,
    *,
    choice: ToolChoice = _AUTO,
    steps: Sequence[Step] = (),
    limit: int | None = None,
) -> str | None:
    """Disable thinking, or reduce its budget, where the provider would reject the request.

    `limit` is the request's `max_output_tokens`.
    """
    if not thinks(effort, capabilities):
        return effort
    budget = _fitting_budget(effort, limit, capabilities)
    reason = _reason_not_to_think(capabilities, choice, steps, budget)
    if reason is not None and "none" in capabilities.efforts:
        message = f"Thinking is disabled for {capabilities.model_name}: {reason}."
        notes.append(_degraded(param, message))
        return capabilities.efforts["none"]
    if budget is None or str(budget) == effort:
        return effort
    message = (
        f"The thinking budget of {capabilities.model_name} is reduced to {budget} tokens,"
        " so that `max_output_tokens` leaves room for the text."
    )
    notes.append(_degraded(param, message))
    return str(budget)


def _reason_not_to_think(
    capabilities: Capabilities, choice: ToolChoice, steps: Sequence[Step], budget: int | None
) -> str | None:
    """Name the first of three cases in which a provider rejects thinking (Anthropic's API)."""
    # {"thinking": {"type": "enabled", …}, "tool_choice": {"type": "any"}}
    if capabilities.forced_choice_stops_thinking and choice.mode in ("required", "function"):
        return "`tool_choice` forces a tool call"
    # {"messages": [user, {"role": "assistant", "content": [tool_use]}, {…: [tool_result]}]}:
    # the assistant's turn, which these results continue, has to begin with a thinking block.
    if capabilities.resume_requires_reasoning and resumes_without_reasoning(steps):
        return "the turn that the tool results continue began without replayable reasoning"
    # {"max_tokens": 2047, "thinking": {"type": "enabled", "budget_tokens": 1023}}: below 1024
    if budget is not None and budget < capabilities.min_thinking_budget:
        return "`max_output_tokens` leaves no room for it"
    return None


def _fitting_budget(
    effort: str | None, limit: int | None, capabilities: Capabilities
) -> int | None:
    """Limit a budget in tokens so that it leaves room for the output; None if `effort` is not a
    number of tokens, or nothing limits it."""
    reserved = capabilities.min_thinking_budget
    if effort is None or not effort.isdecimal() or not reserved or limit is None:
        return None
    available = min(limit, capabilities.max_output_tokens or limit)
    return min(int(effort), available - reserved)


def resumes_without_reasoning(steps: Sequence[Step]) -> bool:
    """Whether tool results continue an assistant turn that did not begin with reasoning.

    A turn may have several rounds of calls: it began after the last message that was not the
    assistant's.
    """
    rounds = [(own, [*group]) for own, group in groupby(steps, key=is_own)]
    if not rounds or not any(isinstance(step, ToolResultStep) for step in rounds[-1][1]):
        return False
    first_round: Sequence[Step] = ()
    for own, group in reversed(rounds[:-1]):
        if own:
            first_round = group
        elif not all(isinstance(step, ToolResultStep) for step in group):
            break
    return not _begins_with_reasoning(first_round)


def _begins_with_reasoning(steps: Sequence[Step]) -> bool:
    """Whether reasoning that can be replayed comes before the first text."""
    for step in steps:
        if isinstance(step, ReasoningStep) and step.states:
            return True
        if isinstance(step, MessageStep) and any(
            part.text.strip() for part in step.parts if isinstance(part, TextPart | RefusalPart)
        ):
            return False
    return False


def thinks(effort: str | None, capabilities: Capabilities) -> bool:
    """Whether the model thinks with this value of its provider's effort setting."""
    if effort is None:
        return capabilities.thinks_by_default
    return effort != capabilities.efforts.get("none")


def fixed_parameters(effort: str | None, capabilities: Capabilities) -> frozenset[str]:
    """Supported parameters that the provider rejects at this effort."""
    fixed = capabilities.fixed_by_effort.get(effort or "", frozenset())
    if thinks(effort, capabilities):
        fixed |= capabilities.fixed_by_thinking
    return fixed & capabilities.parameters


def _degraded(param: str, message: str) -> Diagnostic:
    return degraded(Code.EFFORT_DEGRADED, param, message, subject_of(param))
