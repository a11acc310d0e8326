"""Deltas: the normalized pieces of a provider's stream.

A delta is a small frozen struct. Decoders make deltas, filters may change them, and the state
machine (`core.stream.machine`) turns them into events. `parse_delta` reads deltas that come as
plain mappings (plug-ins, tests, other languages) and checks every field of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from antiphon.core.faults.classify import classify_document
from antiphon.core.faults.fault import ProviderFault, protocol_fault
from antiphon.core.items import Document
from antiphon.errors import InvalidTransition

ReasoningKind: TypeAlias = Literal["raw", "summary", "raw_as_summary"]
"""`raw_as_summary` is raw reasoning that is shown as a summary and sealed as raw reasoning."""
CallKind: TypeAlias = Literal["function", "custom"]


class Start(Struct, frozen=True, tag=True):
    """The model and the response id that the provider reports. Optional, at most once."""

    model: str | None = None
    upstream_id: str | None = None


class Text(Struct, frozen=True, tag=True):
    text: str
    logprobs: Sequence[Document] = ()


class Refusal(Struct, frozen=True, tag=True):
    text: str


class Reasoning(Struct, frozen=True, tag=True):
    """A piece of reasoning. A change of `part` begins a new part of the same item."""

    text: str
    kind: ReasoningKind = "raw"
    part: int = 0


class ReasoningState(Struct, frozen=True, tag=True):
    """Opaque provider state for the next turn: a signature, a redacted block, reasoning_details."""

    scheme: str
    value: Any
    attach: Literal["block", "tool", "text", "turn"] = "turn"


class ToolCall(Struct, frozen=True, tag=True):
    """A piece of one call, identified by its index; id, name and arguments may come in pieces.

    The arguments of a `custom` call are its input, as free text.
    """

    index: int
    call_id: str | None = None
    name: str | None = None
    arguments: str = ""
    kind: CallKind = "function"


class ToolEnd(Struct, frozen=True, tag=True):
    """The provider reports the end of a call. Most providers never do."""

    index: int
    complete: bool = True


class ToolRevision(Struct, frozen=True, tag=True):
    """The corrected input of a custom call: it replaces all of the input before it."""

    index: int
    text: str


class SearchStarted(Struct, frozen=True, tag=True):
    """The gateway has started a web search."""

    action: Document


class SearchEnded(Struct, frozen=True, tag=True):
    """The web search has ended, with results or with a failure."""

    action: Document
    status: Literal["completed", "failed"] = "completed"


class EmptyReasoning(Struct, frozen=True, tag=True):
    """A reasoning item that the provider finished without any text."""


class RawItemStarted(Struct, frozen=True, tag=True):
    """An item that is passed on as it is has begun. `number` identifies it until it ends."""

    number: int
    document: Document
    held: bool = False
    """The gateway itself ends it, after the round that it began in."""


class RawItemEvent(Struct, frozen=True, tag=True):
    """An event of a started raw item: the stage of a search, a piece of code, a partial image."""

    number: int
    name: str
    """The `type` of the event."""
    fields: Document


class RawItem(Struct, frozen=True, tag=True):
    """A finished item that is passed on as it is: a search, a code run, an approval request.

    With a `number` it ends the item that was started; without one it arrived whole.
    """

    document: Document
    number: int | None = None


class ItemEnd(Struct, frozen=True, tag=True):
    """The end of an item: the next delta begins a new one, even if it is of the same kind. `phase`
    labels the next message: `commentary`, `final_answer`."""

    phase: str | None = None


class BlockStart(Struct, frozen=True, tag=True):
    """A content block has begun, as the provider's own format has it: the next delta begins an item
    of this kind, or the next part of a message. Only made for clients of the same format
    (`Dialect.for_client`)."""

    kind: Literal["text", "call"]
    extra: Document
    """`{"format": …, "members": {…}}`: members of the block that have no name here."""


class BlockMembers(Struct, frozen=True, tag=True):
    """All members without a name here of the text that is open: some came after its start."""

    extra: Document


class Annotation(Struct, frozen=True, tag=True):
    """A citation, in the shape of an `output_text` annotation."""

    annotation: Document


class Usage(Struct, frozen=True, tag=True):
    """Token counts so far; later ones replace earlier ones. Input includes cached tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    total_tokens: int | None = None
    estimated: bool = False
    """The gateway has estimated the counts: the provider sent none."""


class ServiceTier(Struct, frozen=True, tag=True):
    """The service tier that the provider used, by its name in the Responses API."""

    tier: str


class ResponseMembers(Struct, frozen=True, tag=True):
    """Members of the provider's own response that have no name here, for clients of the same
    format."""

    extra: Document
    """`{"format": …, "members": {…}}`"""


class Finish(Struct, frozen=True, tag=True):
    """The provider's own finish reason; only `core.stream.finish` interprets it."""

    reason: str | None
    stop_sequence: str | None = None
    """The text of `stop` that ended the response, if the provider names it."""


