"""The Responses API of another server: OpenAI's own, or one of the many that are nearly like it.

It is read into deltas like any other dialect and told anew by our machine, so whatever a server
gets wrong about ids, order, or events that begin and end things never reaches a client. Reading is
total: an error is a `Failure`, what we do not know an `Extra`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.faults import classify as faults
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.stream.deltas import Delta, Extra, Failure, Finish, Start, Usage
from antiphon.dialects.defaults import DialectDefaults
from antiphon.dialects.json_input import UNREADABLE, read, string, surprise, told
from antiphon.dialects.parameters import ParameterFields
from antiphon.dialects.responses import encode as responses_request
from antiphon.dialects.responses.encode import ResponsesQuirks
from antiphon.dialects.responses.items import Answer, Channel
from antiphon.dialects.usage import read_usage
from antiphon.wire.sse import Frame


class _Response(Struct):
    """What we read of a response; it repeats the whole request besides."""

    id: Any = None
    object: Any = None
    model: Any = None
    status: Any = None
    error: Any = None
    incomplete_details: Any = None
    usage: Any = None
    output: Any = None


class _Event(Struct):
    type: Any = None
    delta: Any = None
    item_id: Any = None
    output_index: Any = None
    content_index: Any = None
    summary_index: Any = None
    logprobs: Any = None
    text: Any = None
    refusal: Any = None
    arguments: Any = None
    input: Any = None
    annotation: Any = None
    item: Any = None
    error: Any = None
    response: _Response | None = None


_read_event = msgspec.json.Decoder(_Event).decode
_read_response = msgspec.json.Decoder(_Response).decode
_read_document = msgspec.json.Decoder().decode


class ResponsesDecoder:
    """The frames of one streamed answer → deltas."""

    def __init__(self, *, server_tools: frozenset[str] = frozenset()) -> None:
        """`server_tools` are called and answered by the provider: no calls for a client to run."""
        self.answer = Answer(server_tools)
        self._started = False
        self.ended = False
        """The provider has said that nothing more will come."""

    def feed(self, frame: Frame) -> list[Delta]:
        data = frame.data
        if data == b"[DONE]":
            return self._done()
        try:
            event = read(_read_event, data)
        except UNREADABLE:
            return surprise(data)
        kind = event.type if isinstance(event.type, str) else frame.event
        reader = _READERS.get(kind)
        return list(reader(self, event)) if reader is not None else _other(kind, data)

    def close(self) -> list[Delta]:
        """The stream has ended; a cut one has nothing to add."""
        return []

    def _done(self) -> list[Delta]:
        """Some only say that they are done. It is true if nothing was left open."""
        self.ended = True
        return [Finish("stop")] if self.answer.all_done else []

    def start(self, response: _Response | None) -> Iterator[Delta]:
        if response is not None and not self._started:
            self._started = True
            yield Start(string(response.model), string(response.id))

    def end(self, response: _Response, status: str) -> Iterator[Delta]:
        """The whole answer, as far as the stream has not told it, and how it ended."""
        self.ended = True
        yield from self.start(response)
        yield from self.answer.settle(response.output)
        if isinstance(response.usage, dict):
            yield _usage(response.usage)
        yield _ending(response, status)


def decode(body: bytes, *, server_tools: frozenset[str] = frozenset()) -> list[Delta]:
    """A whole answer → deltas, in the order of its items."""
    try:
        response = read(_read_response, body)
    except UNREADABLE:
        return [Failure(faults.classify(200, {}, body))]
    if response.object not in (None, "response") or not isinstance(response.output, list):
        return [_failure(read(_read_document, body), "The provider's answer is no response.")]
    decoder = ResponsesDecoder(server_tools=server_tools)
    return list(decoder.end(response, string(response.status) or "completed"))


def _usage(usage: Mapping[str, Any]) -> Usage:
    """The counts, read as those of Chat Completions are: some servers use its names here, too."""
    names = {
        "prompt_tokens": "input_tokens",
        "completion_tokens": "output_tokens",
        "prompt_tokens_details": "input_tokens_details",
        "completion_tokens_details": "output_tokens_details",
    }
    renamed = {chat: usage[own] for chat, own in names.items() if own in usage}
    return read_usage({**usage, **renamed})


# How an answer ends


def _ending(response: _Response, status: str) -> Delta:
    if status == "completed":
        return Finish("completed")
    if status == "incomplete":
        details = response.incomplete_details
        reason = details.get("reason") if isinstance(details, dict) else None
        return Finish(string(reason) or "max_output_tokens")
    # A failure, with or without a word; an answer that was cancelled, or is still to come.
    return _failure({"error": response.error}, f"The provider's answer is {status}.")


def _failure(document: Mapping[str, Any], otherwise: str) -> Failure:
    delta = told(document)
    return delta if isinstance(delta, Failure) else Failure(protocol_fault(otherwise))


def _other(kind: str, data: bytes) -> list[Delta]:
    """An event that means nothing to a client; any other frame may be an error."""
    if kind.startswith("response."):
        return [] if kind in _SILENT else [Extra(kind)]
    return surprise(data)


# Events

Reader: TypeAlias = Callable[[ResponsesDecoder, _Event], Iterator[Delta]]


def _piece(kind: str, channel: Channel) -> Reader:
    """A delta of a part of an item."""

    def read(decoder: ResponsesDecoder, event: _Event) -> Iterator[Delta]:
        telling = decoder.answer.find(kind, event.item_id, event.output_index)
        part = event.summary_index if channel == "summary" else event.content_index
        yield from decoder.answer.tell(telling, channel, event.delta, part, event.logprobs)

    return read


def _whole(kind: str, channel: Channel, field: str) -> Reader:
    """A part of an item is done, and its event repeats all of it."""

    def read(decoder: ResponsesDecoder, event: _Event) -> Iterator[Delta]:
        telling = decoder.answer.find(kind, event.item_id, event.output_index)
        part = event.summary_index if channel == "summary" else event.content_index
        yield from decoder.answer.tell_rest(telling, channel, getattr(event, field), part)

    return read


def _annotation(decoder: ResponsesDecoder, event: _Event) -> Iterator[Delta]:
    telling = decoder.answer.find("message", event.item_id, event.output_index)
    yield from decoder.answer.annotate(telling, event.annotation)


def _added(decoder: ResponsesDecoder, event: _Event) -> Iterator[Delta]:
    yield from decoder.answer.add(event.item, event.output_index)


def _item_done(decoder: ResponsesDecoder, event: _Event) -> Iterator[Delta]:
    yield from decoder.answer.finish(event.item, event.output_index)


def _begun(decoder: ResponsesDecoder, event: _Event) -> Iterator[Delta]:
    yield from decoder.start(event.response)


def _terminal(status: str) -> Reader:
    """The last event. What its response says about itself is worth more than its name."""

    def read(decoder: ResponsesDecoder, event: _Event) -> Iterator[Delta]:
        response = event.response or _Response()
        response.error = response.error or event.error
        said = response.status
        yield from decoder.end(response, said if said in _FINAL else status)

    return read


_FINAL = ("completed", "incomplete", "failed", "cancelled")

_READERS: Mapping[str, Reader] = {
    "response.output_text.delta": _piece("message", "text"),
    "response.refusal.delta": _piece("message", "refusal"),
    "response.reasoning_text.delta": _piece("reasoning", "raw"),
    "response.reasoning.delta": _piece("reasoning", "raw"),  # as Open Responses names it
    "response.reasoning_summary_text.delta": _piece("reasoning", "summary"),
    "response.function_call_arguments.delta": _piece("function_call", "written"),
    "response.custom_tool_call_input.delta": _piece("custom_tool_call", "written"),
    "response.output_text.done": _whole("message", "text", "text"),
    "response.refusal.done": _whole("message", "refusal", "refusal"),
    "response.reasoning_text.done": _whole("reasoning", "raw", "text"),
    "response.reasoning.done": _whole("reasoning", "raw", "text"),
    "response.reasoning_summary_text.done": _whole("reasoning", "summary", "text"),
    "response.function_call_arguments.done": _whole("function_call", "written", "arguments"),
    "response.custom_tool_call_input.done": _whole("custom_tool_call", "written", "input"),
    "response.output_text.annotation.added": _annotation,
    "response.output_item.added": _added,
    "response.output_item.done": _item_done,
    "response.created": _begun,
    "response.queued": _begun,
    "response.in_progress": _begun,
    "response.completed": _terminal("completed"),
    "response.done": _terminal("completed"),
    "response.incomplete": _terminal("incomplete"),
    "response.failed": _terminal("failed"),
    "response.cancelled": _terminal("cancelled"),
}

# Parts begin and end with the text in them; our machine says so itself.
_SILENT = frozenset(
    f"response.{part}.{verb}"
    for part in ("content_part", "reasoning_part", "reasoning_summary_part")
    for verb in ("added", "done")
)


class ResponsesDialect(DialectDefaults):
    """The Responses API, as an upstream."""

    parameter_fields = ParameterFields(
        essential=frozenset(
            "model input instructions stream tools tool_choice text prompt".split()
        ),
        groups=("stream_options", "reasoning"),
        last="input",
    )

    def __init__(self, quirks: ResponsesQuirks = responses_request.PLAIN) -> None:
        self._quirks = quirks

    def encode(self, plan: Plan, *, stream: bool) -> Outbound:
        return responses_request.encode(plan, stream=stream, quirks=self._quirks)

    def decoder(self) -> ResponsesDecoder:
        return ResponsesDecoder(server_tools=self._quirks.server_tools)

    def decode(self, body: bytes) -> list[Delta]:
        return decode(body, server_tools=self._quirks.server_tools)
