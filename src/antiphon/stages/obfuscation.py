"""Obfuscation stage: random padding on delta events, which hides the length of the text in them.

Encryption does not hide how long each piece of a stream is. With `stream_options:
{"include_obfuscation": true}` every delta event gets a field `obfuscation`, so that its text and
its padding together have a multiple of 16 characters.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import msgspec

from antiphon.core.events import (
    ArgumentsDelta,
    Event,
    HostedToolEvent,
    InputDelta,
    MCPArgumentsDelta,
    ReasoningDelta,
    RefusalDelta,
    SummaryDelta,
    TextDelta,
)
from antiphon.stages.pipeline import Batch, Stage

_BLOCK = 16
_DELTAS = (
    TextDelta,
    ReasoningDelta,
    SummaryDelta,
    RefusalDelta,
    ArgumentsDelta,
    InputDelta,
    MCPArgumentsDelta,
)


class ObfuscationStage(Stage):
    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        """`random_bytes` returns so many bytes that cannot be predicted."""
        self._random_bytes = random_bytes

    def feed(self, batch: Batch) -> Batch:
        events = [self._pad(event) for event in batch.events]
        return msgspec.structs.replace(batch, events=events)

    def _pad(self, event: Event) -> Event:
        if isinstance(event, _DELTAS):
            fields = msgspec.to_builtins(event)
            kind = fields.pop("type")
        elif isinstance(event, HostedToolEvent) and isinstance(event.fields.get("delta"), str):
            kind, fields = event.type, event.fields
        else:
            return event
        padding = self._padding(len(fields["delta"]))
        return HostedToolEvent(kind, {**fields, "obfuscation": padding})

    def _padding(self, length: int) -> str:
        """Random characters that fill the last block; a full block if there is nothing to fill."""
        count = _BLOCK - length % _BLOCK
        return base64.urlsafe_b64encode(self._random_bytes(count)).decode()[:count]
