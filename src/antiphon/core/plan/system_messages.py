"""System and developer messages, where the provider accepts them.

A message that the provider rejects at its position becomes a user message with a tag, so that it
stays behind everything that came before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile

from antiphon.core.capabilities import Capabilities
from antiphon.core.diagnostic import Diagnostic, degraded
from antiphon.core.history.steps import (
    HistoryCode,
    MessageStep,
    RefusalPart,
    Step,
    TextPart,
    ToolResultStep,
    is_own,
)
from antiphon.core.plan.plan import Notes


def is_system_message(step: Step) -> bool:
    """Whether a step is a message of the system or the developer."""
    return isinstance(step, MessageStep) and step.role in ("system", "developer")


def place_system_messages(
    instructions: str | None, steps: tuple[Step, ...], capabilities: Capabilities, notes: Notes
) -> tuple[str | None, tuple[Step, ...]]:
    """Return the instructions and the history in a form that a provider accepts that does not take
    system messages anywhere; most requests have none."""
    if not any(map(is_system_message, steps)):
        return instructions, steps
    if capabilities.system_messages == "first":
        leading = list(takewhile(is_system_message, steps))
        texts = filter(None, [instructions or "", *map(_text, leading)])
        instructions = "\n\n".join(texts) or None
        steps = steps[len(leading) :]
        placed = tuple(_replace_all(steps))
    else:
        placed = tuple(_replace_after_answers(steps))
    replaced = sum(before is not after for before, after in zip(steps, placed, strict=True))
    if replaced:
        notes.append(_report(replaced, capabilities))
    return instructions, placed


def _replace_all(steps: Iterable[Step]) -> Iterator[Step]:
    return (_as_user_message(step) if is_system_message(step) else step for step in steps)


def _replace_after_answers(steps: Iterable[Step]) -> Iterator[Step]:
    previous: Step | None = None
    for step in steps:
        follows_answer = previous is not None and _is_answer(previous)
        if follows_answer and is_system_message(step):
            step = _as_user_message(step)
        yield step
        previous = step


def _is_answer(step: Step) -> bool:
    return is_own(step) or isinstance(step, ToolResultStep)


def _text(step: Step) -> str:
    assert isinstance(step, MessageStep)
    parts = (part for part in step.parts if isinstance(part, TextPart | RefusalPart))
    return "\n".join(part.text for part in parts)


def _as_user_message(step: Step) -> Step:
    return MessageStep("user", (TextPart(f"<system>\n{_text(step)}\n</system>"),))


def _report(count: int, capabilities: Capabilities) -> Diagnostic:
    message = (
        f"{count} system or developer messages are sent as user messages:"
        f" {capabilities.model_name} does not accept them at their position in the history."
    )
    return degraded(HistoryCode.ROLE_REPLACED, "input", message, "system")
