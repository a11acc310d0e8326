"""Items of MCP tools: `mcp_list_tools`, `mcp_call`, `mcp_approval_request`, as the API has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon.core.items import Document
from antiphon.core.mcp.toolset import is_read_only, read_tools
from antiphon.core.mcp.values import McpProblem, McpResult, McpTool, McpToolList

LIST = "mcp_list_tools"
CALL = "mcp_call"
APPROVAL_REQUEST = "mcp_approval_request"
APPROVAL_RESPONSE = "mcp_approval_response"


def list_item(item_id: str, label: str, found: McpToolList | None = None) -> Document:
    """The list of a server's tools; None: it is being made."""
    tools = [_tool_document(tool) for tool in found.tools] if found else []
    item: Document = {"id": item_id, "type": LIST, "server_label": label, "tools": tools}
    if found is not None and found.problem is not None:
        item["error"] = found.problem.message
    return item


def _tool_document(tool: McpTool) -> Document:
    return {
        "annotations": {"read_only": is_read_only(tool)},
        "description": tool.description,
        "input_schema": dict(tool.input_schema),
        "name": tool.name,
    }


def read_list(item: Mapping[str, Any]) -> tuple[McpTool, ...] | None:
    """Read a list in the history; None: it failed."""
    if item.get("error"):
        return None
    return read_tools(item.get("tools"))


def call_item(
    item_id: str,
    label: str,
    tool: str,
    *,
    approval_request_id: str | None = None,
    arguments: str = "",
    result: McpResult | None = None,
) -> Document:
    """A call; without a result it is in progress."""
    error = None if result is None else _error_document(result)
    ended = "completed" if error is None else "failed"
    return {
        "id": item_id,
        "type": CALL,
        "status": "in_progress" if result is None else ended,
        "approval_request_id": approval_request_id,
        "arguments": arguments,
        "error": error,
        "name": tool,
        "output": _output_text(result) if result is not None and error is None else None,
        "server_label": label,
    }


def _output_text(result: McpResult) -> str:
    """The text of a result; an image, which the item cannot hold, is named."""
    images = [f"[image: {each.media_type}]" for each in result.images]
    return "\n".join(filter(None, (result.text, *images)))


_DEFAULT_CODES = {"mcp_protocol_error": -32603, "http_error": 502}


def _error_document(result: McpResult) -> Document | None:
    problem = result.problem
    if problem is None:
        if not result.is_error:
            return None
        content = [{"type": "text", "text": result.text}]
        return {"type": "mcp_tool_execution_error", "content": content}
    if problem.type not in _DEFAULT_CODES:
        content = [{"type": "text", "text": problem.message}]
        return {"type": "mcp_tool_execution_error", "content": content}
    code = _DEFAULT_CODES[problem.type] if problem.code is None else problem.code
    return {"type": problem.type, "code": code, "message": problem.message}


def approval_request_item(item_id: str, label: str, tool: str, arguments: str) -> Document:
    return {
        "id": item_id,
        "type": APPROVAL_REQUEST,
        "arguments": arguments,
        "name": tool,
        "server_label": label,
    }


def failed_result(message: str) -> McpResult:
    """The result of a call that was not made."""
    return McpResult(problem=McpProblem(type="mcp_protocol_error", message=message))
