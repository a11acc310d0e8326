"""Which desks an answer passes, in their order. Most answers pass one or two."""

from __future__ import annotations

from collections.abc import Callable

from antiphon.core.client_profile import Profile
from antiphon.core.filters.citations import CitationDesk
from antiphon.core.filters.empty_answer import SilenceDesk
from antiphon.core.filters.filter import Desk
from antiphon.core.filters.freeform_input import FreeformDesk
from antiphon.core.filters.reasoning_summary import SummaryDesk
from antiphon.core.filters.refusal_text import RefusalDesk
from antiphon.core.filters.single_call import SingleCallDesk
from antiphon.core.filters.structured_output import FormDesk
from antiphon.core.filters.web_search import SearchDesk
from antiphon.core.plan.plan import Plan


def make_desks(
    plan: Plan, profile: Profile, new_id: Callable[[str], str], *, reminders: bool = True
) -> list[Desk]:
    """What may ask for a round stands before what judges whether the answer is whole."""
    search = None if plan.search is None else SearchDesk(plan, plan.search, new_id)
    wanted: list[Desk | None] = [
        SilenceDesk(reminds=reminders),
        SummaryDesk() if plan.tells_summary else None,
        search,
        FreeformDesk.of(plan),
        FormDesk.of(plan),
        SingleCallDesk() if plan.one_call else None,
        None if search is None else CitationDesk(search.sources),
        RefusalDesk(profile) if profile.refusals == "text" else None,
    ]
    return [desk for desk in wanted if desk is not None]
