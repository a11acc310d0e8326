"""Filter for tools of MCP servers: calls of them are made by the gateway itself.

1. A call of a server's tool becomes an `mcp_call` item, whose arguments the client sees while the
   model writes them; or an `mcp_approval_request`, once they are complete. Other output passes.
2. When a round is over, `close` returns the calls to make, as a `CallWish`. Each is made, and its
   result is given to `settle`; then the wish is for a further round, whose request has the items.
3. Beside an approval request, or a call that the client has to answer, there is no further round:
   the response ends, and the history of the next turn has the results.
4. The budget counts calls over all rounds. A call beyond it is answered without being made, and is
   no item; a model that goes on calling gets `tool_choice: none`, and after that no further round.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

from msgspec import structs

from antiphon.core.deltas import Delta, Finish, RawItem, ToolCall, ToolEnd
from antiphon.core.diagnostic import Code
from antiphon.core.filters.call_watcher import CallWatcher, PartialCall
from antiphon.core.filters.filter import DeltaFilter, FinishReason, FollowUp, RoundEnd, RoundWish
from antiphon.core.filters.gateway_call import CallWish
from antiphon.core.history.content import json_text
from antiphon.core.history.steps import Step, TextPart, ToolCallStep, ToolResultStep
from antiphon.core.mcp.items import approval_request_item, failed_result
from antiphon.core.mcp.server_calls import (
    UNREADABLE,
    ToolCallRequest,
    note_result,
    parse_arguments,
    show_images,
)
from antiphon.core.mcp.toolset import MCP, McpOffer, McpPlan
from antiphon.core.mcp.values import McpResult
from antiphon.core.tools.declaration import ToolChoice
from antiphon.core.tools.identity import ToolIdentityMap

_MAX_ROUNDS = 20
_MAX_CALLS = 100
_LIMIT = "The tool was not called: the limit of tool calls is reached. Answer with what you have."


class McpFilter(DeltaFilter):
    """The calls of MCP tools in one response, over all of its rounds."""

    def __init__(
        self,
        plan: McpPlan,
        *,
        tools: ToolIdentityMap,
        choice: ToolChoice,
        new_id: Callable[[str], str],
    ) -> None:
        """`tools` and `choice` are those of the first request."""
        self._plan = plan
        self._tools = tools
        self._choice = choice
        self._new_id = new_id
        limit = _MAX_CALLS if plan.max_calls is None else plan.max_calls
        self._budget = min(limit, _MAX_CALLS) - plan.calls_made
        self._rounds = 0
        self._rounds_over_budget = 0
        self._numbers = count(-1, -1)
        self._round = self._new_round()

    def _new_round(self) -> _McpRound:
        return _McpRound(CallWatcher(self._tools, self._is_decided))

    # During a round

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, ToolCall):
            return self._feed_call(delta)
        if isinstance(delta, ToolEnd):
            return self._feed_end(delta)
        if isinstance(delta, Finish):
            self._round.finish.feed(delta)
        return [delta]

    def passes(self, delta: Delta) -> bool:
        return not isinstance(delta, ToolCall) or delta.index in self._round.watcher.passed

    def _is_decided(self, call: PartialCall) -> bool:
        """Whether it is known whose tool a call is of. A declared name is final at once."""
        offers = self._plan.offers
        return call.name in self._tools or not any(each.startswith(call.name) for each in offers)

    def _feed_call(self, delta: ToolCall) -> list[Delta]:
        current = self._round
        if delta.index in current.watcher.passed:
            return [delta]
        known = current.calls.get(delta.index)
        if known is not None:
            return known.add(delta)
        call = current.watcher.add(delta)
        if call is None:
            return []
        offer = self._plan.offers.get(call.name)
        if offer is None:
            current.watcher.passed.add(delta.index)
            return [*call.deltas]
        return self._begin(delta.index, call, offer)

    def _begin(self, index: int, call: PartialCall, offer: McpOffer) -> list[Delta]:
        """A call of a server's tool has begun."""
        is_over = self._budget <= 0 or self._rounds >= _MAX_ROUNDS
        begun = _BegunCall(call, offer)
        self._round.calls[index] = begun
        if is_over:
            begun.is_over_budget = True
            return []
        self._budget -= 1
        if offer.needs_approval:
            return []
        request = ToolCallRequest(
            call_id=self._new_id("mcp"),
            server=offer.server,
            number=next(self._numbers),
            tool=offer.tool,
            arguments="",
        )
        begun.request = request
        return [*request.begin(), *request.add_arguments(call.arguments)]

    def _feed_end(self, delta: ToolEnd) -> list[Delta]:
        if delta.index in self._round.watcher:
            self._round.watcher.add(delta)
            return []
        return [] if delta.index in self._round.calls else [delta]

    # Between two rounds

    def close(self, *, final: bool) -> RoundEnd:
        ended = self._round
        self._round = self._new_round()
        unnamed: list[Delta] = [delta for call in ended.watcher.take_all() for delta in call.deltas]
        if not ended.calls or not ended.finish.is_complete or self._rounds_over_budget > 1:
            return RoundEnd(unnamed)
        self._rounds += 1
        has_client_calls = bool(ended.watcher.passed or unnamed)
        exchange = _Exchange(continues=not (final and has_client_calls))
        deltas = [*unnamed]
        for begun in ended.calls.values():
            deltas += self._accept(exchange, begun)
        self._note_limit(ended)
        return self._call_or_go_on(exchange, deltas, tuple(exchange.requests))

    def give_up(self) -> list[Delta]:
        """Drop the calls: the model would not see their results."""
        self._round = self._new_round()
        return []

    def _accept(self, exchange: _Exchange, begun: _BegunCall) -> list[Delta]:
        """Decide about a call of the round that is over; return what the client gets of it now."""
        offer = begun.offer
        arguments = begun.call.arguments or "{}"
        if begun.is_over_budget:
            exchange.steps.extend(_answer(begun, self._new_id("call"), _LIMIT))
            return []
        if begun.request is None:
            item_id = self._new_id("mcpr")
            exchange.end_with_approval()
            return [
                RawItem(approval_request_item(item_id, offer.server.label, offer.tool, arguments))
            ]
        values = parse_arguments(arguments)
        request = structs.replace(begun.request, arguments=arguments, values=values)
        if values is not None:
            exchange.requests.append(request)
            return request.end_arguments()
        return [*request.end_arguments(), *request.end(failed_result(UNREADABLE))]

    def _note_limit(self, ended: _McpRound) -> None:
        over_budget = sum(each.is_over_budget for each in ended.calls.values())
        if over_budget:
            self._rounds_over_budget += 1
            message = (
                f"The limit of calls of MCP tools per response is reached; {over_budget} not made."
            )
            self._note(Code.MCP_LIMITED, "max_tool_calls", message, MCP)

    def _call_or_go_on(
        self, exchange: _Exchange, deltas: list[Delta], calls: tuple[ToolCallRequest, ...]
    ) -> RoundEnd:
        if calls:
            return RoundEnd(deltas, CallWish(calls, partial(self._settle, exchange, calls)))
        if not exchange.continues:
            return RoundEnd(deltas)
        follow_up = FollowUp(steps=tuple(exchange.steps), tool_choice=self._next_choice())
        return RoundEnd(deltas, RoundWish(follow_up, is_required=True))

    def _settle(
        self, exchange: _Exchange, calls: tuple[ToolCallRequest, ...], result: McpResult
    ) -> RoundEnd:
        """Take the result of the first of these calls."""
        call = calls[0]
        self.diagnostics = (*self.diagnostics, *note_result(call, result))
        if self._plan.takes_images and result.images:
            exchange.steps.append(show_images(call, result))
        return self._call_or_go_on(exchange, call.end(result), calls[1:])

    def _next_choice(self) -> ToolChoice | None:
        if self._rounds_over_budget > 1:
            return ToolChoice("none")
        forced = self._choice.mode in ("required", "function")
        return ToolChoice("auto") if forced else None  # the call that was forced has been made


