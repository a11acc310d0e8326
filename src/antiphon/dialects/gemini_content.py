"""A history as Gemini's `contents`: turns of a user and of a model, each a list of parts.

1. Turns alternate. What is said next by the same side is a further part of its turn, so a longer
   history only adds; but the answers to a turn's calls are a turn of their own, and come at once.
2. A turn of the model has its parts in the order, and on the very parts, that it sent them in:
   that is what the state of its thoughts is for.
3. A call of another model's has no signature. Models that insist on one take a sentinel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import msgspec

from antiphon.core.deltas import ReasoningState
from antiphon.core.history import Answered, Called, Part, RefusalPart, Said, Step, TextPart, Thought
from antiphon.core.plan import Plan
from antiphon.core.toolbox import provider_name
from antiphon.core.tools import ToolIdentityMap
from antiphon.dialects.gemini_call import SIGNATURE
from antiphon.dialects.gemini_media import media

Body: TypeAlias = dict[str, Any]

PART = "gemini.part"
"""The scheme of state that is a whole part, to be echoed as it came."""
SENTINEL = "skip_thought_signature_validator"
OPENING = "[start of the conversation]"


def leading(history: Sequence[Step]) -> int:
    """How many steps at the beginning belong into the system instruction.

    If there is nothing else they stay where they are: somebody has to say something.
    """
    spoken = (place for place, step in enumerate(history) if not _is_system(step))
    return next(spoken, 0)


def contents(
    history: Iterable[Step],
    plan: Plan,
    *,
    sentinel: bool,
    call_ids: bool,
    links: bool,
    media_in_answers: bool,
) -> list[Body]:
    """The turns of a history; the flags are the quirks of the same names."""
    writer = _Writer(plan.identities, sentinel, call_ids, links, media_in_answers)
    for own, steps in groupby(history, key=_is_own):
        if own:
            writer.say("model", writer.turn(steps))
        else:
            writer.listen(steps)
    if not writer.contents or writer.contents[0]["role"] == "model":
        writer.contents.insert(0, {"role": "user", "parts": [{"text": OPENING}]})
    return writer.contents


def function_name(name: str) -> str:
    """A name that Gemini takes: it must not begin with a digit or a dash."""
    return name if name[0].isalpha() or name[0] == "_" else f"_{name}"[:64]


def _is_own(step: Step) -> bool:
    """Whether a step is part of a model's turn."""
    return isinstance(step, Thought | Called) or (
        isinstance(step, Said) and step.role == "assistant"
    )


def _is_system(step: Step) -> bool:
    return isinstance(step, Said) and step.role in ("system", "developer")
