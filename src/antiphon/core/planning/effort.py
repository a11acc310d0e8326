"""How long a model thinks, and what it can no longer be told while it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from msgspec import structs

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.history.steps import (
    MessageStep,
    ReasoningStep,
    RefusalPart,
    Step,
    TextPart,
    ToolResultStep,
    is_own,
)
from antiphon.core.plan.plan import Capabilities, ToolChoice

_FREE = ToolChoice()

RUNGS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def resolve_effort(
    asked: object, param: str, capabilities: Capabilities
) -> tuple[str | None, list[Diagnostic]]:
    """The provider's word for the effort that was asked for, and what was lost between."""
    ladder = capabilities.efforts
    if not isinstance(asked, str):
        return None, []
    if asked in ladder:
        return ladder[asked], []
    rung = _nearest(asked, ladder)
    if rung is None:
        message = f"The effort {asked!r} has no effect: the model has no such setting."
        return None, [_note(Code.EFFORT_IGNORED, Decision.IGNORED, param, message)]
    message = f"The model has no effort {asked!r}: it thinks with {rung!r}."
    return ladder[rung], [_note(Code.EFFORT_DEGRADED, Decision.DEGRADED, param, message)]


def _nearest(asked: str, ladder: Mapping[str, str | None]) -> str | None:
    """The next rung below, else above. `none` is no rung: little thinking is not none at all."""
    if asked not in RUNGS:
        return None
    place = RUNGS.index(asked)
    below, above = reversed(RUNGS[1:place]), RUNGS[place + 1 :]
    return next((rung for rung in (*below, *above) if rung in ladder), None)


def effective_effort(asked: object, effort: str | None, capabilities: Capabilities) -> str | None:
    """The rung that a request ends up on; None if there is none, or nobody asked for one."""
    ladder = capabilities.efforts
    if effort is not None and effort == ladder.get("none"):
        return "none"
    if effort in RUNGS:
        return effort
    if not isinstance(asked, str):
        return None
    return asked if asked in ladder and asked in RUNGS else _nearest(asked, ladder)


def adjust_effort(
    effort: str | None,
    param: str,
    capabilities: Capabilities,
    *,
    choice: ToolChoice = _FREE,
    steps: Sequence[Step] = (),
    limit: int | None = None,
) -> tuple[str | None, list[Diagnostic]]:
    """The effort in this request: its tools, its past or its length may leave no thinking."""
    if not thinks(effort, capabilities):
        return effort, []
    budget = _budget(effort, limit, capabilities)
    obstacles = {
        "a tool that has to be called is called without": capabilities.forced_choice_stops_thinking
        and choice.mode in ("required", "function"),
        "it continues a turn that began without thinking": capabilities.resume_requires_reasoning
        and resumes_without_thought(steps),
        "`max_output_tokens` leaves no room for it": budget is not None
        and budget < capabilities.min_thinking_budget,
    }
    why = next((why for why, is_so in obstacles.items() if is_so), None)
    if why is not None and "none" in capabilities.efforts:
        message = f"The model does not think: {why}."
        note = _note(Code.EFFORT_DEGRADED, Decision.DEGRADED, param, message)
        return capabilities.efforts["none"], [note]
    if budget is None or str(budget) == effort:
        return effort, []
    message = f"The model thinks with {budget} tokens: `max_output_tokens` leaves no room for more."
    return str(budget), [_note(Code.EFFORT_DEGRADED, Decision.DEGRADED, param, message)]


def _budget(effort: str | None, limit: int | None, capabilities: Capabilities) -> int | None:
    """How many tokens of thought leave room for the answer; None where nobody counts them."""
    if (
        effort is None
        or not effort.isdecimal()
        or not capabilities.min_thinking_budget
        or limit is None
    ):
        return None
    most = min(limit, capabilities.max_output_tokens or limit)
    return min(int(effort), most - capabilities.min_thinking_budget)


def resumes_without_thought(steps: Sequence[Step]) -> bool:
    """Whether results of tools answer a turn that did not begin with a thought of its own.

    A turn may have gone through several rounds of calls: it began where somebody else had last said
    something.
    """
    rounds = [(own, [*group]) for own, group in groupby(steps, key=is_own)]
    if not rounds or not any(isinstance(step, ToolResultStep) for step in rounds[-1][1]):
        return False
    begin: Sequence[Step] = ()
    for own, group in reversed(rounds[:-1]):
        if own:
            begin = group
        elif not all(isinstance(step, ToolResultStep) for step in group):
            break
    return not _begins_with_thought(begin)


def _begins_with_thought(steps: Sequence[Step]) -> bool:
    """Whether thought that can be shown again comes before the first words."""
    for step in steps:
        if isinstance(step, ReasoningStep) and step.states:
            return True
        if isinstance(step, MessageStep) and any(
            part.text.strip() for part in step.parts if isinstance(part, TextPart | RefusalPart)
        ):
            return False
    return False


def thinks(effort: str | None, capabilities: Capabilities) -> bool:
    if effort is None:
        return capabilities.thinks_by_default
    return effort != capabilities.efforts.get("none")


def while_thinking(effort: str | None, capabilities: Capabilities) -> Capabilities:
    """What the model takes with this effort."""
    fixed = capabilities.fixed_by_effort.get(effort or "", frozenset())
    if thinks(effort, capabilities):
        fixed |= capabilities.fixed_by_thinking
    if not fixed:
        return capabilities
    return structs.replace(capabilities, parameters=capabilities.parameters - fixed)


def _note(code: Code, decision: Decision, param: str, message: str) -> Diagnostic:
    subject = param.rpartition("].")[2]
    return Diagnostic(code=code, decision=decision, param=param, message=message, subject=subject)