class Failure(Struct, frozen=True, tag=True):
    """An error inside a stream whose HTTP status was a success."""

    fault: ProviderFault


class Extra(Struct, frozen=True, tag=True):
    """Anything else that is worth tracing. It is never shown to the client."""

    kind: str
    payload: Any = None
    is_output: bool = False
    """It is a part of the output that no item can carry: a diagnostic tells the client."""


Delta: TypeAlias = (
    Text
    | Reasoning
    | ToolCall
    | Refusal
    | Usage
    | Finish
    | Start
    | ReasoningState
    | ToolEnd
    | Annotation
    | RawItem
    | RawItemStarted
    | RawItemEvent
    | EmptyReasoning
    | ItemEnd
    | Extra
    | Failure
    | ToolRevision
    | SearchStarted
    | SearchEnded
    | ServiceTier
    | BlockStart
    | BlockMembers
    | ResponseMembers
)


def parse_delta(mapping: object) -> list[Delta]:
    """Parse one plain mapping into deltas, in the order that the state machine expects.

    Raises `InvalidTransition`, naming the field, for anything outside the contract.
    """
    fields = _check_mapping(mapping, "delta")
    if not fields:
        raise InvalidTransition("delta: must not be empty")
    _reject_unknown_fields(fields, frozenset(_READERS), "delta")
    return [
        delta for name, read in _READERS.items() if name in fields for delta in read(fields[name])
    ]


def _check_mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidTransition(f"{where}: must be an object")
    return value


def _reject_unknown_fields(fields: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    unknown = sorted(str(name) for name in fields if name not in known)
    if unknown:
        raise InvalidTransition(f"{where}: unrecognized field {unknown[0]!r}")


def _check_string(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise InvalidTransition(f"{where}: must be a string")
    return value


def _read_count(value: object, where: str) -> int:
    is_invalid = isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value))
    if is_invalid or not isinstance(value, int | float):
        raise InvalidTransition(f"{where}: must be a finite number")
    return max(0, int(value))


def _read_error(value: object) -> Iterator[Delta]:
    fields = _check_mapping(value, "error")
    message = _check_string(fields.get("message"), "error.message")
    if "code" in fields:
        _check_string(fields["code"], "error.code")
    yield Failure(classify_document({"error": dict(fields)}) or protocol_fault(message))


def _read_usage(value: object) -> Iterator[Delta]:
    fields = _check_mapping(value, "usage")
    for required in ("input_tokens", "output_tokens", "total_tokens"):
        _read_count(fields.get(required), f"usage.{required}")
    inputs = _check_mapping(fields.get("input_tokens_details", {}), "usage.input_tokens_details")
    outputs = _check_mapping(fields.get("output_tokens_details", {}), "usage.output_tokens_details")
    yield Usage(
        input_tokens=_read_count(fields["input_tokens"], "usage.input_tokens"),
        output_tokens=_read_count(fields["output_tokens"], "usage.output_tokens"),
        cached_tokens=_read_count(inputs.get("cached_tokens", 0), "usage.cached_tokens"),
        reasoning_tokens=_read_count(outputs.get("reasoning_tokens", 0), "usage.reasoning_tokens"),
        total_tokens=_read_count(fields["total_tokens"], "usage.total_tokens"),
    )


def _read_reasoning(value: object) -> Iterator[Delta]:
    yield Reasoning(_check_string(value, "reasoning"))


def _read_refusal(value: object) -> Iterator[Delta]:
    yield Refusal(_check_string(value, "refusal"))


_CALL_FIELDS = frozenset({"index", "id", "type", "name", "arguments"})


def _read_tool_call(value: object) -> Iterator[Delta]:
    fields = _check_mapping(value, "toolCall")
    if not fields:
        raise InvalidTransition("toolCall: must not be empty")
    _reject_unknown_fields(fields, _CALL_FIELDS, "toolCall")
    index = fields.get("index")
    if isinstance(index, bool) or not isinstance(index, int) or index < 0:
        raise InvalidTransition("toolCall.index: must be a non-negative integer")
    texts = {
        name: _check_string(text, f"toolCall.{name}")
        for name, text in fields.items()
        if name != "index"
    }
    yield ToolCall(
        index,
        call_id=texts.get("id") or None,
        name=texts.get("name") or None,
        arguments=texts.get("arguments", ""),
        kind="custom" if texts.get("type") == "custom" else "function",
    )


def _read_text(value: object) -> Iterator[Delta]:
    yield Text(_check_string(value, "text"))


def _read_finish(value: object) -> Iterator[Delta]:
    yield Finish(None if value is None else _check_string(value, "finishReason"))


_READERS: Mapping[str, Callable[[object], Iterator[Delta]]] = {
    "usage": _read_usage,
    "reasoning": _read_reasoning,
    "refusal": _read_refusal,
    "toolCall": _read_tool_call,
    "text": _read_text,
    "finishReason": _read_finish,
    "error": _read_error,
}
