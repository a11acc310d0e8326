"""Encode a history as Gemini's `contents`: alternating user and model turns, each a list of parts.

1. Turns alternate. Further messages of the same side are further parts of its turn, so that a
   longer history only appends; but the results of a turn's calls are a turn of their own, directly
   after it.
2. A model turn has its parts in the order in which the model sent them, and each signature on the
   part that it came with: reasoning state records both.
3. A call that another model made has no signature. Models that require one accept a sentinel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from antiphon.core.deltas import ReasoningState
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
from antiphon.core.items import Document
from antiphon.core.tools.identity import ToolIdentityMap
from antiphon.dialects.gemini.media import encode_part
from antiphon.dialects.gemini.quirks import GeminiQuirks
from antiphon.dialects.message_writer import join_text

# The schemes of reasoning state.
SIGNATURE = "gemini.thought_signature"
"""A signature: of the call that follows, or of a range of the text before."""
PART = "gemini.part"
"""A whole part, to be echoed as it came."""

SENTINEL = "skip_thought_signature_validator"
OPENING = "[start of the conversation]"
_GENERATED_ID_PREFIX = "call_"  # ids that gateways generate; Gemini's own look different


def encode_history(
    history: Iterable[Step], identities: ToolIdentityMap, quirks: GeminiQuirks
) -> list[Document]:
    """Encode a history. The first turn is the user's: a model turn there is refused."""
    writer = _Writer(identities, quirks)
    for own, steps in groupby(history, key=is_own):
        if own:
            writer.add_model_steps(steps)
        else:
            writer.add_client_steps(steps)
    if not writer.contents or writer.contents[0]["role"] == "model":
        writer.contents.insert(0, {"role": "user", "parts": [{"text": OPENING}]})
    return writer.contents


def function_name(name: str) -> str:
    """A name that Gemini accepts: it must not begin with a digit or a dash."""
    return f"_{name}"[:64] if name[0] in "-0123456789" else name


class _Writer:
    """The turns encoded so far."""

    def __init__(self, identities: ToolIdentityMap, quirks: GeminiQuirks) -> None:
        self.contents: list[Document] = []
        self._identities = identities
        self._quirks = quirks
        self._turn_closed = False  # no part may be added to the last turn
        self._callees: dict[str, Document] = {}  # by call id: name and id of the last turn's calls

    def _add_parts(self, role: str, parts: Sequence[Document]) -> None:
        if not parts:
            return
        if self.contents and not self._turn_closed and self.contents[-1]["role"] == role:
            self.contents[-1]["parts"] += parts
        else:
            self.contents.append({"role": role, "parts": list(parts)})
        self._turn_closed = False

    def _encode_part(self, part: Part) -> Document:
        return encode_part(part, links=self._quirks.links)

    # The model's turn

    def add_model_steps(self, steps: Iterable[Step]) -> None:
        self._callees = {}
        parts: list[Document] = []
        text = ""  # the last part, while it is text that state may still split
        signature: str | None = None  # of the next call
        for step in steps:
            if isinstance(step, ReasoningStep):
                if text:
                    parts.pop()
                parts += split_text(text, [each for each in step.states if each.attach != "tool"])
                text = ""
                signature = _call_signature(step.states)
            elif isinstance(step, ToolCallStep):
                parts.append(self._encode_call(step, signature))
                text = ""
                signature = None
            else:
                text = join_text(step.parts, "")
                signature = None
                parts += [{"text": text}] if text else []
        self._sign_first_call(parts)
        self._add_parts("model", parts)

    def _encode_call(self, call: ToolCallStep, signature: str | None) -> Document:
        name = self._identities.name_for_provider(call.name, call.namespace)
        callee: Document = {"name": function_name(name)}
        is_generated = call.call_id.startswith(_GENERATED_ID_PREFIX)
        if self._quirks.call_ids and call.call_id and not is_generated:
            callee["id"] = call.call_id
        self._callees[call.call_id] = callee
        part: Document = {"functionCall": {**callee, "args": _arguments(call.arguments)}}
        return part if signature is None else {**part, "thoughtSignature": signature}

    def _sign_first_call(self, parts: Iterable[Document]) -> None:
        """Add the sentinel where it is missing: of parallel calls, only the first is checked.

        `{"functionCall": {…}, "thoughtSignature": "skip_thought_signature_validator"}`
        """
        first = next((part for part in parts if "functionCall" in part), None)
        if first is not None and self._quirks.sentinel:
            first.setdefault("thoughtSignature", SENTINEL)

    # The user's turn

    def add_client_steps(self, steps: Iterable[Step]) -> None:
        """Add results of tools, and messages of the user or the system."""
        for are_results, group in groupby(steps, key=lambda step: isinstance(step, ToolResultStep)):
            listed = list(group)
            if are_results:
                self._add_results([step for step in listed if isinstance(step, ToolResultStep)])
            for message in (step for step in listed if isinstance(step, MessageStep)):
                self._add_parts("user", [*map(self._encode_part, _without_empty(message.parts))])

    def _add_results(self, results: Iterable[ToolResultStep]) -> None:
        """Add one part for each call, in a turn without anything else.

        `{"functionResponse": {"name": "look", "id": "a1", "response": {"output": "1"}}}`
        """
        parts: list[Document] = []
        media_after: list[Document] = []
        for result in results:
            content = [*map(self._encode_part, _without_empty(result.parts))]
            media = [part for part in content if "text" not in part]
            output = "\n".join(part["text"] for part in content if "text" in part)
            outcome = {"error" if result.is_error else "output": output}
            response: Document = {**self._callee(result), "response": outcome}
            if media and self._quirks.media_in_answers:
                response["parts"] = media
            else:
                media_after += media
            parts.append({"functionResponse": response})
        self.contents.append({"role": "user", "parts": parts})
        self._turn_closed = True
        self._add_parts("user", media_after)

    def _callee(self, result: ToolResultStep) -> Document:
        """Name and id of the call; a result without a call keeps the name of its tool."""
        callee = self._callees.get(result.call_id)
        return callee or {"name": function_name(result.name or "tool")}


