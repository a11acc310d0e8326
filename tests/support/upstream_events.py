"""Events of Responses recordings by item, as a server sent them and as a client received them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

Document = dict[str, Any]

_PLACE = ("type", "sequence_number", "item_id", "output_index", "obfuscation")
# Names of other servers for events of the API.
_API_NAMES = {
    f"response.reasoning_part.{verb}": f"response.content_part.{verb}" for verb in ("added", "done")
}


def events_by_item(events: Iterable[Document]) -> list[list[Document]]:
    """The events of each output item, in the order of the items."""
    items: dict[int, list[Document]] = {}
    for event in events:
        if isinstance(event.get("output_index"), int):
            items.setdefault(event["output_index"], []).append(event)
    return [items[index] for index in sorted(items)]


def event_names(events: Iterable[Document]) -> list[str]:
    """The types of events, with one for each run of deltas."""
    names = (str(_API_NAMES.get(event["type"], event["type"])) for event in events)
    return [name for name, _ in groupby(names)]


def progress_events(events: Iterable[Document]) -> list[tuple[str, Document]]:
    """The events of hosted tools: their types and what they say, without place and padding."""
    return [
        (event["type"], {name: value for name, value in event.items() if name not in _PLACE})
        for event in events
        if is_progress(event["type"])
    ]


def is_progress(kind: str) -> bool:
    tool = kind.removeprefix("response.").partition(".")[0]
    return tool.startswith(_HOSTED)


_HOSTED = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_",
    "shell_call",
    "compaction",
)


def is_subsequence(part: Sequence[str], whole: Sequence[str]) -> bool:
    rest = iter(whole)
    return all(name in rest for name in part)