class _BegunCall:
    """A call of a server's tool in the current round."""

    def __init__(self, call: PartialCall, offer: McpOffer) -> None:
        self.call = call
        self.offer = offer
        self.is_over_budget = False
        self.request: ToolCallRequest | None = None
        """The item that the client sees; None: it sees none before the round is over."""

    def add(self, delta: ToolCall) -> list[Delta]:
        self.call.add(delta)
        return [] if self.request is None else self.request.add_arguments(delta.arguments)


class _McpRound:
    """What the current round has brought so far."""

    def __init__(self, watcher: CallWatcher) -> None:
        self.watcher = watcher
        """Calls wait in it until their name is complete."""
        self.finish = FinishReason()
        self.calls: dict[int, _BegunCall] = {}
        """By index."""


class _Exchange:
    """The calls of one round, and what the model gets of them beside the items."""

    def __init__(self, *, continues: bool) -> None:
        self.continues = continues
        """The results go to the model in a further round."""
        self.requests: list[ToolCallRequest] = []
        self.steps: list[Step] = []

    def end_with_approval(self) -> None:
        """The client has to decide about a call before the model goes on."""
        self.continues = False


def _answer(begun: _BegunCall, new_id: str, text: str) -> list[Step]:
    """A call that is no item, and its result."""
    call_id = begun.call.call_id or new_id
    arguments = begun.call.arguments or "{}"
    if parse_arguments(arguments) is None:
        arguments = json_text({"_malformed": arguments})
    name = begun.call.name
    return [
        ToolCallStep(call_id, name, arguments),
        ToolResultStep(call_id, (TextPart(text),), name),
    ]
