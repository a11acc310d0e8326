"""Which desks an answer passes, in their order. Most answers pass one or two."""

from __future__ import annotations

from collections.abc import Callable

from antiphon.core.citation import CitationDesk
from antiphon.core.desk import Desk
from antiphon.core.form import FormDesk
from antiphon.core.freeform import FreeformDesk
from antiphon.core.plan import Plan
from antiphon.core.profile import Profile, RefusalDesk
from antiphon.core.search import SearchDesk
from antiphon.core.silence import SilenceDesk
from antiphon.core.single import SingleCallDesk
from antiphon.core.summary import SummaryDesk


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
