"""MCP in a thread: lists of tools that need not be made again, approvals of calls, and servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from antiphon.core.history.content import mapping, string
from antiphon.core.items import Document
from antiphon.core.mcp.items import (
    APPROVAL_REQUEST,
    APPROVAL_RESPONSE,
    CALL,
    LIST,
    read_list,
)
from antiphon.core.mcp.toolset import MCP, TOOLSET, ApprovedCall, McpToolset
from antiphon.core.mcp.values import McpTool

_Items = Sequence[Mapping[str, Any]]
_CONNECTION = ("server_url", "authorization")


def find_lists(items: _Items) -> dict[str, tuple[McpTool, ...]]:
    """The newest list of each server, by label. A list that failed is none."""
    lists: dict[str, tuple[McpTool, ...]] = {}
    for each in items:
        item = mapping(each.get("instead")) or each  # a block of the client's own format
        label = string(item.get("server_label"))
        if item.get("type") != LIST or label is None:
            continue
        found = read_list(item)
        if found is not None:
            lists[label] = found
    return lists


def find_approved(items: _Items, toolsets: Iterable[McpToolset]) -> tuple[ApprovedCall, ...]:
    """The calls that the newest input approves, and that were not made yet. An approval that the
    model has seen the outcome of is never used again."""
    by_label = {each.label: each for each in toolsets}
    requests = {item.get("id"): item for item in items if item.get("type") == APPROVAL_REQUEST}
    made = find_calls_made(items)
    found: dict[str, ApprovedCall] = {}
    for item in _newest_input(items):
        request_id = string(item.get("approval_request_id"))
        request = requests.get(request_id)
        is_approval = item.get("type") == APPROVAL_RESPONSE and item.get("approve") is True
        if not is_approval or request is None or request_id is None or request_id in made:
            continue
        toolset = by_label.get(string(request.get("server_label")) or "")
        if toolset is None:  # the request does not name this server any more
            continue
        found[request_id] = ApprovedCall(
            request_id=request_id,
            toolset=toolset,
            tool=string(request.get("name")) or "",
            arguments=string(request.get("arguments")) or "{}",
        )
    return tuple(found.values())


def find_calls_made(items: _Items) -> frozenset[str]:
    """The ids of approval requests whose calls were made."""
    ids = (item.get("approval_request_id") for item in items if item.get("type") == CALL)
    return frozenset(each for each in ids if isinstance(each, str))


def count_opening_calls(items: _Items) -> int:
    """The number of calls that were made before the model was asked: they end the thread."""
    number = 0
    for item in reversed(items):
        if item.get("type") not in (CALL, LIST):
            break
        number += item.get("type") == CALL
    return number


def inherit_tools(own: Sequence[Document], inherited: Sequence[Document]) -> tuple[Document, ...]:
    """The tools of a request that has none of its own: those of the thread. Servers are named anew
    in each request, with their credentials, which are not stored; a toolset of the thread says
    which of their tools may be called."""
    servers = {str(tool.get("server_label")): tool for tool in own if tool.get("type") == MCP}
    if len(servers) < len(own):
        return tuple(own)
    kept = [_connect(tool, servers) for tool in inherited if not _is_named_anew(tool)]
    return (*kept, *servers.values())


def _is_named_anew(tool: Document) -> bool:
    """Whether a tool of a thread is a server without a toolset, of another client format."""
    return tool.get("type") == MCP and "extra" in tool and not _is_toolset(tool)


def _is_toolset(tool: Document) -> bool:
    match tool.get("extra"):
        case {"members": {"type": str()}}:
            return True
    return False


def _connect(tool: Document, servers: dict[str, Document]) -> Document:
    """A toolset with the address and the credentials of its server, which is taken out."""
    server = servers.pop(str(tool.get("server_label")), None) if _is_toolset(tool) else None
    if server is None:
        return tool
    connection = {name: server[name] for name in _CONNECTION if name in server}
    more = {**mapping(tool.get(TOOLSET)), **mapping(server.get(TOOLSET))}
    return {**tool, **connection, TOOLSET: more}


def _newest_input(items: _Items) -> _Items:
    """The items after the last one of the model."""
    first = len(items)
    while first and _is_input(items[first - 1]):
        first -= 1
    return items[first:]


def _is_input(item: Mapping[str, Any]) -> bool:
    kind = str(item.get("type") or "message")
    if kind == "message":
        return item.get("role") != "assistant"
    return kind in (APPROVAL_RESPONSE, LIST) or kind.endswith("_output")
