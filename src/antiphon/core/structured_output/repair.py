"""Drafts of a structured answer: find the valid JSON value in them, or ask for a correction.

The reasons quote the draft. They go to the model, which wrote it; never to a client or a log.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec
from msgspec import Struct

from antiphon.core.history.content import json_text
from antiphon.core.history.steps import MessageStep, Step, TextPart, ToolCallStep, ToolResultStep
from antiphon.core.structured_output.contract import WRAPPER, OutputContract, SchemaViolation
from antiphon.core.structured_output.json_in_text import find_json_values

_MAX_OBJECTIONS = 10
_MAX_CHARACTERS = 300


class AnswerDraft(Struct, frozen=True):
    """A text, or the arguments of the call of the answer tool with this id."""

    text: str
    call_id: str | None = None


def find_valid_answers(contract: OutputContract, drafts: Sequence[AnswerDraft]) -> list[str]:
    """Return the different valid values in the drafts; only if there is one, it is the answer."""
    found: dict[str, None] = {}
    for draft in drafts:
        plain = _unwrap(draft.text, contract)
        candidates = [plain] if contract.is_valid(plain) else _find_values(contract, draft)
        found |= {each: None for each in candidates if contract.is_valid(each)}
    return [*found]


def _find_values(contract: OutputContract, draft: AnswerDraft) -> list[str]:
    return [_unwrap(value, contract) for value in find_json_values(draft.text)]


def _unwrap(text: str, contract: OutputContract) -> str:
    """Return the value in the one field of the answer tool: `{"value": [1]}` is `[1]`."""
    if not contract.wrapped:
        return text
    try:
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return text
    return bytes(fields[WRAPPER]).decode() if fields.keys() == {WRAPPER} else text


def ask_for_correction(contract: OutputContract, drafts: Sequence[AnswerDraft]) -> tuple[Step, ...]:
    """Return the steps that ask for the answer once more: each draft, and its problems."""
    complaint = (TextPart(_write_complaint(contract, drafts)),)
    steps: list[Step] = []
    replies: list[Step] = []
    for draft in drafts:
        if draft.call_id is not None and contract.tool is not None:
            steps.append(ToolCallStep(draft.call_id, contract.tool, _as_object_text(draft.text)))
            replies.append(ToolResultStep(draft.call_id, complaint, contract.tool))
        elif draft.text.strip():
            steps.append(MessageStep("assistant", (TextPart(draft.text),)))
    return (*steps, *(replies or [MessageStep("user", complaint)]))


def _write_complaint(contract: OutputContract, drafts: Sequence[AnswerDraft]) -> str:
    if find_valid_answers(contract, drafts):
        wrong = ["It has several JSON values, and it is not certain which one is meant."]
    else:
        candidates = [each for draft in drafts for each in _find_values(contract, draft)]
        text = max(candidates or [draft.text for draft in drafts], key=len)
        wrong = [
            _describe(each) for each in islice(contract.find_violations(text), _MAX_OBJECTIONS)
        ]
    again = "Answer again with the whole corrected JSON value and nothing else: no prose."
    if contract.tool is not None:
        again = f"Call {contract.tool} once, with the whole corrected answer."
    return "\n".join(["Your answer does not have the form that was asked for.", *wrong, again])


def _as_object_text(arguments: str) -> str:
    """Return arguments for the history, where providers accept JSON objects only."""
    try:
        msgspec.json.decode(arguments, type=dict)
    except (msgspec.DecodeError, RecursionError):
        return json_text({"_malformed": arguments})
    return arguments


def _describe(objection: SchemaViolation) -> str:
    message = objection.message
    if len(message) > _MAX_CHARACTERS:  # it begins with a quote and ends with the reason
        half = _MAX_CHARACTERS // 2
        message = f"{message[:half]} … {message[-half:]}"
    steps = (step.replace("~", "~0").replace("/", "~1") for step in objection.path)
    pointer = "".join(f"/{step}" for step in steps)
    return f"- {pointer or 'the top level'}: {message} ({objection.keyword})"
