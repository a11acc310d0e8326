"""Which desks an answer passes, in their order. Most answers pass one or two."""

from __future__ import annotations

from collections.abc import Callable

from antiphon.core.client_profile import Profile
from antiphon.core.filters.citations import CitationFilter
from antiphon.core.filters.empty_answer import EmptyAnswerFilter
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.filters.freeform_input import FreeformInputFilter
from antiphon.core.filters.reasoning_summary import ReasoningSummaryFilter
from antiphon.core.filters.refusal_text import RefusalTextFilter
from antiphon.core.filters.single_call import SingleCallFilter
from antiphon.core.filters.structured_output import StructuredOutputFilter
from antiphon.core.filters.web_search import WebSearchFilter
from antiphon.core.plan.plan import Plan


def make_filters(
    plan: Plan, profile: Profile, new_id: Callable[[str], str], *, reminders: bool = True
) -> list[DeltaFilter]:
    """What may ask for a round stands before what judges whether the answer is whole."""
    search = None if plan.search is None else WebSearchFilter(plan, plan.search, new_id)
    wanted: list[DeltaFilter | None] = [
        EmptyAnswerFilter(reminds=reminders),
        ReasoningSummaryFilter() if plan.include_reasoning_summary else None,
        search,
        FreeformInputFilter.of(plan),
        StructuredOutputFilter.of(plan),
        SingleCallFilter() if plan.single_call else None,
        None if search is None else CitationFilter(search.sources),
        RefusalTextFilter(profile) if profile.refusals == "text" else None,
    ]
    return [desk for desk in wanted if desk is not None]
