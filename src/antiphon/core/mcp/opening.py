"""Filter for what MCP servers are asked before the model is: lists of tools, approved calls.

1. Servers whose tools the thread does not list are asked for them, all at the same time. Without
   the tools of a server the response fails: the model would do something else than requested.
2. Then the calls are made that the client has approved.
3. The first request to the provider has the outcome: its plan is made again, with these items, and
   with the images of results if the model takes images.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

from antiphon.core.deltas import Delta, Failure
from antiphon.core.faults.fault import mcp_fault
from antiphon.core.filters.filter import DeltaFilter, FollowUp, RoundEnd, RoundWish
from antiphon.core.filters.gateway_call import CallWish
from antiphon.core.history.steps import Step
from antiphon.core.mcp.items import failed_result
from antiphon.core.mcp.server_calls import (
    UNREADABLE,
    ListToolsCall,
    ToolCallRequest,
    note_left_out,
    note_result,
    parse_arguments,
    show_images,
)
from antiphon.core.mcp.toolset import ApprovedCall, McpPlan, McpToolset
from antiphon.core.mcp.values import McpResult, McpToolList

_NOT_OFFERED = (
    "The call was not made: the request does not allow this tool, or the server has none of this"
    " name."
)


class McpOpening(DeltaFilter):
    """What servers are asked before the first request of a response."""

    def __init__(self, plan: McpPlan, new_id: Callable[[str], str]) -> None:
        self._plan = plan
        self._tools = dict(plan.listed)
        self._new_id = new_id
        self._numbers = count(-1, -1)
        self._images: list[Step] = []
        """What the model gets of results beside the items."""

    def open(self) -> RoundEnd:
        return self._list_or_call([], tuple(map(self._prepare_list, self._plan.unlisted)))

    def feed(self, delta: Delta) -> list[Delta]:
        return [delta]

    # Lists

    def _prepare_list(self, toolset: McpToolset) -> ListToolsCall:
        item_id = self._new_id("mcpl")
        return ListToolsCall(call_id=item_id, server=toolset.server, number=next(self._numbers))

    def _list_or_call(self, deltas: list[Delta], lists: tuple[ListToolsCall, ...]) -> RoundEnd:
        if lists:
            return RoundEnd(deltas, CallWish(lists, partial(self._settle_list, lists)))
        calls: list[ToolCallRequest] = []
        for approved in self._plan.approved:
            call = self._prepare_call(approved)
            refusal = self._refuse(call, approved.toolset)
            if refusal is None:
                calls.append(call)
            else:
                deltas = [*deltas, *call.announce(), *call.end(failed_result(refusal))]
        return self._call_or_go_on(deltas, tuple(calls))

    def _settle_list(self, lists: tuple[ListToolsCall, ...], found: McpToolList) -> RoundEnd:
        deltas = lists[0].end(found)
        label = lists[0].server.label
        if found.problem is not None:
            fault = mcp_fault(label, found.problem.message)
            return RoundEnd([*deltas, Failure(fault)])
        self._tools[label] = found.tools
        if found.left_out:
            self.diagnostics = (*self.diagnostics, note_left_out(label, found))
        return self._list_or_call(deltas, lists[1:])

    # Approved calls

    def _prepare_call(self, approved: ApprovedCall) -> ToolCallRequest:
        return ToolCallRequest(
            call_id=self._new_id("mcp"),
            server=approved.toolset.server,
            number=next(self._numbers),
            tool=approved.tool,
            arguments=approved.arguments,
            values=parse_arguments(approved.arguments),
            approval_request_id=approved.request_id,
            is_announced=False,
        )

    def _refuse(self, call: ToolCallRequest, toolset: McpToolset) -> str | None:
        """Why an approved call is not made."""
        tools = self._tools[toolset.label]
        if not any(tool.name == call.tool and toolset.allows(tool) for tool in tools):
            return _NOT_OFFERED
        return UNREADABLE if call.values is None else None

    def _call_or_go_on(self, deltas: list[Delta], calls: tuple[ToolCallRequest, ...]) -> RoundEnd:
        if calls:
            return RoundEnd(deltas, CallWish(calls, partial(self._settle_call, calls)))
        return RoundEnd(deltas, RoundWish(FollowUp(steps=tuple(self._images)), is_required=True))

    def _settle_call(self, calls: tuple[ToolCallRequest, ...], result: McpResult) -> RoundEnd:
        self.diagnostics = (*self.diagnostics, *note_result(calls[0], result))
        if result.images:
            self._images.append(show_images(calls[0], result))
        return self._call_or_go_on(calls[0].end(result), calls[1:])
