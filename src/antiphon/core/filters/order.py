"""The delta filters of one answer, in their order. Most answers pass one or two.

First come the filters for leaked markup: reasoning and tool calls that the server of a model left
in the text. They depend on the model, so each attempt makes its own (`make_markup_filters`). The
others depend on the request and live through all rounds of the answer (`make_filters`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from antiphon.core.client_profile import Profile
from antiphon.core.filters.citations import CitationFilter
from antiphon.core.filters.compaction import CompactedContextFilter, SummaryFilter
from antiphon.core.filters.empty_answer import EmptyAnswerFilter
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.filters.freeform_input import FreeformInputFilter
from antiphon.core.filters.reasoning_summary import ReasoningSummaryFilter
from antiphon.core.filters.refusal_text import RefusalTextFilter
from antiphon.core.filters.single_call import SingleCallFilter
from antiphon.core.filters.structured_output import StructuredOutputFilter
from antiphon.core.filters.text_tools.filter import TextToolCallFilter
from antiphon.core.filters.text_tools.formats import CALL_FORMATS
from antiphon.core.filters.think_tags import ThinkTagFilter
from antiphon.core.filters.web_search import WebSearchFilter
from antiphon.core.plan.plan import Plan
from antiphon.core.stream.deltas import (
    Delta,
    Extra,
    Reasoning,
    ReasoningState,
    ServiceTier,
    Start,
    ToolCall,
    Usage,
)
from antiphon.core.tools.identity import NO_TOOLS
from antiphon.errors import ConfigError

BYPASS = frozenset({Start, Usage, ServiceTier, Extra})
"""Deltas that pass no filter: who answers, what it costs, and notes for the trace."""

GUARDS: Sequence[str] = ("think", "think_open", *CALL_FORMATS)
"""The names that the `guards` of a model may have: reasoning in tags (`think_open`: the prompt ends
with the opening tag, so the answer begins inside the block), and the formats of tool calls."""


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
    if formats:  # after the think tags: a call inside of reasoning is not a call
        filters.append(TextToolCallFilter(formats))
    return filters


def make_filters(
    plan: Plan, profile: Profile, new_id: Callable[[str], str], *, reminders: bool = True
) -> list[DeltaFilter]:
    """Make the filters that a request needs.

    Filters that may want a further round come before those that need to know whether the answer is
    complete.
    """
    search = None if plan.search is None else WebSearchFilter(plan, plan.search, new_id)
    filters: list[DeltaFilter | None] = [
        EmptyAnswerFilter(reminds=reminders),
        ReasoningSummaryFilter() if plan.include_reasoning_summary else None,
        search,
        None if plan.identities is NO_TOOLS else FreeformInputFilter.of(plan),
        None if plan.contract.requested == "text" else StructuredOutputFilter.of(plan),
        SingleCallFilter() if plan.single_call else None,
        None if search is None else CitationFilter(search.sources),
        RefusalTextFilter(profile) if profile.refusals == "text" else None,
        None if plan.summary_task is None else SummaryFilter(plan.summary_task),
        None if plan.compacted is None else CompactedContextFilter(plan.compacted.state),
    ]
    return [each for each in filters if each is not None]


def filter_whole_answer(
    deltas: Iterable[Delta], markup_filters: Sequence[DeltaFilter]
) -> list[Delta]:
    """Pass all deltas of a whole (not streamed) answer through the filters for leaked markup.

    Decoders put the calls of a whole answer before its text. Reasoning that is found in the text is
    moved before the calls, because that is the order in which the model wrote them.
    """
    for each in markup_filters:
        deltas = [*pass_deltas(each, deltas), *each.close(final=True)]
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
