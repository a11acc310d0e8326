"""Filter for managed web search: calls of the hosted search are made by the gateway itself.

1. A call of the hosted search never reaches the client; text and other calls do, unchanged.
2. When a round is over, `close` returns the searches to make, as a `CallWish`. Each is made, and
   its outcome is given to `settle`; then the round is stored as provider state, and the wish is for
   a further round.
3. Beside calls that the client has to answer there is no further round: the response ends with
   them, and the history of the next turn has the results.
4. The budget counts searches over all rounds. A call beyond it is answered without a search; a
   model that goes on calling gets `tool_choice: none`, and after that no further round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import msgspec

from antiphon.core.deltas import Delta, Finish, SearchEnded, ToolCall, ToolEnd
from antiphon.core.diagnostic import Code
from antiphon.core.filters.call_watcher import CallWatcher, PartialCall
from antiphon.core.filters.filter import (
    DeltaFilter,
    FinishReason,
    FollowUp,
    RoundEnd,
    RoundWish,
)
from antiphon.core.filters.gateway_call import CallWish
from antiphon.core.history.content import json_text
from antiphon.core.history.steps import Step
from antiphon.core.tools.declaration import ToolChoice
from antiphon.core.tools.identity import ToolIdentityMap
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
    """The searches of one response, over all of its rounds."""

    def __init__(
        self,
        rules: SearchRules,
        *,
        history: Sequence[Step],
        tools: ToolIdentityMap,
        choice: ToolChoice,
        new_id: Callable[[str], str],
    ) -> None:
        """`history`, `tools` and `choice` are those of the first request."""
        self.rules = rules
        self.sources = NumberedSources(history)
        """The sources that a response may cite, for `CitationFilter`."""
        identity = tools.by_requested_name(SEARCH, HOSTED)
        self._name = identity.provider_name if identity else SEARCH
        self._tools = tools
        self._choice = choice
        self._new_id = new_id
        limit = _MAX_SEARCHES if rules.max_calls is None else rules.max_calls
        self._budget = min(limit, _MAX_SEARCHES)
        self._rounds = 0
        self._rounds_over_budget = 0
        self._used_ids: set[str] = set()
        self._round = self._new_round()

    def _new_round(self) -> _SearchRound:
        return _SearchRound(CallWatcher(self._tools, self._is_clients))

    # During a round

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, ToolCall):
            return self._feed_call(delta)
        if isinstance(delta, ToolEnd) and delta.index in self._round.watcher:
            self._round.watcher.add(delta)
            return []
        if isinstance(delta, Finish):
            self._round.finish.feed(delta)
        return [delta]

    def passes(self, delta: Delta) -> bool:
        return not isinstance(delta, ToolCall) or delta.index in self._round.watcher.passed

    def _feed_call(self, delta: ToolCall) -> list[Delta]:
        watcher = self._round.watcher
        if delta.index in watcher.passed:
            return [delta]
        call = watcher.add(delta)
        if call is None:
            return []  # a search, or the name is not complete yet
        watcher.passed.add(delta.index)
        return [*call.deltas]

    def _is_clients(self, call: PartialCall) -> bool:
        """Whether the client has to answer a call: it is neither a search, nor may become one."""
        may_become_search = self._name.startswith(call.name) and call.name not in self._tools
        return call.name != self._name and not may_become_search

    # Between two rounds

    def close(self, *, final: bool) -> RoundEnd:
        ended = self._round
        self._round = self._new_round()
        calls = ended.watcher.take_all()
        searches = [call for call in calls if call.name == self._name]
        unnamed: list[Delta] = [
            delta for call in calls if call.name != self._name for delta in call.deltas
        ]
        if not searches or not ended.finish.is_complete or self._rounds_over_budget > 1:
            return RoundEnd(unnamed)
        has_client_calls = bool(ended.watcher.passed or unnamed)
        exchange = _Exchange(continues=not (final and has_client_calls))
        return self._search_or_go_on(exchange, unnamed, self._accept_calls(exchange, searches))

    def _settle(
        self, exchange: _Exchange, calls: tuple[SearchCall, ...], result: SearchOutcome
    ) -> RoundEnd:
        """Take the outcome of the first of these searches."""
        call = calls[0]
        status: Literal["completed", "failed"] = "failed" if result.failed else "completed"
        if result.failed:
            message = f"A web search failed; the model continues without it. {result.problem}"
            self._note(Code.SEARCH_FAILED, "tools", message.strip(), SEARCH)
            answer = _FAILED
        else:
            answer = self.sources.format_results(result.results, self.rules.snippet_chars)
        exchange.answers[call.call_id] = answer
        action = call.action
        if self.rules.include_sources:
            action["sources"] = [self._describe(each.url) for each in result.results]
        return self._search_or_go_on(exchange, [SearchEnded(action, status)], calls[1:])

    def _describe(self, url: str) -> dict[str, str]:
        source = {"type": "url", "url": url}
        known = self.sources.at(url) if self.rules.include_titles else None
        return source if known is None else source | {"title": known.title}

    def give_up(self) -> list[Delta]:
        """Drop the searches: the model would not see their results."""
        self._round = self._new_round()
        return []

    def _accept_calls(
        self, exchange: _Exchange, calls: list[PartialCall]
    ) -> tuple[SearchCall, ...]:
        """Return those of the calls that are searches to be made, and answer the others."""
        self._rounds += 1
        over_budget = 0
        accepted: list[SearchCall] = []
        for each in calls:
            call = self._read_call(each)
            exchange.calls.append(call)
            if self._budget <= 0 or self._rounds > _MAX_ROUNDS:
                over_budget += 1
                exchange.answers[call.call_id] = _LIMIT
            elif not call.queries:
                exchange.answers[call.call_id] = _UNREADABLE
            else:
                self._budget -= 1
                accepted.append(call)
        if over_budget:
            self._rounds_over_budget += 1
            message = f"The limit of web searches per answer is reached; {over_budget} not made."
            self._note(Code.SEARCH_LIMITED, "tools", message, SEARCH)
        return tuple(accepted)

    def _read_call(self, given: PartialCall) -> SearchCall:
        arguments, queries = _read_arguments(given.arguments)
        call_id = given.call_id
        if not call_id or call_id in self._used_ids:  # some providers count anew in every round
            call_id = self._new_id("call")
        self._used_ids.add(call_id)
        return SearchCall(call_id=call_id, arguments=arguments, queries=queries, rules=self.rules)

    def _search_or_go_on(
        self, exchange: _Exchange, deltas: list[Delta], calls: tuple[SearchCall, ...]
    ) -> RoundEnd:
        """Want these searches. Without any, every call of the round has its result: store them, and
        want a further round."""
        if calls:
            return RoundEnd(deltas, CallWish(calls, partial(self._settle, exchange, calls)))
        exchanges = [
            PastSearch(
                call_id=call.call_id,
                arguments=call.arguments,
                answer=exchange.answers[call.call_id],
            )
            for call in exchange.calls
        ]
        deltas = [*deltas, encode_past_searches(exchanges)]
        if not exchange.continues:
            return RoundEnd(deltas)
        steps = build_search_steps(exchanges, name=self._name, namespace=None)
        follow_up = FollowUp(steps=steps, tool_choice=self._next_choice())
        return RoundEnd(deltas, RoundWish(follow_up, is_required=True))

    def _next_choice(self) -> ToolChoice | None:
        if self._rounds_over_budget > 1:
            return ToolChoice("none")
        forced = self._choice.mode in ("required", "function")
        return ToolChoice("auto") if forced else None  # the call that was forced has been made


class _SearchRound:
    """What the current round has brought so far."""

    def __init__(self, watcher: CallWatcher) -> None:
        self.watcher = watcher
        """Calls of the search wait in it, and those whose name is incomplete."""
        self.finish = FinishReason()


class _Exchange:
    """The calls of the search in one round, and what the model gets for each."""

    def __init__(self, *, continues: bool) -> None:
        self.continues = continues
        """The results go to the model in a further round."""
        self.calls: list[SearchCall] = []
        self.answers: dict[str, str] = {}
        """The tool output, by call id."""


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
