"""Rendering of Responses events: server-sent events and plain documents.

The tag of an event is its `type`. A number is put between the type and the other fields, as the API
itself does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

import msgspec

from antiphon.core.client_profile import Profile, keepalive_as_comment
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import (
    ArgumentsDelta,
    Created,
    Event,
    HostedToolEvent,
    InProgress,
    Keepalive,
    ReasoningDelta,
    TextDelta,
)
from antiphon.core.items import Document
from antiphon.core.request import Request
from antiphon.dialects.client_dialect import EventBatch

DONE = b"data: [DONE]\n\n"
_COMMENT = b": keep-alive\n\n"

_encode = msgspec.json.Encoder().encode


class SSEEncoder:
    """Encoder of events as server-sent events; numbers them in sequence."""

    sequence_number = 0
    """Of the next event."""

    def feed(self, events: Sequence[msgspec.Struct]) -> bytes:
        frames = _encode_frames(events, self.sequence_number)
        self.sequence_number += len(events)
        return frames


class ResponsesRenderer:
    """Renders one stream as server-sent events; implements `Renderer`.

    A keepalive is an event, because some clients count nothing else as a sign of life, or a comment
    for clients that reject unknown event types. It repeats the number of the last event, so that a
    client that resumes after it misses nothing."""

    __slots__ = ("_keeps_obfuscation", "_sends_events", "keepalive_diagnostic")

    def __init__(self, profile: Profile, *, keeps_obfuscation: bool = True) -> None:
        """`keeps_obfuscation`: whether delta events keep the padding that was requested with the
        response."""
        self._sends_events = profile.keepalive == "event"
        self._keeps_obfuscation = keeps_obfuscation
        self.keepalive_diagnostic: Diagnostic | None = None
        if not self._sends_events:
            self.keepalive_diagnostic = keepalive_as_comment(profile)

    def feed(self, batch: EventBatch) -> bytes:
        if not self._keeps_obfuscation:
            batch = without_obfuscation(batch)
        return _encode_frames(batch.events, batch.first) if batch.frames is None else batch.frames

    def keepalive(self, last_number: int) -> bytes:
        if self._sends_events and last_number >= 0:
            return encode_event(Keepalive(), last_number)
        return _COMMENT

    def close(self) -> bytes:
        return DONE


def make_renderer(request: Request, profile: Profile) -> ResponsesRenderer:
    """Make the renderer of a streamed response."""
    return ResponsesRenderer(profile)


def render_batch(batch: EventBatch) -> bytes:
    """Render a batch as server-sent events, unless that was done before."""
    return _encode_frames(batch.events, batch.first) if batch.frames is None else batch.frames


def with_frames(batch: EventBatch) -> EventBatch:
    """Return the same batch together with its server-sent events."""
    return EventBatch(batch.first, batch.events, render_batch(batch))


def without_obfuscation(batch: EventBatch) -> EventBatch:
    """Return the same events without the random padding of delta events."""
    if not any(map(_is_padded, batch.events)):
        return batch
    return EventBatch(batch.first, [_without_padding(event) for event in batch.events])


def _is_padded(event: Event) -> bool:
    return type(event) is HostedToolEvent and "obfuscation" in event.fields


def _without_padding(event: Event) -> Event:
    if type(event) is not HostedToolEvent:
        return event
    fields = {name: value for name, value in event.fields.items() if name != "obfuscation"}
    return HostedToolEvent(event.type, fields)


def _encode_frames(events: Sequence[msgspec.Struct], number: int) -> bytes:
    if len(events) == 1:
        return _encode_frame(events[0], number)
    frames: list[bytes] = []
    if events and type(events[0]) is Created and type(events[1]) is InProgress:
        frames = _encode_start(events[0], events[1], number)
    rest = events[len(frames) :] if frames else events
    first = number + len(frames)
    frames += [_encode_frame(event, each) for each, event in enumerate(rest, first)]
    return b"".join(frames)


def _encode_start(created: Created, in_progress: InProgress, number: int) -> list[bytes]:
    """Encode the first two events of a stream; their response is the same object, and is encoded
    once: it repeats all tools of the request."""
    if created.response is not in_progress.response:
        return []
    first, length = _frame_prefix(Created)
    rest = _encode(created)[length:]
    second, _ = _frame_prefix(InProgress)
    return [b"%b%d%b\n\n" % (first, number, rest), b"%b%d%b\n\n" % (second, number + 1, rest)]


def _encode_frame(event: msgspec.Struct, number: int) -> bytes:
    """Encode one event. Of a piece of an item only the text is new: the rest of its frame is
    encoded once per item."""
    if type(event) is TextDelta and not event.logprobs:
        place = event.item_id, event.output_index, event.content_index
        return _piece_template(TextDelta, place) % (number, _encode(event.delta))
    if type(event) is ReasoningDelta:
        place = event.item_id, event.output_index, event.content_index
        return _piece_template(ReasoningDelta, place) % (number, _encode(event.delta))
    if type(event) is ArgumentsDelta:
        item = event.item_id, event.output_index
        return _piece_template(ArgumentsDelta, item) % (number, _encode(event.delta))
    if type(event) is HostedToolEvent:
        return _encode_hosted(event, number)
    prefix, length = _frame_prefix(type(event))
    return b"%b%d%b\n\n" % (prefix, number, _encode(event)[length:])


@lru_cache(maxsize=1024)
def _piece_template(kind: type[msgspec.Struct], place: tuple[str | int, ...]) -> bytes:
    """The frame of a piece of the item at this place, as a format of its number and its text."""
    prefix, length = _frame_prefix(kind)
    before, _, after = _encode(kind(*place, ""))[length:].rpartition(b'"delta":""')
    parts = [each.replace(b"%", b"%%") for each in (prefix, before, after)]
    return b'%b%%d%b"delta":%%b%b\n\n' % tuple(parts)


def encode_event(event: msgspec.Struct, sequence_number: int) -> bytes:
    """Encode one event as a server-sent event with this number."""
    return _encode_frames((event,), sequence_number)


def encode_document(event: msgspec.Struct, sequence_number: int) -> bytes:
    """Encode one event with this number as JSON, without the framing of server-sent events."""
    if type(event) is HostedToolEvent:
        return _encode_hosted_document(event, sequence_number)
    prefix, length = _json_prefix(type(event))
    return b"%b%d%b" % (prefix, sequence_number, _encode(event)[length:])


def _encode_hosted(event: HostedToolEvent, sequence_number: int) -> bytes:
    document = _encode_hosted_document(event, sequence_number)
    return b"event: %b\ndata: %b\n\n" % (event.type.encode(), document)


def _encode_hosted_document(event: HostedToolEvent, sequence_number: int) -> bytes:
    return _encode({"type": event.type, "sequence_number": sequence_number, **event.fields})


@cache
def _frame_prefix(event_type: type[msgspec.Struct]) -> tuple[bytes, int]:
    """The bytes of a frame before its sequence number, and the length of the JSON they replace."""
    prefix, length = _json_prefix(event_type)
    tag = event_type.__struct_config__.tag
    return b"event: %b\ndata: %b" % (str(tag).encode(), prefix), length


@cache
def _json_prefix(event_type: type[msgspec.Struct]) -> tuple[bytes, int]:
    """The JSON of an event before its sequence number, and the length of the JSON it replaces."""
    config = event_type.__struct_config__
    if config.tag_field != "type" or not isinstance(config.tag, str):
        raise TypeError(f"{event_type.__name__} is not an event: its first field is not `type`")
    head = _encode({"type": config.tag})[:-1]
    return b'%b,"sequence_number":' % head, len(head)


def event_to_dict(event: msgspec.Struct, sequence_number: int) -> Document:
    """Convert an event to the JSON object that a client parses: plain dicts and lists only."""
    document: Document = msgspec.json.decode(_encode(event))
    if type(event) is HostedToolEvent:
        document = {"type": event.type, **document["fields"]}
    return {"type": document["type"], "sequence_number": sequence_number} | document
