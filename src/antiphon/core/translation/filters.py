"""The delta filters of one request, in their order: deltas pass through them one after the other.

They depend on the request and live through all rounds of the response. Most responses pass one or
two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from antiphon.core.client_profile import Profile
from antiphon.core.compaction.filters import CompactedContextFilter, SummaryFilter
from antiphon.core.deltas import Delta
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.filters.filter import DeltaFilter, FollowUp, RoundWish, Wish
from antiphon.core.filters.gateway_call import CallWish, GatewayCall
from antiphon.core.filters.simple_filters import (
    EmptyAnswerFilter,
    ReasoningSummaryFilter,
    RefusalTextFilter,
    SingleCallFilter,
)
from antiphon.core.freeform.filter import FreeformInputFilter
from antiphon.core.mcp.filter import McpFilter
from antiphon.core.mcp.opening import McpOpening
from antiphon.core.mcp.toolset import McpPlan
from antiphon.core.plan.plan import Plan
from antiphon.core.structured_output.filter import StructuredOutputFilter
from antiphon.core.tools.identity import NO_TOOLS
from antiphon.core.web_search.citations import CitationFilter
from antiphon.core.web_search.filter import WebSearchFilter
from antiphon.core.web_search.rules import SearchRules


def make_filters(
    plan: Plan, profile: Profile, new_id: Callable[[str], str], *, reminders: bool = True
) -> list[DeltaFilter]:
    """Make the filters that a request needs.

    Filters that may want a further round come before those that need to know whether the response
    is complete.
    """
    if plan.mcp is not None and plan.mcp.needs_opening:
        return [McpOpening(plan.mcp, new_id)]
    search = None if plan.search is None else _make_search_filter(plan, plan.search, new_id)
    filters: list[DeltaFilter | None] = [
        EmptyAnswerFilter(reminds=reminders),
        ReasoningSummaryFilter() if plan.include_reasoning_summary else None,
        search,
        None if plan.mcp is None else _make_mcp_filter(plan, plan.mcp, new_id),
        None if plan.identities is NO_TOOLS else FreeformInputFilter.of(plan.identities),
        None if plan.contract.requested == "text" else _make_output_filter(plan),
        SingleCallFilter() if plan.single_call else None,
        None if search is None else CitationFilter(search.sources),
        RefusalTextFilter(profile) if profile.refusals == "text" else None,
        None if plan.summary_task is None else SummaryFilter(plan.summary_task),
        None if plan.compacted is None else CompactedContextFilter(plan.compacted.state),
    ]
    return [each for each in filters if each is not None]


def _make_search_filter(
    plan: Plan, rules: SearchRules, new_id: Callable[[str], str]
) -> WebSearchFilter:
    return WebSearchFilter(
        rules,
        history=plan.history,
        tools=plan.identities,
        choice=plan.tool_choice,
        new_id=new_id,
    )


def _make_mcp_filter(plan: Plan, mcp: McpPlan, new_id: Callable[[str], str]) -> McpFilter:
    return McpFilter(mcp, tools=plan.identities, choice=plan.tool_choice, new_id=new_id)


def _make_output_filter(plan: Plan) -> StructuredOutputFilter:
    """Make the filter of an output format. It holds back all output if another filter may yet want
    a round."""
    holds = any(each is not None for each in (plan.search, plan.mcp, plan.summary_task))
    return StructuredOutputFilter(plan.contract, holds=holds)


class FilterChain:
    """The filters of one response over all of its rounds, and what they want between two."""

    __slots__ = ("_diagnostics", "_filters", "wishes")

    def __init__(self, filters: Sequence[DeltaFilter], diagnostics: list[Diagnostic]) -> None:
        """The diagnostics of the filters are added to `diagnostics`."""
        self._filters = list(filters)
        self._diagnostics = diagnostics
        self.wishes: dict[int, Wish] = {}
        """What filters want before the response may end, by the position of the filter."""

    # Before the first request

    def open(self) -> list[Delta]:
        """Return what filters release before the first request; they may want calls."""
        deltas: list[Delta] = []
        for position, each in enumerate(self._filters):
            end = each.open()
            deltas += end.deltas
            self._keep(position, end.wish)
        return deltas

    # The end of a round

    def close(self) -> list[Delta]:
        """End a round: every filter releases what it holds back, or wants something."""
        deltas: list[Delta] = []
        self.wishes.clear()
        for position, each in enumerate(self._filters):
            passed = _feed_all(each, deltas)
            end = each.close(final=not self.wishes)
            deltas = [*passed, *end.deltas]
            self._keep(position, end.wish)
        self._take_diagnostics()
        return deltas

    def close_for_good(self) -> list[Delta]:
        """End a round after which no further one is possible: filters that want one give up."""
        deltas: list[Delta] = []
        self.wishes.clear()
        for each in self._filters:
            passed = _feed_all(each, deltas)
            end = each.close(final=True)
            released = each.give_up() if end.wish is not None else ()
            deltas = [*passed, *end.deltas, *released]
        self._take_diagnostics()
        return deltas

    def give_up(self) -> list[Delta]:
        """Do without the further round: filters release what they hold back for it."""
        deltas: list[Delta] = []
        self.wishes.clear()
        for each in self._filters:
            deltas = [*_feed_all(each, deltas), *each.give_up()]
        self._take_diagnostics()
        return deltas

    def _keep(self, position: int, wish: Wish | None) -> None:
        if wish is None:
            self.wishes.pop(position, None)
        else:
            self.wishes[position] = wish

    def _take_diagnostics(self) -> None:
        for each in self._filters:
            if each.diagnostics:
                self._diagnostics += each.take_diagnostics()

    # Between rounds

    @property
    def calls(self) -> tuple[GatewayCall, ...]:
        """Calls that the gateway has to make before the further round, in order."""
        wishes = self.wishes.values()
        return tuple(call for wish in wishes if isinstance(wish, CallWish) for call in wish.calls)

    def settle_call(self, outcome: object) -> Sequence[Delta]:
        """Take the outcome of the first call."""
        position, wish = next(
            (position, wish) for position, wish in self.wishes.items() if isinstance(wish, CallWish)
        )
        end = wish.settle(outcome)
        self._keep(position, end.wish)
        self._take_diagnostics()
        return end.deltas

    @property
    def follow_up(self) -> FollowUp:
        """The next request: what all filters want, together."""
        wanted = [wish.follow_up for wish in self._round_wishes()]
        choices = [each.tool_choice for each in wanted if each.tool_choice is not None]
        steps = tuple(step for each in wanted for step in each.steps)
        return FollowUp(steps=steps, tool_choice=choices[0] if choices else None)

    @property
    def requires_round(self) -> bool:
        """Whether the response fails without the further round."""
        return any(wish.is_required for wish in self._round_wishes())

    def _round_wishes(self) -> Iterable[RoundWish]:
        return (wish for wish in self.wishes.values() if isinstance(wish, RoundWish))


def _feed_all(each: DeltaFilter, deltas: Sequence[Delta]) -> list[Delta]:
    return [out for delta in deltas for out in each.feed(delta)]
