"""MCP servers of a Messages request (`mcp_servers`), and their blocks in its history.

A server is a canonical `mcp` tool. The format has no approval, so a request with servers wants
their tools to be called. A provider of the same format gets member and blocks as they came.
"""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.core.items import Document
from antiphon.dialects.anthropic.parse_errors import invalid, mapping, type_name

FORMAT = "messages"
SERVERS = "mcp_servers"


def read_servers(servers: Any) -> tuple[Document, ...]:
    """The servers as tools; one that is switched off is none."""
    if servers is None:
        return ()
    if not isinstance(servers, list):
        raise invalid(SERVERS, f"Input should be a valid list, not {type_name(servers)}")
    read = (_read_server(each, f"{SERVERS}.{at}") for at, each in enumerate(servers))
    return tuple(tool for tool in read if tool is not None)


def _read_server(server: Any, path: str) -> Document | None:
    if not isinstance(server, dict):
        raise invalid(path, f"Input should be an object, not {type_name(server)}")
    for member in ("name", "url"):
        value = server.get(member)
        if not isinstance(value, str) or not value:
            raise invalid(f"{path}.{member}", "Input should be a non-empty string")
    if not is_switched_on(server):
        return None
    settings = mapping(server.get("tool_configuration"))
    tool: Document = {
        "type": "mcp",
        "server_label": server["name"],
        "server_url": server["url"],
        "require_approval": "never",
        "extra": {"format": FORMAT, "members": {"name": server["name"]}},
    }
    if isinstance(token := server.get("authorization_token"), str):
        tool["authorization"] = token
    if isinstance(allowed := settings.get("allowed_tools"), list):
        tool["allowed_tools"] = [name for name in allowed if isinstance(name, str)]
    return tool


def is_switched_on(server: Document) -> bool:
    """Whether the tools of a server may be called."""
    return mapping(server.get("tool_configuration")).get("enabled") is not False


def call_of_block(block: Document) -> Document | None:
    """The call or the result that a block of a server's tool stands for."""
    match block:
        case {"type": "mcp_tool_use", "id": str(call_id), "name": str(name)}:
            return {
                "type": "function_call",
                "call_id": call_id,
                "name": name,
                "namespace": block.get("server_name"),
                "arguments": msgspec.json.encode(block.get("input") or {}).decode(),
            }
        case {"type": "mcp_tool_result", "tool_use_id": str(call_id)}:
            text = _text_of(block.get("content"))
            output = f"error: {text}" if block.get("is_error") is True else text
            return {"type": "function_call_output", "call_id": call_id, "output": output}
    return None


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (mapping(part).get("text") for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))
