"""Output items as content blocks of Messages: calls, web searches and citations."""

from __future__ import annotations

from typing import Any, TypeGuard

import msgspec
from msgspec import UnsetType

from antiphon.core.items import (
    ApplyPatchCall,
    CallItem,
    CustomToolCall,
    Document,
    FunctionCall,
    Item,
    LocalShellCall,
    OutputText,
    Part,
    ShellCall,
    ToolSearchCall,
)
from antiphon.dialects.anthropic.kept_blocks import CLIENT_BLOCK, OWN_SEARCH
from antiphon.dialects.anthropic.message_ids import wrap_call_id
from antiphon.dialects.anthropic.parse_mcp import FORMAT

_CALLS = (FunctionCall, CustomToolCall, ShellCall, LocalShellCall, ApplyPatchCall, ToolSearchCall)
_NAMES: dict[type, str] = {
    ShellCall: "shell",
    LocalShellCall: "local_shell",
    ApplyPatchCall: "apply_patch",
    ToolSearchCall: "tool_search",
}

# --- what the provider has sent in this format ----------------------------------------------------


def kept_members(extra: Document | UnsetType) -> Document | None:
    """The members of the provider's own block or message; None if it was of another format."""
    match extra:
        case {"format": str(name), "members": dict(members)} if name == FORMAT:
            return members
    return None


def kept_of_part(part: Part) -> Document | None:
    """The members of the provider's own text block, if it has sent one."""
    return kept_members(part.extra) if isinstance(part, OutputText) else None


def is_kept_block(item: Item) -> TypeGuard[Document]:
    match item:
        case {"type": str(kind), "format": str(name), "block": dict()}:
            return (kind, name) == (CLIENT_BLOCK, FORMAT)
    return False


# --- calls ----------------------------------------------------------------------------------------


def is_call(item: Item) -> TypeGuard[CallItem]:
    return isinstance(item, _CALLS)


def is_unfinished(item: Item) -> bool:
    """Whether a call was cut off: no client may run it."""
    return is_call(item) and item.status != "completed"


def call_block(item: CallItem, response_id: str, output_index: int) -> Document:
    """The block of a call, without its arguments."""
    call_id = wrap_call_id(item.call_id, response_id, output_index)
    name = item.name if isinstance(item, FunctionCall | CustomToolCall) else _NAMES[type(item)]
    block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return block | (kept_members(item.extra) or {}) if isinstance(item, FunctionCall) else block


def call_arguments(item: CallItem) -> str:
    """The arguments of a finished call: text of a JSON object, as the model wrote it."""
    match item:
        case FunctionCall(arguments=arguments):
            return arguments or "{}"
        case CustomToolCall(input=text):
            return _json({"input": text})
        case ShellCall(action=action) | LocalShellCall(action=action):
            return _json(action)
        case ApplyPatchCall(operation=operation):
            return _json({"operation": operation})
        case _:
            return _json(item.arguments)


def call_input(arguments: str) -> Any:
    """The arguments for a whole response. Arguments that are no JSON object are wrapped in one."""
    try:
        decoded = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        decoded = None
    if isinstance(decoded, dict):
        return msgspec.Raw(arguments.encode())  # the bytes of the model
    return {"_malformed": arguments}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# --- web searches ---------------------------------------------------------------------------------


def is_search(item: Item) -> TypeGuard[Document]:
    return isinstance(item, dict) and item.get("type") == "web_search_call"


def _search_id(item: Document) -> str:
    return OWN_SEARCH + str(item.get("id")).removeprefix("ws_")


def search_use_block(item: Document) -> Document:
    return {"type": "server_tool_use", "id": _search_id(item), "name": "web_search", "input": {}}


def search_input(item: Document) -> Document:
    """What was searched for; other actions of a search open a page."""
    action = item.get("action")
    action = action if isinstance(action, dict) else {}
    queries = action.get("queries")
    several = ", ".join(map(str, queries)) if isinstance(queries, list) else ""
    return {"query": action.get("query") or several or action.get("url") or ""}


