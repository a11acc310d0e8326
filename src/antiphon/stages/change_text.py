"""Text of the model in events: changed everywhere it occurs, for stages that must not let it pass.

A piece of text occurs several times in a stream: in its delta, in the events that end its part and
its item, and in the snapshot of the terminal event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, structs

from antiphon.core.events import (
    Completed,
    Event,
    Failed,
    Incomplete,
    ItemAdded,
    ItemDone,
    PartAdded,
    PartDone,
    ReasoningDelta,
    ReasoningDone,
    RefusalDelta,
    RefusalDone,
    SummaryDelta,
    SummaryDone,
    SummaryPartAdded,
    SummaryPartDone,
    TextDelta,
    TextDone,
)
from antiphon.core.items import (
    Message,
    OutputText,
    ReasoningItem,
    ReasoningText,
    RefusalText,
    SummaryText,
)
from antiphon.core.response import Response
from antiphon.core.stream.sequencer import join_output_text

_TEXTS: dict[type, str] = {
    TextDelta: "delta",
    ReasoningDelta: "delta",
    SummaryDelta: "delta",
    RefusalDelta: "delta",
    TextDone: "text",
    ReasoningDone: "text",
    SummaryDone: "text",
    RefusalDone: "refusal",
    OutputText: "text",
    ReasoningText: "text",
    SummaryText: "text",
    RefusalText: "refusal",
}
_WITH_LOGPROBS = frozenset[type]((TextDelta, TextDone, OutputText))
_CONTAINERS: dict[type, tuple[str, ...]] = {
    PartAdded: ("part",),
    PartDone: ("part",),
    SummaryPartAdded: ("part",),
    SummaryPartDone: ("part",),
    ItemAdded: ("item",),
    ItemDone: ("item",),
    Message: ("content",),
    ReasoningItem: ("summary", "content"),
    Response: ("output",),
    Completed: ("response",),
    Incomplete: ("response",),
    Failed: ("response",),
}


def change_text(event: Event, change: Callable[[str], str]) -> Event:
    """Return an event whose text is changed: of messages, refusals, reasoning and summaries, in
    deltas, finished parts and items, and snapshots. Arguments of tool calls stay as they are.

    A delta is changed by itself: text that has to be recognized across deltas must be held back."""
    changed: Event = _change(event, change)
    return changed


def _change(value: Any, change: Callable[[str], str]) -> Any:
    kind = type(value)
    if (name := _TEXTS.get(kind)) is not None:
        fields: dict[str, Any] = {name: change(getattr(value, name))}
        if kind in _WITH_LOGPROBS:
            fields["logprobs"] = ()  # they repeat the text, token by token
        return structs.replace(value, **fields)
    if isinstance(value, list | tuple):
        return tuple(_change(each, change) for each in value)
    names = _CONTAINERS.get(kind)
    if names is None:  # a tool call, an item of a hosted tool, progress
        return value
    fields = {name: _change(getattr(value, name), change) for name in names}
    if kind is Response and value.output_text is not UNSET:
        fields["output_text"] = join_output_text(fields["output"])
    return structs.replace(value, **fields)
