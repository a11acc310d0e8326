"""Guards against what leaks: filters over deltas, for models whose servers misread them.

A provider's data switches them on, by name and per model; without them nothing is touched. With
them, text in which nothing leaks stays the same text, and what does not read as a leak stays text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from antiphon.core.filters.text_tools.filter import TextToolCallFilter
from antiphon.core.filters.text_tools.formats import FORMS
from antiphon.core.filters.think_tags import ThinkTagFilter
from antiphon.core.stream.deltas import Delta, Reasoning, ReasoningState, ToolCall
from antiphon.dialects.defaults import StreamDecoder
from antiphon.errors import ConfigError
from antiphon.wire.sse import Frame


class Guard(Protocol):
    """Deltas in, deltas out; fresh for every answer."""

    def feed(self, delta: Delta) -> list[Delta]: ...
    def close(self) -> list[Delta]: ...


GUARDS: Sequence[str] = ("think", "think_open", *FORMS)
"""Every name there is: tagged thought (`think_open`: the prompt ends with the opening tag, so that
the answer begins inside of the block), and the forms of calls."""


def build_guards(names: Sequence[str]) -> list[Guard]:
    """The guards of these names, in the order in which they must read."""
    unknown = sorted(set(names).difference(GUARDS))
    if unknown:
        raise ConfigError(f"There is no guard {unknown[0]!r}; known: {', '.join(GUARDS)}.")
    guards: list[Guard] = []
    if "think" in names or "think_open" in names:
        guards.append(ThinkTagFilter(opened="think_open" in names))
    forms = [form for name, form in FORMS.items() if name in names]
    if forms:  # after the thought: a call that a model only thinks of is none
        guards.append(TextToolCallFilter(forms))
    return guards


class GuardedDecoder:
    """A decoder whose deltas pass through guards."""

    def __init__(self, decoder: StreamDecoder, guards: Sequence[Guard]) -> None:
        self._decoder = decoder
        self._guards = guards
        self.ended = decoder.ended

    def feed(self, frame: Frame) -> list[Delta]:
        deltas = self._decoder.feed(frame)
        self.ended = self._decoder.ended
        for guard in self._guards:
            deltas = _fed(guard, deltas)
        return deltas

    def close(self) -> list[Delta]:
        return _closed(self._decoder.close(), self._guards)


def guarded(deltas: Iterable[Delta], guards: Sequence[Guard]) -> list[Delta]:
    """A whole answer, guarded; thought that is found in the text goes before the calls."""
    return _thought_first(_closed(deltas, guards)) if guards else list(deltas)


def _fed(guard: Guard, deltas: Iterable[Delta]) -> list[Delta]:
    return [out for delta in deltas for out in guard.feed(delta)]


def _closed(deltas: Iterable[Delta], guards: Sequence[Guard]) -> list[Delta]:
    for guard in guards:
        deltas = _fed(guard, deltas) + guard.close()
    return list(deltas)


def _thought_first(deltas: Sequence[Delta]) -> list[Delta]:
    """Whole answers tell their calls before their text, but nobody calls before he thinks."""
    first = next((place for place, delta in enumerate(deltas) if _is_call(delta)), len(deltas))
    late = deltas[first:]
    thought = [delta for delta in late if isinstance(delta, Reasoning)]
    rest = [delta for delta in late if not isinstance(delta, Reasoning)]
    return [*deltas[:first], *thought, *rest]


def _is_call(delta: Delta) -> bool:
    """A call, or the state that comes right before it and belongs to it."""
    state_of_call = isinstance(delta, ReasoningState) and delta.attach == "tool"
    return state_of_call or isinstance(delta, ToolCall)