def search_result_block(item: Document) -> Document:
    """The sources of a search, or that it has failed."""
    content: Any = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    if item.get("status") != "failed":
        action = item.get("action")
        sources = action.get("sources") if isinstance(action, dict) else None
        content = [_result(source) for source in _objects(sources)]
    return {"type": "web_search_tool_result", "tool_use_id": _search_id(item), "content": content}


def _objects(value: Any) -> list[Document]:
    """The objects in a list of the provider's, which may be of another type."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _result(source: Document) -> Document:
    url = str(source.get("url") or "")
    return {
        "type": "web_search_result",
        "url": url,
        "title": str(source.get("title") or url),
        "encrypted_content": "",
        "page_age": None,
    }


# --- tools of MCP servers -------------------------------------------------------------------------


def _mcp_id(item: Document) -> str:
    return f"mcptoolu_{str(item.get('id')).removeprefix('mcp_')}"


def _mcp_use_block(item: Document) -> Document:
    return {
        "type": "mcp_tool_use",
        "id": _mcp_id(item),
        "name": item.get("name"),
        "input": {},
        "server_name": item.get("server_label"),
    }


def _mcp_result_block(item: Document) -> Document:
    error = item.get("error")
    text = item.get("output") if error is None else _error_text(error)
    return {
        "type": "mcp_tool_result",
        "tool_use_id": _mcp_id(item),
        "is_error": error is not None,
        "content": [{"type": "text", "text": text or ""}],
    }


def _error_text(error: Any) -> str:
    match error:
        case {"message": str(text)} | {"content": [{"text": str(text)}]}:
            return text
    return _json(error)


def is_listing(item: Item) -> TypeGuard[Document]:
    """Whether an item is the list of a server's tools; one that failed has no block."""
    if not isinstance(item, dict) or item.get("type") != "mcp_list_tools":
        return False
    return not item.get("error")


def listing_block(item: Document) -> Document:
    """The list of a server's tools, as clients send it back."""
    tools = [
        {name: tool.get(name) for name in ("name", "description", "input_schema")}
        for tool in _objects(item.get("tools"))
    ]
    name = item.get("server_label")
    return {"type": "mcp_tool_listing", "mcp_server_name": name, "tools": tools}


# --- calls that a server makes --------------------------------------------------------------------


def is_server_call(item: Item) -> TypeGuard[Document]:
    return isinstance(item, dict) and item.get("type") in ("web_search_call", "mcp_call")


def server_use_block(item: Document) -> Document:
    """The block of the call, without its arguments."""
    return search_use_block(item) if is_search(item) else _mcp_use_block(item)


def server_arguments(item: Document) -> str:
    """The arguments of the call: text of a JSON object."""
    return _json(search_input(item)) if is_search(item) else str(item.get("arguments") or "{}")


def server_result_block(item: Document) -> Document:
    return search_result_block(item) if is_search(item) else _mcp_result_block(item)


# --- compactions ----------------------------------------------------------------------------------

_COMPACTED = "The conversation so far was replaced by a summary."


def is_compaction(item: Item) -> TypeGuard[Document]:
    return isinstance(item, dict) and item.get("type") == "compaction"


def compaction_block(item: Document) -> Document:
    """A compaction of the context; its sealed summary is for the gateway alone."""
    sealed = item.get("encrypted_content")
    return {"type": "compaction", "content": _COMPACTED, "encrypted_content": sealed}


# --- citations ------------------------------------------------------------------------------------


def render_citation(annotation: Document) -> Document | None:
    """A citation, with the place in the text that it belongs to; None if the format has none.

    A citation of the API belongs to a whole block. The members `start_index` and `end_index` are
    for our own dialect: a gateway behind this one keeps the place.
    """
    match annotation:
        case {"citation": dict(citation)}:
            return citation
        case {"type": "url_citation", "url": str(url)}:
            place = {
                name: annotation[name]
                for name in ("start_index", "end_index")
                if isinstance(annotation.get(name), int)
            }
            return {
                "type": "web_search_result_location",
                "cited_text": "",
                "url": url,
                "title": annotation.get("title") or url,
                "encrypted_index": "",
                **place,
            }
    return None
