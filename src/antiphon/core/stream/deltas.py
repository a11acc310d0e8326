"""What a provider said, one thing at a time.

A delta is a small frozen struct. Decoders build them; the machine (`core.machine`) is the only
reader. `parse_delta` takes deltas that come as plain mappings (plug-ins, tests, other languages)
and checks them by the table of the founding page on stream reconstruction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from antiphon.core.faults.classify import classify_document
from antiphon.core.faults.fault import ProviderFault, protocol_fault
from antiphon.errors import InvalidTransition
from antiphon.wire.items import Document

ReasoningKind: TypeAlias = Literal["raw", "summary", "retold"]
"""`retold` is raw thought that is told as a summary, and sealed as what it was."""
CallKind: TypeAlias = Literal["function", "custom"]


class Start(Struct, frozen=True, tag=True):
    """Who is answering. Optional, at most once."""

    model: str | None = None
    upstream_id: str | None = None


class Text(Struct, frozen=True, tag=True):
    text: str
    logprobs: Sequence[Document] = ()


class Refusal(Struct, frozen=True, tag=True):
    text: str


class Reasoning(Struct, frozen=True, tag=True):
    """Thought. A change of `part` begins a new part of the same item."""

    text: str
    kind: ReasoningKind = "raw"
    part: int = 0


class ReasoningState(Struct, frozen=True, tag=True):
    """Opaque state to hand back next turn: a signature, a redacted block, reasoning_details."""

    scheme: str
    value: Any
    attach: Literal["block", "tool", "text", "turn"] = "turn"


class ToolCall(Struct, frozen=True, tag=True):
    """A piece of one call. The index tells calls apart; id, name and arguments may come in pieces.

    The arguments of a `custom` call are its input, as free text.
    """

    index: int
    call_id: str | None = None
    name: str | None = None
    arguments: str = ""
    kind: CallKind = "function"


class ToolEnd(Struct, frozen=True, tag=True):
    """The provider says the call has ended. Most never do."""

    index: int
    complete: bool = True


class ToolRevision(Struct, frozen=True, tag=True):
    """The whole input of a custom call, after all: it replaces what was said of it before."""

    index: int
    text: str


class SearchBegun(Struct, frozen=True, tag=True):
    """The gateway has begun to search the web."""

    action: Document


class SearchEnded(Struct, frozen=True, tag=True):
    """The search that was begun is over; it found something, or it failed."""

    action: Document
    status: Literal["completed", "failed"] = "completed"


class RawItem(Struct, frozen=True, tag=True):
    """A finished item of a kind that is passed on as it came: a search, a program, an approval."""

    document: Document


class ItemEnd(Struct, frozen=True, tag=True):
    """What comes next is another item, even if it is of the same kind; a message may be labelled:
    `commentary`, `final_answer`."""

    phase: str | None = None


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


class Finish(Struct, frozen=True, tag=True):
    """The provider's own word for why it stopped; `core.finish` is the only interpreter."""

    reason: str | None


class Failure(Struct, frozen=True, tag=True):
    """An error inside a healthy stream."""

    fault: ProviderFault


class Extra(Struct, frozen=True, tag=True):
    """Anything else worth tracing. Never a crash, never shown."""

    kind: str
    payload: Any = None


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
    | ItemEnd
    | Extra
    | Failure
    | ToolRevision
    | SearchBegun
    | SearchEnded
)


def parse_delta(mapping: object) -> list[Delta]:
    """Typed deltas of one plain mapping, in the order the machine wants them.

    Raises `InvalidTransition`, naming the field, for anything outside the contract.
    """
    fields = _mapping(mapping, "delta")
    if not fields:
        raise InvalidTransition("delta: an empty mapping says nothing")
    _only(fields, frozenset(_READERS), "delta")
    return [
        delta for name, read in _READERS.items() if name in fields for delta in read(fields[name])
    ]


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidTransition(f"{where}: must be an object")
    return value


def _only(fields: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    unknown = sorted(str(name) for name in fields if name not in known)
    if unknown:
        raise InvalidTransition(f"{where}: unrecognized field {unknown[0]!r}")


def _string(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise InvalidTransition(f"{where}: must be a string")
    return value


def _count(value: object, where: str) -> int:
    odd = isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value))
    if odd or not isinstance(value, int | float):
        raise InvalidTransition(f"{where}: must be a finite number")
    return max(0, int(value))


def _error(value: object) -> Iterator[Delta]:
    fields = _mapping(value, "error")
    message = _string(fields.get("message"), "error.message")
    if "code" in fields:
        _string(fields["code"], "error.code")
    yield Failure(classify_document({"error": dict(fields)}) or protocol_fault(message))


def _usage(value: object) -> Iterator[Delta]:
    fields = _mapping(value, "usage")
    for required in ("input_tokens", "output_tokens", "total_tokens"):
        _count(fields.get(required), f"usage.{required}")
    inputs = _mapping(fields.get("input_tokens_details", {}), "usage.input_tokens_details")
    outputs = _mapping(fields.get("output_tokens_details", {}), "usage.output_tokens_details")
    yield Usage(
        input_tokens=_count(fields["input_tokens"], "usage.input_tokens"),
        output_tokens=_count(fields["output_tokens"], "usage.output_tokens"),
        cached_tokens=_count(inputs.get("cached_tokens", 0), "usage.cached_tokens"),
        reasoning_tokens=_count(outputs.get("reasoning_tokens", 0), "usage.reasoning_tokens"),
        total_tokens=_count(fields["total_tokens"], "usage.total_tokens"),
    )


def _reasoning(value: object) -> Iterator[Delta]:
    yield Reasoning(_string(value, "reasoning"))


def _refusal(value: object) -> Iterator[Delta]:
    yield Refusal(_string(value, "refusal"))


_CALL_FIELDS = frozenset({"index", "id", "type", "name", "arguments"})


def _tool_call(value: object) -> Iterator[Delta]:
    fields = _mapping(value, "toolCall")
    if not fields:
        raise InvalidTransition("toolCall: an empty object says nothing")
    _only(fields, _CALL_FIELDS, "toolCall")
    index = fields.get("index", 0)
    if isinstance(index, bool) or not isinstance(index, int) or index < 0:
        raise InvalidTransition("toolCall.index: must be a non-negative integer")
    texts = {
        name: _string(text, f"toolCall.{name}") for name, text in fields.items() if name != "index"
    }
    yield ToolCall(
        index,
        call_id=texts.get("id") or None,
        name=texts.get("name") or None,
        arguments=texts.get("arguments", ""),
        kind="custom" if texts.get("type") == "custom" else "function",
    )


def _text(value: object) -> Iterator[Delta]:
    yield Text(_string(value, "text"))


def _finish(value: object) -> Iterator[Delta]:
    yield Finish(None if value is None else _string(value, "finishReason"))


_READERS: Mapping[str, Callable[[object], Iterator[Delta]]] = {
    "usage": _usage,
    "reasoning": _reasoning,
    "refusal": _refusal,
    "toolCall": _tool_call,
    "text": _text,
    "finishReason": _finish,
    "error": _error,
}
