"""Markup that a model leaks into its text: reasoning and tool calls that its server left there.

Each attempt makes its own filters: they depend on the model. They come before all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from antiphon.core.deltas import Delta, Reasoning, ReasoningState, ToolCall
from antiphon.core.filters.filter import BYPASS, DeltaFilter
from antiphon.core.filters.text_tools.filter import TextToolCallFilter
from antiphon.core.filters.text_tools.formats import CALL_FORMATS
from antiphon.core.filters.think_tags import ThinkTagFilter
from antiphon.errors import ConfigError

GUARDS: Sequence[str] = ("think", "think_open", *CALL_FORMATS)
"""The names that the `guards` of a model may have: reasoning in tags (`think_open`: the prompt ends
with the opening tag, so the response begins inside the block), and the formats of tool calls."""


def make_markup_filters(guards: Sequence[str]) -> list[DeltaFilter]:
    """Make the filters for the markup that a model leaks into its text, by the names in `GUARDS`.

    Without them nothing is changed. With them, text without leaked markup stays as it is, and so
    does whatever does not parse as one of the known formats.
    """
    unknown = sorted(set(guards).difference(GUARDS))
    if unknown:
        raise ConfigError(
            f"`guards` has an unknown name {unknown[0]!r}; known: {', '.join(GUARDS)}."
        )
    filters: list[DeltaFilter] = []
    if "think" in guards or "think_open" in guards:
        filters.append(ThinkTagFilter(opened="think_open" in guards))
    formats = [each for name, each in CALL_FORMATS.items() if name in guards]
    if formats:  # after the think tags: a call in reasoning is not a call
        filters.append(TextToolCallFilter(formats))
    return filters


def filter_whole_response(
    deltas: Iterable[Delta], markup_filters: Sequence[DeltaFilter]
) -> list[Delta]:
    """Pass all deltas of a whole (not streamed) response through the filters for leaked markup.

    Decoders put the calls of a whole response before its text. Reasoning that is found in the text
    is moved before the calls, because that is the order in which the model wrote them.
    """
    for each in markup_filters:
        deltas = [*pass_deltas(each, deltas), *each.close(final=True).deltas]
    return _move_reasoning_before_calls(list(deltas)) if markup_filters else list(deltas)


def pass_deltas(each: DeltaFilter, deltas: Iterable[Delta]) -> list[Delta]:
    """Feed deltas to a filter, past it where they bypass all filters."""
    passed: list[Delta] = []
    for delta in deltas:
        passed += [delta] if type(delta) in BYPASS else each.feed(delta)
    return passed


def _move_reasoning_before_calls(deltas: Sequence[Delta]) -> list[Delta]:
    is_call = [index for index, delta in enumerate(deltas) if _begins_call(delta)]
    first = is_call[0] if is_call else len(deltas)
    late = deltas[first:]
    reasoning = [delta for delta in late if isinstance(delta, Reasoning)]
    others = [delta for delta in late if not isinstance(delta, Reasoning)]
    return [*deltas[:first], *reasoning, *others]


def _begins_call(delta: Delta) -> bool:
    """A call, or the provider state that comes right before a call and belongs to it."""
    is_state_of_call = isinstance(delta, ReasoningState) and delta.attach == "tool"
    return is_state_of_call or isinstance(delta, ToolCall)
