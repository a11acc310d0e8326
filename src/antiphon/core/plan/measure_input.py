"""Length of the text that a model reads of a request, for an estimate of its tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from antiphon.core.history.steps import (
    MessageStep,
    Part,
    ReasoningStep,
    RefusalPart,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.plan.plan import Plan
from antiphon.core.tools.declaration import ToolDeclaration

_STEP = 64 * 1024  # characters that are encoded at once


def measure_input(plan: Plan) -> int:
    """Count the bytes of text in a request: instructions, history and tools. Images, files and
    audio count nothing: what they cost is unknown."""
    return sum(map(_length, _texts(plan))) if plan.input_bytes is None else plan.input_bytes


def _length(text: str) -> int:
    """Count the bytes of a text, of a long one in steps: other threads have their turn between."""
    if text.isascii():
        return len(text)
    return sum(len(text[start : start + _STEP].encode()) for start in range(0, len(text), _STEP))


def measure_step(step: Step, plan: Plan) -> int:
    """Count the bytes of text in one step of the history."""
    return sum(len(text.encode()) for text in _step_texts(step, plan))


def _texts(plan: Plan) -> Iterator[str]:
    yield plan.instructions or ""
    yield plan.contract.instruction() or ""
    for step in plan.history:
        yield from _step_texts(step, plan)
    for declaration in plan.declarations:
        yield from _tool_texts(declaration)


def _step_texts(step: Step, plan: Plan) -> Iterator[str]:
    match step:
        case MessageStep(parts=parts) | ToolResultStep(parts=parts):
            yield from _part_texts(parts)
        case ToolCallStep(name=name, arguments=arguments):
            yield from (name, arguments)
        case ReasoningStep() if plan.replay_reasoning != "never":
            yield step.text


def _part_texts(parts: Iterable[Part]) -> Iterator[str]:
    return (part.text for part in parts if isinstance(part, TextPart | RefusalPart))


def _tool_texts(declaration: ToolDeclaration) -> Iterator[str]:
    yield declaration.name
    yield declaration.description or ""
    yield msgspec.json.encode(declaration.parameters or {}).decode()
