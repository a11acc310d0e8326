"""The summary of a compacted history: its fields, its state in a capsule, and its text for models.

A model writes the fields of `WrittenSummary` as JSON. Any other text is kept as plain text:
a summary in another form is better than none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from antiphon.core.history.capsule import Capsule, Opened
from antiphon.core.stream.compaction_item import COMPACTION

_TITLE = (
    "[Summary of the conversation so far. It takes the place of the answers, tool calls and tool"
    " results before this point. Continue from here.]"
)


class WrittenSummary(Struct, frozen=True, kw_only=True):
    """The fields that the model writes."""

    goal: str = ""
    decisions: tuple[str, ...] = ()
    open_work: tuple[str, ...] = ()
    files_touched: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    last_user_wishes: tuple[str, ...] = ()


class Summary(WrittenSummary, frozen=True, kw_only=True):
    """A summary as it is sealed: written by the model, completed by the gateway."""

    text: str = ""
    """The whole summary, if the model wrote it as plain text."""
    open_calls: tuple[str, ...] = ()
    """Tool calls that had no result yet."""

    @property
    def is_empty(self) -> bool:
        """Whether the model has written nothing."""
        return not any(_paragraphs(structs.replace(self, open_calls=())))

    def render(self) -> str:
        """Return the text that a model reads."""
        return "\n\n".join([_TITLE, *_paragraphs(self)])

    def to_state(self) -> Mapping[str, Any]:
        """Return the state that is sealed into the item."""
        return {"summary": msgspec.to_builtins(self)}


def read_summary(text: str, open_calls: tuple[str, ...] = ()) -> Summary:
    """Read the output of a model: JSON with the fields of a summary, or else plain text."""
    try:
        written = msgspec.json.decode(text, type=WrittenSummary)
    except (msgspec.DecodeError, RecursionError):
        return Summary(text=text.strip(), open_calls=open_calls)
    return Summary(**structs.asdict(written), open_calls=open_calls)


def read_state(opened: Opened) -> Mapping[str, Any] | None:
    """Return the compaction state in an opened capsule; None if it holds none."""
    if isinstance(opened, Capsule):
        for state in opened.states:
            if state.scheme == COMPACTION and isinstance(state.value, Mapping):
                return state.value
    return None


def summary_of(state: Mapping[str, Any] | None) -> Summary | None:
    """Return the summary in a compaction state; None if there is none, or no valid one."""
    if state is None or "summary" not in state:
        return None
    try:
        return msgspec.convert(state["summary"], Summary)
    except msgspec.ValidationError:
        return None


def _paragraphs(summary: Summary) -> Iterator[str]:
    """The parts of a summary that are not empty."""
    if summary.text:
        yield summary.text
    if summary.goal:
        yield f"Goal: {summary.goal}"
    lists = {
        "Decisions": summary.decisions,
        "Open work": summary.open_work,
        "Files touched": summary.files_touched,
        "Facts": summary.facts,
        "What the user asked for last": summary.last_user_wishes,
        "Tool calls without a result": summary.open_calls,
    }
    for title, entries in lists.items():
        if entries:
            yield "\n".join([f"{title}:", *(f"- {entry}" for entry in entries)])
