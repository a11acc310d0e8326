"""Names that Chat Completions has for members of the canonical request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from antiphon.core.items import Document
from antiphon.core.request import Request

MAX_TOKENS = ("max_completion_tokens", "max_tokens")
"""Names of the limit, the one that counts first."""
SEARCH = "web_search_options"


def sends_functions(document: Mapping[str, Any]) -> bool:
    """Whether a client is older than `tools`: it reads one call of a message, `function_call`."""
    return bool(document.get("functions")) and not document.get("tools")


_MESSAGES = "messages"
_NAMES: Mapping[str, str] = {
    "instructions": _MESSAGES,
    "text.format": "response_format",
    "text.format.type": "response_format.type",
    "text.format.schema": "response_format.json_schema.schema",
    "text.verbosity": "verbosity",
    "thinking.budget_tokens": "reasoning.max_tokens",
    "include": "logprobs",
    "message.output_text.logprobs": "logprobs",
    "call_id": "tool_call_id",
}
_INPUT = re.compile(r"(input|history)(\[\d+\].*|\..*)?")
_TOOL = re.compile(r"tools\[(?P<index>\d+)\](?:\.(?P<member>.+))?")


def own_name(path: str, request: Request) -> str:
    """Return the member that a path means. Items have no places in this format: several of them
    come of one message, and state that was kept of calls is among them."""
    if _INPUT.fullmatch(path):
        return _MESSAGES
    if (tool := _TOOL.fullmatch(path)) is not None:
        return _name_tool(int(tool["index"]), tool["member"], request.raw)
    if path in _ALTERNATIVES:
        names = _ALTERNATIVES[path]
        return next((name for name in names if name.partition(".")[0] in request.raw), names[0])
    return _NAMES.get(path, path)


_ALTERNATIVES: Mapping[str, tuple[str, ...]] = {
    "max_output_tokens": MAX_TOKENS,
    "reasoning.effort": ("reasoning_effort", "reasoning.effort"),
    "tool_choice": ("tool_choice", "function_call"),
}
"""Members with several names: the client may use any of them."""


def _name_tool(index: int, member: str | None, document: Document) -> str:
    """Name a tool: those of `tools` come first, then `functions`, then the search."""
    tools = document.get("tools") or ()
    functions = document.get("functions") or ()
    rest = "" if member is None else f".{member}"
    if index < len(tools):
        kind = tools[index]["type"]
        nested = f".{kind}" if member not in (None, "type") and kind in tools[index] else ""
        return f"tools[{index}]{nested}{rest}"
    rest = "" if member == "type" else rest  # these have none of their own
    if index < len(tools) + len(functions):
        return f"functions[{index - len(tools)}]{rest}"
    return f"{SEARCH}{rest}"
