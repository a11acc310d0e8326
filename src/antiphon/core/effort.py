"""How long a model thinks, and what it can no longer be told while it does."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.plan import Capabilities, ToolChoice

RUNGS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def climb(
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


def settle(
    effort: str | None, choice: ToolChoice, param: str, capabilities: Capabilities
) -> tuple[str | None, list[Diagnostic]]:
    """The effort beside this choice of tools: a call that has to be made may leave no thinking."""
    forced = choice.mode in ("required", "function")
    stops = forced and capabilities.forced_choice_stops_thinking and "none" in capabilities.efforts
    if not stops or not thinks(effort, capabilities):
        return effort, []
    message = "A tool that has to be called is called without thinking: the model cannot do both."
    diagnostic = _note(Code.EFFORT_DEGRADED, Decision.DEGRADED, param, message)
    return capabilities.efforts["none"], [diagnostic]


def thinks(effort: str | None, capabilities: Capabilities) -> bool:
    if effort is None:
        return capabilities.thinks_unasked
    return effort != capabilities.efforts.get("none")


def while_thinking(effort: str | None, capabilities: Capabilities) -> Capabilities:
    """What the model takes with this effort."""
    fixed = capabilities.fixed_by_thinking
    if not fixed or not thinks(effort, capabilities):
        return capabilities
    return structs.replace(capabilities, parameters=capabilities.parameters - fixed)


def _note(code: Code, decision: Decision, param: str, message: str) -> Diagnostic:
    subject = param.rpartition("].")[2]
    return Diagnostic(code=code, decision=decision, param=param, message=message, subject=subject)