# --- reasoning state ------------------------------------------------------------------------------


class _StatePosition(NamedTuple):
    """The fields of a part, and the range of the text that the part replaces (empty: none)."""

    fields: Document
    start: int
    end: int


def split_text(text: str, states: Iterable[ReasoningState]) -> list[Document]:
    """Split a text into the parts that the model sent, with the parts that stood between them.

    `{"text": "one"}, {"executableCode": {…}}, {"text": " two", "thoughtSignature": "c2ln"}` reached
    the client as the text "one two" with two states, at 3 and at 3 to 7.
    """
    parts: list[Document] = []
    position = 0
    for state in states:
        placed = _locate_state(state, len(text))
        if placed is None:
            continue
        start = max(position, placed.start)
        end = max(position, placed.end)
        if start > position:
            parts.append({"text": text[position:start]})
        is_text = state.scheme == SIGNATURE
        parts.append({"text": text[start:end], **placed.fields} if is_text else placed.fields)
        position = end
    if position < len(text):
        parts.append({"text": text[position:]})
    return parts


def _locate_state(state: ReasoningState, length: int) -> _StatePosition | None:
    """Find the position of a state in a text; beyond a text that was changed, it is the end."""
    match state.value:
        # {"part": {"executableCode": {…}}, "start": 3}; without `start`: after the text
        case {"part": dict(part)} if state.scheme == PART:
            start = min(state.value.get("start", length), length)
            return _StatePosition(part, start, start)
        # {"signature": "c2ln", "start": 0, "end": 4}; without a range: on an empty part at the end
        case {"signature": str(signature)} if state.scheme == SIGNATURE:
            start = state.value.get("start", length)
            end = state.value.get("end", length)
            fields = {"thoughtSignature": signature}
            return _StatePosition(fields, min(start, length), min(end, length))
        # "c2ln": a bare signature belongs to all of the text
        case str(signature) if state.scheme == SIGNATURE:
            return _StatePosition({"thoughtSignature": signature}, 0, length)
    return None  # state of another provider


def _call_signature(states: Iterable[ReasoningState]) -> str | None:
    """The signature of the call that follows."""
    for state in states:
        if state.attach == "tool" and state.scheme == SIGNATURE and isinstance(state.value, str):
            return state.value
    return None


# --- content --------------------------------------------------------------------------------------


def _without_empty(parts: Iterable[Part]) -> Iterator[Part]:
    return (part for part in parts if not isinstance(part, TextPart | RefusalPart) or part.text)


def _arguments(text: str) -> Document:
    """Decode the arguments: the JSON text of an object, unless a client has changed it."""
    try:
        arguments = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        arguments = None
    return arguments if isinstance(arguments, dict) else {"arguments": text}
