"""Decode the Responses API of another server: OpenAI's own, or one of many that differ slightly.

Events become deltas as in any other dialect, and our state machine makes new events of them, so
wrong ids, a wrong order or missing start and end events of a server never reach a client. Decoding
is total: an error is a `Failure`, anything unknown an `Extra`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.deltas import Delta, Failure, Finish, Start, Usage
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.stream.finish import name_incomplete
from antiphon.dialects import usage as chat_usage
from antiphon.dialects.json_input import (
    UNREADABLE,
    decode_lenient,
    decode_unexpected,
    error_or_extra,
    fail_unreadable,
    nonempty_string,
)
from antiphon.dialects.responses.items import Channel, OutputItems
from antiphon.dialects.service_tier import read_service_tier
from antiphon.framing.sse import Frame


class _UpstreamResponse(Struct):
    """The fields we read of a response; it also repeats the whole request."""

    id: Any = None
    object: Any = None
    model: Any = None
    status: Any = None
    error: Any = None
    incomplete_details: Any = None
    usage: Any = None
    service_tier: Any = None
    output: Any = None


class _Event(Struct):
    """The fields we read of any event."""

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
    response: _UpstreamResponse | None = None


_read_event = msgspec.json.Decoder(_Event).decode
_read_response = msgspec.json.Decoder(_UpstreamResponse).decode
_read_document = msgspec.json.Decoder().decode


class ResponsesDecoder:
    """Frames of one streamed response → deltas."""

    def __init__(self, *, server_tools: frozenset[str] = frozenset()) -> None:
        """`server_tools` are executed by the provider: their calls are hidden from the client."""
        self.items = OutputItems(server_tools)
        self._started = False
        self._failure: Delta | None = None
        """A failure without a reason: Azure gives that in another event (maximhq/bifrost#6652)."""
        self.ended = False
        """The provider has announced the end of the stream."""

    def feed(self, frame: Frame) -> list[Delta]:
        data = frame.data
        if data == b"[DONE]":
            return self._end_of_stream()
        try:
            event = decode_lenient(_read_event, data)
        except UNREADABLE:
            return decode_unexpected(data)
        kind = event.type if isinstance(event.type, str) else frame.event
        reader = _READERS.get(kind)
        return list(reader(self, event) if reader is not None else self._read_other(kind, data))

    def _read_other(self, kind: str, data: bytes) -> Iterator[Delta]:
        """Read an event without a reader: progress of a hosted tool, or something unknown. A frame
        that is no event of the API may be an error."""
        if not kind.startswith("response.") or kind == "response.error":
            for delta in decode_unexpected(data):
                self._failure = None if isinstance(delta, Failure) else self._failure
                yield delta
        elif kind not in _IGNORED:
            event = decode_lenient(_read_document, data) if _EVENT_NAME.fullmatch(kind) else {}
            yield from self.items.pass_on_event(kind, event)

    def close(self) -> list[Delta]:
        """End of input; a cut stream adds nothing."""
        failure, self._failure = self._failure, None
        return [] if failure is None else [failure]

    def _end_of_stream(self) -> list[Delta]:
        """`[DONE]` without a terminal event is a normal end if every item was finished."""
        self.ended = True
        if self._failure is not None:
            return self.close()
        return [Finish("stop")] if self.items.all_done else []

    def start(self, response: _UpstreamResponse | None) -> Iterator[Delta]:
        if response is not None and not self._started:
            self._started = True
            yield Start(nonempty_string(response.model), nonempty_string(response.id))

    def end(
        self, response: _UpstreamResponse, status: str, error: object = None
    ) -> Iterator[Delta]:
        """Emit the parts of the response that were not streamed, its usage and how it ended.

        `error` is that of the terminal event, for a response that has none itself."""
        error = response.error or error
        self.ended = status != "failed" or bool(error)
        yield from self.start(response)
        yield from self.items.reconcile(response.output)
        if isinstance(response.usage, dict):
            yield read_usage(response.usage)
        yield from read_service_tier(response.service_tier)
        final = _final_delta(response, status, error)
        if self.ended:
            yield final
        else:
            self._failure = final


def decode(body: bytes, *, server_tools: frozenset[str] = frozenset()) -> list[Delta]:
    """Decode a whole response; its items keep their order."""
    try:
        response = decode_lenient(_read_response, body)
    except UNREADABLE:
        return [fail_unreadable(body)]
    if response.object not in (None, "response") or not isinstance(response.output, list):
        return [
            _failure(decode_lenient(_read_document, body), "The provider's body is not a response.")
        ]
    decoder = ResponsesDecoder(server_tools=server_tools)
    deltas = decoder.end(response, nonempty_string(response.status) or "completed")
    return [*deltas, *decoder.close()]


# The end of a response


def _final_delta(response: _UpstreamResponse, status: str, error: object) -> Delta:
    if status == "completed":
        return Finish("completed")
    if status == "incomplete":
        details = response.incomplete_details
        reason = details.get("reason") if isinstance(details, dict) else None
        return Finish(name_incomplete(nonempty_string(reason) or "max_output_tokens"))
    # "failed" (with or without an error), "cancelled", or a body that is "queued"/"in_progress".
    otherwise = f"The provider's response has status {status!r} and reports no error."
    return _failure({"error": error}, otherwise)


def _failure(document: Mapping[str, Any], otherwise: str) -> Failure:
    delta = error_or_extra(document)
    return delta if isinstance(delta, Failure) else Failure(protocol_fault(otherwise))


# Events

EventReader: TypeAlias = Callable[[ResponsesDecoder, _Event], Iterator[Delta]]


def _part_delta(kind: str, channel: Channel) -> EventReader:
    """Make a reader of deltas of a part.

    `{"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
    "content_index": 0, "delta": "Hel"}`
    """

    def read(decoder: ResponsesDecoder, event: _Event) -> Iterator[Delta]:
        item = decoder.items.find(kind, event.item_id, event.output_index)
        part = event.summary_index if channel == "summary" else event.content_index
        yield from decoder.items.emit(item, channel, event.delta, part, event.logprobs)

    return read


def _part_done(kind: str, channel: Channel, field: str) -> EventReader:
    """Make a reader of the end of a part, whose event repeats all of it.

    `{"type": "response.output_text.done", "item_id": "msg_1", "output_index": 0,
    "content_index": 0, "text": "Hello"}`
    """

    def read(decoder: ResponsesDecoder, event: _Event) -> Iterator[Delta]:
        item = decoder.items.find(kind, event.item_id, event.output_index, is_end=True)
        part = event.summary_index if channel == "summary" else event.content_index
        yield from decoder.items.emit_rest(item, channel, getattr(event, field), part)

    return read


def _read_annotation(decoder: ResponsesDecoder, event: _Event) -> Iterator[Delta]:
    item = decoder.items.find("message", event.item_id, event.output_index)
    yield from decoder.items.annotate(item, event.annotation)


def _read_item_added(decoder: ResponsesDecoder, event: _Event) -> Iterator[Delta]:
    yield from decoder.items.add(event.item, event.output_index)


def _read_item_done(decoder: ResponsesDecoder, event: _Event) -> Iterator[Delta]:
    yield from decoder.items.finish(event.item, event.output_index)


def _read_start(decoder: ResponsesDecoder, event: _Event) -> Iterator[Delta]:
    yield from decoder.start(event.response)


def _terminal_event(status: str) -> EventReader:
    """Make a reader of a terminal event. The status inside takes precedence over its name."""

    def read(decoder: ResponsesDecoder, event: _Event) -> Iterator[Delta]:
        response = event.response or _UpstreamResponse()
        reported_status = response.status
        yield from decoder.end(
            response,
            reported_status if reported_status in _TERMINAL_STATUSES else status,
            event.error,
        )

    return read


_TERMINAL_STATUSES = ("completed", "incomplete", "failed", "cancelled")

_READERS: Mapping[str, EventReader] = {
    "response.output_text.delta": _part_delta("message", "text"),
    "response.refusal.delta": _part_delta("message", "refusal"),
    "response.reasoning_text.delta": _part_delta("reasoning", "raw"),
    "response.reasoning.delta": _part_delta("reasoning", "raw"),  # its name in Open Responses
    "response.reasoning_summary_text.delta": _part_delta("reasoning", "summary"),
    "response.function_call_arguments.delta": _part_delta("function_call", "arguments"),
    "response.custom_tool_call_input.delta": _part_delta("custom_tool_call", "arguments"),
    "response.output_text.done": _part_done("message", "text", "text"),
    "response.refusal.done": _part_done("message", "refusal", "refusal"),
    "response.reasoning_text.done": _part_done("reasoning", "raw", "text"),
    "response.reasoning.done": _part_done("reasoning", "raw", "text"),
    "response.reasoning_summary_text.done": _part_done("reasoning", "summary", "text"),
    "response.function_call_arguments.done": _part_done("function_call", "arguments", "arguments"),
    "response.custom_tool_call_input.done": _part_done("custom_tool_call", "arguments", "input"),
    "response.output_text.annotation.added": _read_annotation,
    "response.output_item.added": _read_item_added,
    "response.output_item.done": _read_item_done,
    "response.created": _read_start,
    "response.queued": _read_start,
    "response.in_progress": _read_start,
    "response.completed": _terminal_event("completed"),
    "response.done": _terminal_event("completed"),
    "response.incomplete": _terminal_event("incomplete"),
    "response.failed": _terminal_event("failed"),
    "response.cancelled": _terminal_event("cancelled"),
}

_EVENT_NAME = re.compile(r"response(\.[a-z0-9_]+)+")  # it is sent on as the name of a frame

# Our state machine emits these events itself, with the first and the last text of a part.
_IGNORED = frozenset(
    f"response.{part}.{verb}"
    for part in ("content_part", "reasoning_part", "reasoning_summary_part")
    for verb in ("added", "done")
)


_CHAT_NAMES: Mapping[str, str] = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "prompt_tokens_details": "input_tokens_details",
    "completion_tokens_details": "output_tokens_details",
}


def read_usage(usage: Mapping[str, Any]) -> Usage:
    """Read the counts as those of Chat Completions: some servers use its names here, too."""
    renamed = {chat: usage[own] for chat, own in _CHAT_NAMES.items() if own in usage}
    return chat_usage.read_usage({**usage, **renamed})
