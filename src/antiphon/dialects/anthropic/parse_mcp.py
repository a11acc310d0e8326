"""MCP servers of a Messages request (`mcp_servers`), and their blocks in its history.

A server is a canonical `mcp` tool. The format has no approval, so a request with servers wants
their tools to be called. A provider of the same format gets members and blocks as they came.

The format has two forms. In the older one a server has its `tool_configuration`; in the newer one
an `mcp_toolset` among the `tools` names each server, and may have the list of its tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from antiphon.core.items import Document
from antiphon.dialects.anthropic.parse_errors import invalid, mapping, type_name
from antiphon.dialects.anthropic.parse_types import Shape, check_members

FORMAT = "messages"
SERVERS = "mcp_servers"
TOOLSET = "mcp_toolset"
LISTING_BETA = "mcp-client-2026-09-15"
"""Clients that name this beta get the list of each server that was asked, and send it back."""

_SETTINGS: Mapping[str, Shape] = {"enabled": bool, "defer_loading": bool}
_TOOLSET: Mapping[str, Shape] = {
    "mcp_server_name": str,
    "default_config": _SETTINGS,
    "configs": dict,
    "tools": [{"name": str, "description": str, "input_schema": dict}],
}
_SERVER: Mapping[str, Shape] = {
    "authorization_token": str,
    "tool_configuration": {"enabled": bool, "allowed_tools": [str]},
}


NO_TYPE = f"Tools of an MCP server are declared by {SERVERS} and an {TOOLSET}, not by 'mcp'"
NO_SERVERS = f"An {TOOLSET} needs {SERVERS}, with the server that it names"


def add_servers(
    tools: tuple[Document, ...], servers: Any, messages: list[Any]
) -> tuple[Document, ...]:
    """The tools of a request with its servers: in the place of their toolsets, or at the end."""
    found = _read_servers(servers)
    if not any(tool["type"] == TOOLSET for tool in tools):
        own = map(_tool_of_server, found.values())
        return (*tools, *(tool for tool in own if tool is not None))
    joined = _join_toolsets(tools, found)
    _require_toolsets(found, tools, messages)
    return joined


class _Server(NamedTuple):
    """A server of the request, and its path there."""

    document: Document
    path: str

    @property
    def name(self) -> str:
        return str(self.document["name"])


def _read_servers(servers: Any) -> dict[str, _Server]:
    """The servers by name, in their order."""
    if not isinstance(servers, list):
        raise invalid(SERVERS, f"Input should be a valid list, not {type_name(servers)}")
    found: dict[str, _Server] = {}
    for at, server in enumerate(servers):
        path = f"{SERVERS}.{at}"
        name = _check_server(server, path)
        if name in found:
            raise invalid(f"{path}.name", f"Another server has the name {name!r}. Rename one")
        found[name] = _Server(server, path)
    return found


def _check_server(server: Any, path: str) -> str:
    if not isinstance(server, dict):
        raise invalid(path, f"Input should be an object, not {type_name(server)}")
    for member in ("name", "url"):
        value = server.get(member)
        if not isinstance(value, str) or not value:
            raise invalid(f"{path}.{member}", "Input should be a non-empty string")
    check_members(server, _SERVER, path)
    name: str = server["name"]
    return name


def _canonical(server: _Server, members: Document, **more: Any) -> Document:
    """The canonical tool; `members` is what a provider of the same format gets among its tools."""
    tool: Document = {
        "type": "mcp",
        "server_label": server.name,
        "server_url": server.document["url"],
        "require_approval": "never",
        "toolset": {"url_at": f"{server.path}.url", **more},
        "extra": {"format": FORMAT, "members": members},
    }
    if (token := server.document.get("authorization_token")) is not None:
        tool["authorization"] = token
    return tool


# --- the older form -------------------------------------------------------------------------------


def _tool_of_server(server: _Server) -> Document | None:
    """The tool of a server without a toolset; None: it is switched off."""
    if not is_switched_on(server.document):
        return None
    settings = mapping(server.document.get("tool_configuration"))
    tool = _canonical(server, {"name": server.name})
    if (allowed := settings.get("allowed_tools")) is not None:
        tool["allowed_tools"] = allowed
    return tool


def is_switched_on(server: Document) -> bool:
    """Whether the tools of a server may be called."""
    return mapping(server.get("tool_configuration")).get("enabled") is not False


def is_declared_apart(tool: Mapping[str, Any]) -> bool:
    """Whether a tool is a server of this form: no tool of this format, but one of `mcp_servers`."""
    match tool:
        case {"type": "mcp", "extra": {"members": {} as members}}:
            return "type" not in members
    return False


# --- toolsets -------------------------------------------------------------------------------------


def _join_toolsets(
    tools: tuple[Document, ...], servers: Mapping[str, _Server]
) -> tuple[Document, ...]:
    named: set[str] = set()
    joined: list[Document] = []
    for at, tool in enumerate(tools):
        if tool["type"] != TOOLSET:
            joined.append(tool)
            continue
        toolset = tool["extra"]["members"]
        path = f"tools.{at}"
        server = _server_of(toolset, servers, path)
        if server.name in named:
            problem = f"Another {TOOLSET} names the server {server.name!r}. Join the two"
            raise invalid(f"{path}.mcp_server_name", problem)
        named.add(server.name)
        joined.append(_tool_of_toolset(toolset, server, path))
    return tuple(joined)


def _server_of(toolset: Document, servers: Mapping[str, _Server], path: str) -> _Server:
    check_members(toolset, _TOOLSET, path)
    name = toolset.get("mcp_server_name")
    if name is None:
        raise invalid(f"{path}.mcp_server_name", "Field required")
    if name not in servers:
        raise invalid(f"{path}.mcp_server_name", f"No server of {SERVERS} has the name {name!r}")
    return servers[name]


def _require_toolsets(
    servers: Mapping[str, _Server], tools: tuple[Document, ...], messages: list[Any]
) -> None:
    """Check that every server has one form; a message may define the toolset of a server, too."""
    toolsets = (tool["extra"]["members"] for tool in tools if tool["type"] == TOOLSET)
    named = {toolset["mcp_server_name"] for toolset in toolsets} | {*_names_in_messages(messages)}
    for name, server in servers.items():
        if name not in named:
            problem = f"No {TOOLSET} of tools names the server {name!r}. Add one, or remove it"
            raise invalid(f"{server.path}.name", problem)
        if server.document.get("tool_configuration") is not None:
            problem = f"An {TOOLSET} of tools configures the server {name!r}. Remove one of the two"
            raise invalid(f"{server.path}.tool_configuration", problem)


def _names_in_messages(messages: list[Any]) -> Iterator[str]:
    for message in messages:
        content = mapping(message).get("content")
        for block in content if isinstance(content, list) else ():
            match block:
                case {
                    "tool": {"definition": {"type": "mcp_toolset", "mcp_server_name": str(name)}}
                }:
                    yield name


def _tool_of_toolset(toolset: Document, server: _Server, path: str) -> Document:
    settings = _ToolSettings(toolset, path)
    allowed: list[str] | None = None
    more: Document = {}
    listed = toolset.get("tools")
    if listed is not None:
        names = [_name_of(each, f"{path}.tools.{at}") for at, each in enumerate(listed)]
        allowed = [name for name in names if settings.are_on(name)]
        more["listed"] = listed
    elif not settings.are_on():
        allowed = settings.names(are_on=True)
    elif disabled := settings.names(are_on=False):
        more["disabled"] = disabled
    if settings.are_deferred:
        more["deferred"] = True
    if allowed == []:
        more["off"] = True
    tool = _canonical(server, toolset, **more)
    if allowed is not None:
        tool["allowed_tools"] = allowed
    if isinstance(control := toolset.get("cache_control"), dict):
        tool["cache_control"] = control
    return tool


def _name_of(tool: Document, path: str) -> str:
    name = tool.get("name")
    if not name:
        raise invalid(f"{path}.name", "Field required")
    return str(name)


class _ToolSettings:
    """`default_config` and `configs` of a toolset."""

    def __init__(self, toolset: Document, path: str) -> None:
        self._default = mapping(toolset.get("default_config"))
        self._configs = mapping(toolset.get("configs"))
        for name, config in self._configs.items():
            where = f"{path}.configs.{name}"
            if not isinstance(config, dict):
                raise invalid(where, f"Input should be an object, not {type_name(config)}")
            check_members(config, _SETTINGS, where)

    def are_on(self, name: str = "") -> bool:
        """Whether a tool may be called; without a name, one that has no settings of its own."""
        return self._find("enabled", name) is not False

    def names(self, *, are_on: bool) -> list[str]:
        return [name for name in self._configs if self.are_on(name) is are_on]

    @property
    def are_deferred(self) -> bool:
        return any(self._find("defer_loading", name) is True for name in ("", *self._configs))

    def _find(self, member: str, name: str) -> Any:
        own = mapping(self._configs.get(name)).get(member)
        return self._default.get(member) if own is None else own


# --- blocks ---------------------------------------------------------------------------------------


def call_of_block(block: Document) -> Document | None:
    """The call, the result or the list that a block of a server stands for."""
    match block:
        case {"type": "mcp_tool_use", "id": str(block_id), "name": str(name)}:
            return {
                "type": "function_call",
                "call_id": _call_id(block_id),
                "name": name,
                "namespace": block.get("server_name"),
                "arguments": msgspec.json.encode(block.get("input") or {}).decode(),
            }
        case {"type": "mcp_tool_result", "tool_use_id": str(block_id)}:
            text = _text_of(block.get("content"))
            output = f"error: {text}" if block.get("is_error") is True else text
            call_id = _call_id(block_id)
            return {"type": "function_call_output", "call_id": call_id, "output": output}
        case {"type": "mcp_tool_listing", "mcp_server_name": str(name)}:
            return {"type": "mcp_list_tools", "server_label": name, "tools": block.get("tools")}
    return None


def _call_id(block_id: str) -> str:
    """The id that the call had within its response, so that prompt caches stay valid."""
    prefix, mark, rest = block_id.partition("mcptoolu_")
    return f"mcp_{rest}" if mark and not prefix else block_id


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (mapping(part).get("text") for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))
