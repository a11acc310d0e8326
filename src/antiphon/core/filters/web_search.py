"""The desk where searches of the web are taken off the stream, to be made by the gateway itself.

1. A call of the hosted search never reaches the client; text and calls beside it do, untouched.
2. When a round is over, `pending` says what to search for. Whoever can wait calls `begin`,
   searches, and calls `settle`, for each; then the round is remembered, and `again` is set.
3. Beside calls that the client has to answer there is no further round: the response ends with
   them, and the next turn's history shows what was found.
4. The budget counts searches over all rounds. A call beyond it is answered without a search; a
   model that goes on calling is told that it may not, and in the end is not asked again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from antiphon.core.diagnostic import Code
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.history.content import json_text
from antiphon.core.plan.follow_up import FollowUp
from antiphon.core.plan.plan import Plan, ToolChoice
from antiphon.core.stream.deltas import Delta, Finish, SearchEnded, SearchStarted, ToolCall, ToolEnd
from antiphon.core.stream.finish import map_finish_reason
from antiphon.core.stream.partial_call import PartialCall
from antiphon.core.web_search.memory import (
    HOSTED,
    SEARCH,
    PastSearch,
    build_search_steps,
    encode_past_searches,
)
from antiphon.core.web_search.rules import SearchRules
from antiphon.core.web_search.sources import NumberedSources, SearchResult

_MOST_ROUNDS = 10
_MOST_SEARCHES = 20
_MOST_QUERIES = 4
_QUERY_CHARS = 400

_UNREADABLE = 'The search was not made: its arguments have to be {"query": "some words"}.'
_LIMIT = "The search was not made: the limit of searches is reached. Answer with what you have."
_FAILED = "The search failed. Answer with what you know, or try other words."


class SearchCall(Struct, frozen=True, kw_only=True):
    """A search that the model asked for."""

    call_id: str
    arguments: str
    queries: tuple[str, ...]
    rules: SearchRules


class SearchOutcome(Struct, frozen=True, kw_only=True):
    """What came of it. A search that found nothing has not failed."""

    results: tuple[SearchResult, ...] = ()
    failed: bool = False
    problem: str = ""
    """Why it failed, in words that anybody may read."""


class WebSearchFilter(DeltaFilter):
    """Over all rounds of one answer."""

    def __init__(self, plan: Plan, rules: SearchRules, new_id: Callable[[str], str]) -> None:
        """`rules` are the plan's; a plan without them needs no desk."""
        super().__init__()
        self.pending: list[SearchCall] = []
        self.rules = rules
        self.sources = NumberedSources(plan.history)
        """What an answer may cite: for `core.citation`."""
        identity = plan.identities.by_requested_name(SEARCH, HOSTED)
        self._name = identity.provider_name if identity else SEARCH
        self._tools = plan.identities
        self._choice = plan.tool_choice
        self._new_id = new_id
        limit = _MOST_SEARCHES if rules.max_calls is None else rules.max_calls
        self._budget = min(limit, _MOST_SEARCHES)
        self._rounds = 0
        self._refusals = 0
        self._heard: dict[int, PartialCall] = {}
        self._others: set[int] = set()
        self._reason: str | None = None
        self._goes_on = False
        self._ids: set[str] = set()
        self._calls: list[SearchCall] = []
        self._answers: dict[str, str] = {}
        """What the model is told of each call of the round, by its id."""

    # Listening

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, ToolCall):
            return self._hear(delta)
        if isinstance(delta, ToolEnd) and delta.index in self._heard:
            self._heard[delta.index].add(delta)
            return []
        if isinstance(delta, Finish):
            self._reason = delta.reason or self._reason
        return [delta]

    def _hear(self, delta: ToolCall) -> list[Delta]:
        if delta.index in self._others:
            return [delta]
        call = self._heard.setdefault(delta.index, PartialCall(self._tools))
        call.add(delta)
        if self._name.startswith(call.name) and (
            call.name == self._name or call.name not in self._tools
        ):
            return []  # ours, or not known yet
        self._others.add(delta.index)
        return [*self._heard.pop(delta.index).deltas]

    # Between two rounds

    def close(self, *, final: bool) -> list[Delta]:
        heard, others = list(self._heard.values()), self._others
        ended_well = map_finish_reason(self._reason).status == "completed"
        self.again, self.pending, self._calls, self._answers = None, [], [], {}
        self._heard, self._others, self._reason = {}, set(), None
        calls = [call for call in heard if call.name == self._name]
        strangers: list[Delta] = [
            delta for call in heard if call.name != self._name for delta in call.deltas
        ]
        if not calls or not ended_well or self._refusals > 1:
            return strangers
        self._goes_on = not (final and (others or strangers))
        self._take(calls)
        return strangers + self._settled()

    def begin(self, call: SearchCall) -> list[Delta]:
        """The search is about to be made."""
        return [SearchStarted(_action(call))]

    def settle(self, call: SearchCall, found: SearchOutcome) -> list[Delta]:
        """The search is over; after the last one the round is, too."""
        self.pending.remove(call)
        status: Literal["completed", "failed"] = "failed" if found.failed else "completed"
        if found.failed:
            message = f"A search failed, and the model was told. {found.problem}".strip()
            self._note(Code.SEARCH_FAILED, "tools", message, SEARCH)
            answer = _FAILED
        else:
            answer = self.sources.format_results(found.results, self.rules.snippet_chars)
        self._answers[call.call_id] = answer
        action = _action(call)
        if self.rules.include_sources:
            action["sources"] = [{"type": "url", "url": each.url} for each in found.results]
        return [SearchEnded(action, status), *self._settled()]

    def _take(self, calls: list[PartialCall]) -> None:
        """Sort out which of the calls are searches to be made."""
        self._rounds += 1
        refused = 0
        for heard in calls:
            call = self._read(heard)
            self._calls.append(call)
            if self._budget <= 0 or self._rounds > _MOST_ROUNDS:
                refused += 1
                self._answers[call.call_id] = _LIMIT
            elif not call.queries:
                self._answers[call.call_id] = _UNREADABLE
            else:
                self._budget -= 1
                self.pending.append(call)
        if refused:
            self._refusals += 1
            message = f"The limit of searches was reached: {refused} more went without one."
            self._note(Code.SEARCH_LIMITED, "tools", message, SEARCH)

    def _read(self, heard: PartialCall) -> SearchCall:
        arguments, queries = _read_arguments(heard.arguments)
        call_id = heard.call_id
        if not call_id or call_id in self._ids:  # some providers count anew in every round
            call_id = self._new_id("call")
        self._ids.add(call_id)
        return SearchCall(call_id=call_id, arguments=arguments, queries=queries, rules=self.rules)

    def _settled(self) -> list[Delta]:
        """What is left to say once every call of the round has its answer."""
        if self.pending:
            return []
        exchanges = [
            PastSearch(
                call_id=call.call_id,
                arguments=call.arguments,
                answer=self._answers[call.call_id],
            )
            for call in self._calls
        ]
        if self._goes_on:
            asked = build_search_steps(exchanges, name=self._name, namespace=None)
            self.again = FollowUp(steps=asked, tool_choice=self._next_choice())
        return [encode_past_searches(exchanges)]

    def _next_choice(self) -> ToolChoice | None:
        if self._refusals > 1:
            return ToolChoice("none")
        forced = self._choice.mode in ("required", "function")
        return ToolChoice("auto") if forced else None  # what had to be called has been


def _action(call: SearchCall) -> dict[str, object]:
    return {"type": "search", "query": call.queries[0], "queries": list(call.queries)}


def _read_arguments(text: str) -> tuple[str, tuple[str, ...]]:
    """The arguments as the text of an object, which every provider takes back, and the queries."""
    try:
        given = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        given = None
    if not isinstance(given, dict):
        return json_text({"_malformed": text}), ()
    several = given.get("queries")
    listed = [given.get("query"), *(several if isinstance(several, list) else ())]
    queries = [each.strip()[:_QUERY_CHARS] for each in listed if isinstance(each, str)]
    return text or "{}", tuple(dict.fromkeys(filter(None, queries)))[:_MOST_QUERIES]
