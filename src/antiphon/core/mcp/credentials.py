"""Credentials of clients for MCP servers, and the documents that must not contain them.

A credential goes to its server; it may also be in the query of the URL. A request in the trace or
in a queue is kept without it, also a request to a provider that calls servers itself.
"""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.core.items import Document
from antiphon.core.mcp.toolset import MCP

_OF_TOOLS = frozenset({"headers", "authorization"})
_OF_SERVERS = frozenset({"authorization_token"})
_URLS = frozenset({"server_url", "url"})


def without_credentials(document: Document) -> Document:
    """The request of a client without its credentials for MCP servers."""
    kept = dict(document)
    if isinstance(tools := document.get("tools"), list):
        kept["tools"] = [_without(tool, _OF_TOOLS) if _is_mcp(tool) else tool for tool in tools]
    if isinstance(servers := document.get("mcp_servers"), list):
        kept["mcp_servers"] = [_without(server, _OF_SERVERS) for server in servers]
    return kept


def name_servers(document: Document) -> list[str]:
    """The labels of the MCP servers that the client sends credentials for."""
    kept = without_credentials(document)
    found = [*_pairs(document, kept, "tools"), *_pairs(document, kept, "mcp_servers")]
    return [_label(given) for given, left in found if given != left]


def _pairs(document: Document, kept: Document, field: str) -> list[tuple[Any, Any]]:
    """The elements of a list, each with its kept part."""
    given = document.get(field)
    return list(zip(given, kept[field], strict=True)) if isinstance(given, list) else []


def _label(server: Document) -> str:
    return str(server.get("server_label") or server.get("name") or "")


def hide_credentials(body: bytes) -> bytes:
    """The body of a request to a provider that calls servers itself, without the credentials; other
    bodies as they are. A body that cannot be read is dropped."""
    if b"mcp" not in body:
        return body
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return b""
    if not isinstance(document, dict):
        return body
    kept = without_credentials(document)
    return body if kept == document else msgspec.json.encode(kept)


def hide_query(url: str) -> str:
    """A URL without its query; what remains is no URL, so that no server is called by it."""
    address, mark, _ = url.partition("?")
    return f"{address}?<redacted>" if mark else address


def _is_mcp(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type") == MCP


def _without(value: Any, names: frozenset[str]) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: _hide(name, each) for name, each in value.items() if name not in names}


def _hide(name: str, value: Any) -> Any:
    return hide_query(value) if name in _URLS and isinstance(value, str) else value
