"""Tools of a Messages request as canonical tools.

A tool with a schema is a function. Tools of Anthropic's own that the client runs (bash, text
editor, computer, memory) are functions with their known schema, for models that do not know them;
they are called by their own name. Tools that a server runs keep their type: the plan decides who
runs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from antiphon.core.items import Document
from antiphon.dialects.anthropic.parse_blocks import with_extra
from antiphon.dialects.anthropic.parse_errors import invalid, mapping, type_name
from antiphon.dialects.anthropic.parse_mcp import FORMAT, NO_SERVERS, NO_TYPE, TOOLSET
from antiphon.dialects.anthropic.parse_types import TOOL, check_members

_DATED = re.compile(r"(?P<family>[a-z_]+?)_20\d{6}$")
_CUSTOM = ("type", "name", "description", "input_schema", "strict", "defer_loading")


def read_tools(
    tools: Any, messages: list[Any], *, has_servers: bool = False
) -> tuple[tuple[Document, ...], int | None]:
    """The tools, and how often the web may be searched. `has_servers`: the request names MCP
    servers, to which its toolsets belong."""
    if not isinstance(tools, list):
        raise invalid("tools", f"Input should be a valid list, not {type_name(tools)}")
    found = _references(messages)
    read = tuple(
        _read_tool(tool, f"tools.{at}", found, has_servers=has_servers)
        for at, tool in enumerate(tools)
    )
    searches = [tool["extra"]["members"] for tool in read if tool["type"] == "web_search"]
    limits = [search.get("max_uses") for search in searches]
    return read, next((limit for limit in limits if limit is not None and limit > 0), None)


def _read_tool(tool: Any, path: str, found: Mapping[str, int], *, has_servers: bool) -> Document:
    if not isinstance(tool, dict):
        raise invalid(path, f"Input should be an object, not {type_name(tool)}")
    check_members(tool, TOOL, path)
    kind = tool.get("type") or "custom"
    family = match["family"] if (match := _DATED.match(kind)) else kind
    if family == "custom":
        return _read_custom(tool, path, found)
    name = tool.get("name")
    if family in _CLIENT_TOOLS and isinstance(name, str):
        description, schema = _CLIENT_TOOLS[family]
        known: Document = {"type": "function", "name": name, "description": description}
        return {**known, "parameters": schema, **_whole(tool)}
    if family == "web_search":
        return _read_search(tool)
    if family == "mcp":
        raise invalid(f"{path}.type", NO_TYPE)
    if family == TOOLSET and not has_servers:
        raise invalid(f"{path}.mcp_server_name", NO_SERVERS)
    return {**tool, **_whole(tool)}


def _whole(tool: Document) -> Document:
    return {"extra": {"format": FORMAT, "members": tool}}


def _read_custom(tool: Document, path: str, found: Mapping[str, int]) -> Document:
    name = tool.get("name")
    if not name:
        raise invalid(f"{path}.name", "Field required")
    function: Document = {"type": "function", "name": name, "parameters": tool.get("input_schema")}
    for member in ("description", "strict"):
        if tool.get(member) is not None:
            function[member] = tool[member]
    if tool.get("defer_loading") is True:
        function |= {"defer_loading": True, "found": found.get(name, 0)}
    return with_extra(function, tool, *_CUSTOM)


def _read_search(tool: Document) -> Document:
    filters = {
        name: tool[name] for name in ("allowed_domains", "blocked_domains") if tool.get(name)
    }
    location = {"user_location": tool["user_location"]} if tool.get("user_location") else {}
    search = {"type": "web_search", **({"filters": filters} if filters else {})}
    return {**search, **location, **_whole(tool)}


def _references(messages: list[Any]) -> dict[str, int]:
    """The tools that results have referred to, numbered in the order of their first reference."""
    found: dict[str, int] = {}
    for name in _referenced_names(messages):
        found.setdefault(name, len(found) + 1)
    return found


def _referenced_names(messages: list[Any]) -> Iterator[str]:
    for message in messages:
        for block in _list(mapping(message).get("content")):
            for part in _list(mapping(block).get("content")):
                match part:
                    case {"type": "tool_reference", "tool_name": str(name)}:
                        yield name


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# --- the choice -----------------------------------------------------------------------------------

_MODES = {"auto": "auto", "any": "required", "none": "none"}


def read_tool_choice(choice: Any, tools: tuple[Document, ...]) -> str | Document:
    kind = mapping(choice).get("type", "auto")
    if kind == "tool":
        name = choice.get("name")
        if name is None:
            raise invalid("tool_choice.name", "Field required")
        return _named_tool(name, tools)
    mode = _MODES.get(str(kind))
    if mode is None:
        raise invalid("tool_choice.type", "Input should be 'auto', 'any', 'tool' or 'none'")
    return mode


def _named_tool(name: str, tools: tuple[Document, ...]) -> Document:
    """The choice of a tool by its name; a server's tool is chosen by its type."""
    for tool in tools:
        if tool["type"] != "function" and mapping(tool["extra"]["members"]).get("name") == name:
            return {"type": tool["type"]}
    return {"type": "function", "name": name}


# --- tools of Anthropic that the client runs ------------------------------------------------------


def _object(required: str, **properties: Document) -> Document:
    return {"type": "object", "properties": properties, "required": required.split()}


_TEXT: Document = {"type": "string"}
_WHOLE: Document = {"type": "integer"}
_PAIR: Document = {"type": "array", "items": {"type": "integer"}}
_EDITOR = _object(
    "command path",
    command={"type": "string", "enum": ["view", "create", "str_replace", "insert"]},
    path=_TEXT,
    file_text=_TEXT,
    old_str=_TEXT,
    new_str=_TEXT,
    insert_line=_WHOLE,
    insert_text=_TEXT,
    view_range=_PAIR,
)
_CLIENT_TOOLS: Mapping[str, tuple[str, Document]] = {
    "bash": (
        "Runs a command in a bash session that stays open, and returns its output. `restart` starts"
        " a new session.",
        {"type": "object", "properties": {"command": _TEXT, "restart": {"type": "boolean"}}},
    ),
    "text_editor": (
        "Views, creates and edits text files: `str_replace` replaces the one occurrence of"
        " `old_str`, `insert` adds `insert_text` after a line, `view` shows a file or a directory.",
        _EDITOR,
    ),
    "computer": (
        "Operates a computer by its screen, mouse and keyboard, and returns a screenshot.",
        _object(
            "action",
            action=_TEXT,
            coordinate=_PAIR,
            start_coordinate=_PAIR,
            text=_TEXT,
            scroll_direction={"type": "string", "enum": ["up", "down", "left", "right"]},
            scroll_amount=_WHOLE,
            duration={"type": "number"},
        ),
    ),
    "memory": (
        "Keeps files in the directory /memories: views, creates, edits, renames and deletes them.",
        _object(
            "command",
            command=_TEXT,
            path=_TEXT,
            file_text=_TEXT,
            old_str=_TEXT,
            new_str=_TEXT,
            insert_line=_WHOLE,
            insert_text=_TEXT,
            view_range=_PAIR,
            old_path=_TEXT,
            new_path=_TEXT,
        ),
    ),
}
