"""Drafts of an answer that has to have a form: the value in them that fits, or what is wrong.

The model may see its own words again: whatever is said of a draft is said to its author.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec
from msgspec import Struct

from antiphon.core.history.content import json_text
from antiphon.core.history.steps import MessageStep, Step, TextPart, ToolCallStep, ToolResultStep
from antiphon.core.planning.output_strategy import WRAPPER
from antiphon.core.structured_output.contract import OutputContract, SchemaViolation
from antiphon.core.structured_output.json_in_text import find_json_values

_MOST_OBJECTIONS = 10
_MOST_CHARACTERS = 300


class Draft(Struct, frozen=True):
    """What was said, or what the answer tool was called with by this id."""

    text: str
    call_id: str | None = None


def fitting(contract: OutputContract, drafts: Sequence[Draft]) -> list[str]:
    """The different values among them that fit; only one of them can be the answer."""
    found: dict[str, None] = {}
    for draft in drafts:
        plain = _unwrapped(draft.text, contract)
        candidates = [plain] if contract.is_valid(plain) else _candidates(contract, draft)
        found |= {each: None for each in candidates if contract.is_valid(each)}
    return [*found]


def _candidates(contract: OutputContract, draft: Draft) -> list[str]:
    return [_unwrapped(value, contract) for value in find_json_values(draft.text)]


def _unwrapped(text: str, contract: OutputContract) -> str:
    """The value without the wrapper that its tool put around it, as it is written there."""
    if not contract.wrapped:
        return text
    try:
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return text
    return bytes(fields[WRAPPER]).decode() if fields.keys() == {WRAPPER} else text


# Asking once more


def objected(contract: OutputContract, drafts: Sequence[Draft]) -> tuple[Step, ...]:
    """The steps that ask for the answer once more: each draft, and what is wrong with them."""
    complaint = (TextPart(_complaint(contract, drafts)),)
    steps: list[Step] = []
    replies: list[Step] = []
    for draft in drafts:
        if draft.call_id is not None and contract.tool is not None:
            steps.append(ToolCallStep(draft.call_id, contract.tool, _object_text(draft.text)))
            replies.append(ToolResultStep(draft.call_id, complaint, contract.tool))
        elif draft.text.strip():
            steps.append(MessageStep("assistant", (TextPart(draft.text),)))
    return (*steps, *(replies or [MessageStep("user", complaint)]))


def _complaint(contract: OutputContract, drafts: Sequence[Draft]) -> str:
    if fitting(contract, drafts):
        wrong = ["It has several JSON values, and it is not certain which one is meant."]
    else:
        candidates = [each for draft in drafts for each in _candidates(contract, draft)]
        text = max(candidates or [draft.text for draft in drafts], key=len)
        wrong = [_reason(each) for each in islice(contract.find_violations(text), _MOST_OBJECTIONS)]
    again = "Answer again with the whole corrected JSON value and nothing else: no prose."
    if contract.tool is not None:
        again = f"Call {contract.tool} once, with the whole corrected answer."
    return "\n".join(["Your answer does not have the form that was asked for.", *wrong, again])


def _object_text(arguments: str) -> str:
    """The arguments of a call in the history: always a JSON object, whatever they were."""
    try:
        msgspec.json.decode(arguments, type=dict)
    except (msgspec.DecodeError, RecursionError):
        return json_text({"_malformed": arguments})
    return arguments


def _reason(objection: SchemaViolation) -> str:
    message = objection.message
    if len(message) > _MOST_CHARACTERS:  # it quotes the answer first, and then says what is wrong
        half = _MOST_CHARACTERS // 2
        message = f"{message[:half]} … {message[-half:]}"
    steps = (step.replace("~", "~0").replace("/", "~1") for step in objection.path)
    pointer = "".join(f"/{step}" for step in steps)
    return f"- {pointer or 'the top level'}: {message} ({objection.keyword})"
