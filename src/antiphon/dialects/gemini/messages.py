"""A history as Gemini's `contents`: turns of a user and of a model, each a list of parts.

1. Turns alternate. What the same side says next is a further part of its turn, so that a longer
   history only adds; but the answers to a turn's calls are a turn of their own, and come at once.
2. A turn of the model has its parts in the order, and its signatures on the very parts, that it
   sent them in: that is what the state of its thoughts is for.
3. A call that another model made has no signature. Models that insist on one take a sentinel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, TypeAlias

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
    is_own,
)
from antiphon.core.stream.deltas import ReasoningState
from antiphon.core.tools.identity import ToolIdentityMap
from antiphon.core.tools.naming import provider_name
from antiphon.dialects.gemini import media as gemini_media
from antiphon.dialects.gemini.quirks import GeminiQuirks
from antiphon.dialects.message_writer import joined

Body: TypeAlias = dict[str, Any]

# The schemes of state.
SIGNATURE = "gemini.thought_signature"
"""A signature: on the call that follows, or on a stretch of the text before."""
PART = "gemini.part"
"""A whole part, to be echoed as it came."""

SENTINEL = "skip_thought_signature_validator"
OPENING = "[start of the conversation]"
_OURS = "call_"  # ids that gateways make up; Gemini's own look otherwise


def contents(
    history: Iterable[Step], identities: ToolIdentityMap, quirks: GeminiQuirks
) -> list[Body]:
    """The turns of a history. The user opens: a model that speaks first is not taken."""
    writer = _Writer(identities, quirks)
    for own, steps in groupby(history, key=is_own):
        if own:
            writer.say("model", writer.turn(steps))
        else:
            writer.listen(steps)
    if not writer.contents or writer.contents[0]["role"] == "model":
        writer.contents.insert(0, {"role": "user", "parts": [{"text": OPENING}]})
    return writer.contents


def function_name(name: str) -> str:
    """A name as Gemini takes it: it must not begin with a digit or a dash."""
    return f"_{name}"[:64] if name[0] in "-0123456789" else name


class _Writer:
    """The turns so far."""

    def __init__(self, identities: ToolIdentityMap, quirks: GeminiQuirks) -> None:
        self.contents: list[Body] = []
        self._identities = identities
        self._quirks = quirks
        self._closed = False  # nothing more may be said in the last turn
        self._called: dict[str, Body] = {}  # by id, how the answers to the last turn begin

    def say(self, role: str, parts: Sequence[Body]) -> None:
        if not parts:
            return
        if self.contents and not self._closed and self.contents[-1]["role"] == role:
            self.contents[-1]["parts"] += parts
        else:
            self.contents.append({"role": role, "parts": list(parts)})
        self._closed = False

    def listen(self, steps: Iterable[Step]) -> None:
        """What tools answered, and what the user or the system says."""
        for answers, group in groupby(steps, key=lambda step: isinstance(step, ToolResultStep)):
            listed = list(group)
            if answers:
                self._answer([step for step in listed if isinstance(step, ToolResultStep)])
            for said in (step for step in listed if isinstance(step, MessageStep)):
                self.say("user", [self._part(part) for part in _spoken(said.parts)])

    def _part(self, part: Part) -> Body:
        return gemini_media.part(part, links=self._quirks.links)

    # The model's turn

    def turn(self, steps: Iterable[Step]) -> list[Body]:
        self._called = {}
        parts: list[Body] = []
        text = ""  # what was said last, as long as nothing has followed
        signature: str | None = None
        for step in steps:
            if isinstance(step, ReasoningStep):
                inside = [state for state in step.states if state.attach != "tool"]
                parts[len(parts) - bool(text) :] = woven(text, inside)
                text, signature = "", _signature(step.states)
            elif isinstance(step, ToolCallStep):
                parts.append(self._call(step, signature))
                text, signature = "", None
            else:
                text, signature = joined(step.parts, ""), None
                parts += [{"text": text}] if text else []
        return self._signed(parts)

    def _call(self, call: ToolCallStep, signature: str | None) -> Body:
        known = self._identities.by_requested_name(call.name, call.namespace)
        name = known.provider_name if known else provider_name(call.name, call.namespace)
        who: Body = {"name": function_name(name)}
        if self._quirks.call_ids and call.call_id and not call.call_id.startswith(_OURS):
            who["id"] = call.call_id
        self._called[call.call_id] = who
        part: Body = {"functionCall": {**who, "args": _arguments(call.arguments)}}
        return part if signature is None else {**part, "thoughtSignature": signature}

    def _signed(self, parts: list[Body]) -> list[Body]:
        """Of several calls at once, the first is the one whose signature is looked for."""
        first = next((part for part in parts if "functionCall" in part), None)
        if first is not None and self._quirks.sentinel:
            first.setdefault("thoughtSignature", SENTINEL)
        return parts

    # What tools answered

    def _answer(self, answers: Iterable[ToolResultStep]) -> None:
        """One part for each call, in a turn without anything else."""
        parts: list[Body] = []
        shown: list[Body] = []
        for answer in answers:
            found = [self._part(part) for part in _spoken(answer.parts)]
            media = [part for part in found if "text" not in part]
            who = self._called.get(answer.call_id) or {"name": function_name(answer.name or "tool")}
            output = "\n".join(part["text"] for part in found if "text" in part)
            response: Body = {**who, "response": {"output": output}}
            if media and self._quirks.media_in_answers:
                response["parts"] = media
            else:
                shown += media
            parts.append({"functionResponse": response})
        self.contents.append({"role": "user", "parts": parts})
        self._closed = True
        self.say("user", shown)


def woven(text: str, states: Iterable[ReasoningState]) -> list[Body]:
    """A text as the model sent it: in the parts, and between the parts, that its state tells of."""
    parts: list[Body] = []
    place = 0
    for state in states:
        part, begin, end = _placed(state, len(text))
        if part is None:
            continue
        begin, end = max(place, begin), max(place, end)
        if begin > place:
            parts.append({"text": text[place:begin]})
        parts.append({"text": text[begin:end], **part} if state.scheme == SIGNATURE else part)
        place = end
    if place < len(text):
        parts.append({"text": text[place:]})
    return parts


def _placed(state: ReasoningState, length: int) -> tuple[Body | None, int, int]:
    """A part, or what a signature makes of one, and the stretch of the text that it stands for."""
    match state.value:
        case {"part": dict(part)} if state.scheme == PART:
            begin = min(state.value.get("start", length), length)
            return part, begin, begin
        case {"signature": str(signature)} if state.scheme == SIGNATURE:
            begin, end = state.value.get("start", length), state.value.get("end", length)
            return {"thoughtSignature": signature}, min(begin, length), min(end, length)
        case str(signature) if state.scheme == SIGNATURE:
            return {"thoughtSignature": signature}, 0, length
    return None, 0, 0


def _signature(states: Iterable[ReasoningState]) -> str | None:
    """The signature of the call that comes next."""
    for state in states:
        if state.attach == "tool" and state.scheme == SIGNATURE and isinstance(state.value, str):
            return state.value
    return None


def _spoken(parts: Iterable[Part]) -> Iterator[Part]:
    """Without texts that say nothing."""
    return (part for part in parts if not isinstance(part, TextPart | RefusalPart) or part.text)


def _arguments(text: str) -> Body:
    """Arguments are the JSON text of an object, unless somebody has tampered with them."""
    try:
        arguments = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        arguments = None
    return arguments if isinstance(arguments, dict) else {"arguments": text}
