"""Planted defects of the calls of MCP servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

import antiphon.core.history.read_tool_items as history_module
import antiphon.core.mcp.items as items_module
import antiphon.core.plan.declare_mcp as declare_module
import antiphon.core.stream.raw_block as block_module
import antiphon.engine.output as output_module
import antiphon.mcp.policy as policy_module
import antiphon.mcp.problems as problems_module
import antiphon.runs.background_queue as queue_module
from antiphon.core.filters.gateway_call import GatewayCall
from antiphon.core.mcp.filter import McpFilter
from antiphon.core.mcp.opening import McpOpening
from antiphon.core.mcp.server_calls import ListToolsCall, ToolCallRequest
from antiphon.core.mcp.toolset import Approval, McpToolset
from antiphon.core.mcp.values import McpServer, McpToolList
from antiphon.engine.mcp_calls import McpCalls
from antiphon.engine.retry import RetryPolicy
from antiphon.engine.run import GatewayCalls
from antiphon.mcp.policy import Policy
from antiphon.mcp.session import Failure, ServerSession
from antiphon.mcp.sessions import Sessions
from tests.simulation.mutant import Mutant


def _always(value: Any) -> Any:
    return lambda _: lambda *arguments, **options: value


def _approve_denied(original: Any) -> Any:
    def find_approved(items: Sequence[Mapping[str, Any]], toolsets: Any) -> Any:
        return original([{**item, "approve": True} for item in items], toolsets)

    return find_approved


async def _leave_open(self: Sessions) -> None:
    return


def _leave_failed_open(original: Any) -> Any:
    async def release(self: GatewayCalls, report: Any) -> None:
        ended = [each for each in self._tasks.values() if each.done() and not each.cancelled()]
        if all(getattr(each.result(), "problem", None) is None for each in ended):
            await original(self, report)

    return release


def _call_last_listed(original: Any) -> Any:
    """Make every call at the server that was listed last, whichever the model has named."""
    listed: dict[int, McpServer] = {}

    async def make(self: McpCalls, call: GatewayCall) -> object:
        if isinstance(call, ListToolsCall):
            listed[id(self)] = call.server
        elif isinstance(call, ToolCallRequest):
            call = replace(call, server=listed.get(id(self), call.server))
        return await original(self, call)

    return make


def _send_again(original: Any) -> Any:
    """Send a request again after any failure."""

    async def request(self: Sessions, endpoint: Any, send: Any) -> Any:
        result = await original(self, endpoint, send)
        return await original(self, endpoint, send) if isinstance(result, Failure) else result

    return request


def _share_credentials(original: Any) -> Any:
    """Send the credential for the last server to one that has none."""
    last: list[Mapping[str, str]] = [{}]

    def find_endpoint(self: Policy, server: McpServer) -> Any:
        if server.headers:
            last[0] = server.headers
        return original(self, replace(server, headers=last[0]))

    return find_endpoint


def _client_first(_: Any) -> Any:
    return lambda own, client: {name.lower(): each for name, each in {**own, **client}.items()}


def _show_all(_: Any) -> Any:
    return lambda document: document


def _without_limit(original: Any) -> Any:
    def init(self: McpFilter, plan: Any, **options: Any) -> None:
        original(self, replace(plan, max_calls=None), **options)

    return init


def _go_on_without_list(original: Any) -> Any:
    def settle(self: McpOpening, lists: Any, found: McpToolList) -> Any:
        return original(self, lists, replace(found, problem=None))

    return settle


def _swap_results(original: Any) -> Any:
    async def outcome(self: GatewayCalls, calls: Sequence[GatewayCall], report: Any) -> object:
        is_call = isinstance(calls[0], ToolCallRequest)
        return await original(self, calls[::-1] if is_call else calls, report)

    return outcome


def _end_at_once(_: Any) -> Any:
    return lambda self: self.begin_close()


def _keep_key(_: Any) -> Any:
    return lambda self, attempt: attempt


MCP_MUTANTS: tuple[Mutant, ...] = (
    Mutant("an approval is skipped", Approval, "is_needed", _always(False)),
    Mutant("a denial is an approval", declare_module, "find_approved", _approve_denied),
    Mutant("`allowed_tools` is ignored", McpToolset, "allows", _always(True)),
    Mutant("`max_tool_calls` is ignored", McpFilter, "__init__", _without_limit),
    Mutant("MCP sessions are not closed", Sessions, "close", lambda _: _leave_open),
    Mutant("a session stays open after a failure", GatewayCalls, "release", _leave_failed_open),
    Mutant("a call goes to another server", McpCalls, "make", _call_last_listed),
    Mutant("a call is made again after a failure", Sessions, "_request", _send_again),
    Mutant("results of parallel calls change places", GatewayCalls, "outcome", _swap_results),
    Mutant("the error of a call is lost", items_module, "_error_document", _always(None)),
    Mutant("a failed list is empty", McpOpening, "_settle_list", _go_on_without_list),
    Mutant("a call that was cut off has no error", block_module, "_add_error", _show_all),
    Mutant("results do not reach the model", history_module, "_read_mcp_result", _always("")),
    Mutant("a lost session drops its other results", ServerSession, "retire", _end_at_once),
    Mutant("a credential for another server", Policy, "find_endpoint", _share_credentials),
    Mutant(
        "a client replaces the operator's credential",
        policy_module,
        "_merge_headers",
        _client_first,
    ),
    Mutant(
        "a credential in an error", problems_module, "hide_secrets", lambda _: lambda text, _: text
    ),
    Mutant("a credential in the store", queue_module, "without_credentials", _show_all),
    Mutant("a credential in the trace", output_module, "without_credentials", _show_all),
    Mutant("a key that rests is used after a list", RetryPolicy, "with_usable_key", _keep_key),
)
