"""Filter for managed web search: calls of the hosted search are made by the gateway itself.

1. A call of the hosted search never reaches the client; text and other calls do, unchanged.
2. When a round is over, `pending` holds the searches to make. Whoever drives the answer calls
   `begin_next`, searches, and calls `settle`, for each; then the round is stored as provider state,
   and `follow_up` is set.
3. Beside calls that the client has to answer there is no further round: the response ends with
   them, and the history of the next turn has the results.
4. The budget counts searches over all rounds. A call beyond it is answered without a search; a
   model that goes on calling gets `tool_choice: none`, and after that no further round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

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
from antiphon.core.web_search.search_call import SearchCall, SearchOutcome
from antiphon.core.web_search.sources import NumberedSources

_MAX_ROUNDS = 10
_MAX_SEARCHES = 20
_MAX_QUERIES = 4
_MAX_QUERY_CHARS = 400

_UNREADABLE = 'The search was not made: its arguments have to be {"query": "some words"}.'
_LIMIT = "The search was not made: the limit of searches is reached. Answer with what you have."
_FAILED = "The search failed. Answer with what you know, or try other words."


class WebSearchFilter(DeltaFilter):
    """The searches of one answer, over all of its rounds."""

    requires_next_round = True

    def __init__(self, plan: Plan, rules: SearchRules, new_id: Callable[[str], str]) -> None:
        """`rules` are those of the plan; a plan without them needs no such filter."""
        self.pending: list[SearchCall] = []
        self.rules = rules
        self.sources = NumberedSources(plan.history)
        """The sources that an answer may cite, for `CitationFilter`."""
        identity = plan.identities.by_requested_name(SEARCH, HOSTED)
        self._name = identity.provider_name if identity else SEARCH
        self._tools = plan.identities
        self._choice = plan.tool_choice
        self._new_id = new_id
        limit = _MAX_SEARCHES if rules.max_calls is None else rules.max_calls
        self._budget = min(limit, _MAX_SEARCHES)
        self._rounds = 0
        self._rounds_over_budget = 0
        self._used_ids: set[str] = set()
        self._continues = False
        self._begin_round()

    def _begin_round(self) -> None:
        self.follow_up = None
        self.pending = []
        self._partial: dict[int, PartialCall] = {}
        """Calls of the search, and those whose name is incomplete, by index."""
        self._client_calls: set[int] = set()
        self._reason: str | None = None
        self._calls: list[SearchCall] = []
        self._answers: dict[str, str] = {}
        """The tool output that the model gets for each call of the round, by call id."""

    # During a round

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, ToolCall):
            return self._feed_call(delta)
        if isinstance(delta, ToolEnd) and delta.index in self._partial:
            self._partial[delta.index].add(delta)
            return []
        if isinstance(delta, Finish):
            self._reason = delta.reason or self._reason
        return [delta]

    def _feed_call(self, delta: ToolCall) -> list[Delta]:
        if delta.index in self._client_calls:
            return [delta]
        call = self._partial.setdefault(delta.index, PartialCall(self._tools))
        call.add(delta)
        if self._name.startswith(call.name) and (
            call.name == self._name or call.name not in self._tools
        ):
            return []  # a search, or the name is not complete yet
        self._client_calls.add(delta.index)
        return [*self._partial.pop(delta.index).deltas]

    # Between two rounds

    def close(self, *, final: bool) -> list[Delta]:
        partial, client_calls = list(self._partial.values()), self._client_calls
        is_complete = map_finish_reason(self._reason).status == "completed"
        self._begin_round()
        searches = [call for call in partial if call.name == self._name]
        unnamed: list[Delta] = [
            delta for call in partial if call.name != self._name for delta in call.deltas
        ]
        if not searches or not is_complete or self._rounds_over_budget > 1:
            return unnamed
        self._continues = not (final and (client_calls or unnamed))
        self._accept_calls(searches)
        return unnamed + self._finish_searches()

    def begin_next(self) -> list[Delta]:
        return [SearchStarted(_action(self.pending[0]))]

    def settle(self, result: SearchOutcome) -> list[Delta]:
        call = self.pending.pop(0)
        status: Literal["completed", "failed"] = "failed" if result.failed else "completed"
        if result.failed:
            message = f"A web search failed; the model continues without it. {result.problem}"
            self._note(Code.SEARCH_FAILED, "tools", message.strip(), SEARCH)
            answer = _FAILED
        else:
            answer = self.sources.format_results(result.results, self.rules.snippet_chars)
        self._answers[call.call_id] = answer
        action = _action(call)
        if self.rules.include_sources:
            action["sources"] = [{"type": "url", "url": each.url} for each in result.results]
        return [SearchEnded(action, status), *self._finish_searches()]

    def give_up(self) -> list[Delta]:
        """Drop the searches: their results would reach nobody."""
        self._begin_round()
        return []

    def _accept_calls(self, calls: list[PartialCall]) -> None:
        """Decide which of the calls are searches to be made, and answer the others."""
        self._rounds += 1
        over_budget = 0
        for partial in calls:
            call = self._read_call(partial)
            self._calls.append(call)
            if self._budget <= 0 or self._rounds > _MAX_ROUNDS:
                over_budget += 1
                self._answers[call.call_id] = _LIMIT
            elif not call.queries:
                self._answers[call.call_id] = _UNREADABLE
            else:
                self._budget -= 1
                self.pending.append(call)
        if over_budget:
            self._rounds_over_budget += 1
            message = f"The limit of web searches is reached; {over_budget} were not made."
            self._note(Code.SEARCH_LIMITED, "tools", message, SEARCH)

    def _read_call(self, partial: PartialCall) -> SearchCall:
        arguments, queries = _read_arguments(partial.arguments)
        call_id = partial.call_id
        if not call_id or call_id in self._used_ids:  # some providers count anew in every round
            call_id = self._new_id("call")
        self._used_ids.add(call_id)
        return SearchCall(call_id=call_id, arguments=arguments, queries=queries, rules=self.rules)

    def _finish_searches(self) -> list[Delta]:
        """Once every call of the round has its answer: store them, and want a further round."""
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
        if self._continues:
            steps = build_search_steps(exchanges, name=self._name, namespace=None)
            self.follow_up = FollowUp(steps=steps, tool_choice=self._next_choice())
        return [encode_past_searches(exchanges)]

    def _next_choice(self) -> ToolChoice | None:
        if self._rounds_over_budget > 1:
            return ToolChoice("none")
        forced = self._choice.mode in ("required", "function")
        return ToolChoice("auto") if forced else None  # the call that was forced has been made


def _action(call: SearchCall) -> dict[str, object]:
    return {"type": "search", "query": call.queries[0], "queries": list(call.queries)}


def _read_arguments(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the arguments as an object, which every provider accepts, and the queries in them."""
    try:
        given = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        given = None
    if not isinstance(given, dict):
        return json_text({"_malformed": text}), ()
    several = given.get("queries")
    values = [given.get("query"), *(several if isinstance(several, list) else ())]
    queries = [each.strip()[:_MAX_QUERY_CHARS] for each in values if isinstance(each, str)]
    return text or "{}", tuple(dict.fromkeys(filter(None, queries)))[:_MAX_QUERIES]
