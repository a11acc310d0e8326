"""Names that Messages has for members of the canonical request."""

from __future__ import annotations

import re
from collections.abc import Mapping

from antiphon.core.request import Request
from antiphon.dialects.anthropic.parse_errors import mapping
from antiphon.dialects.anthropic.parse_mcp import SERVERS, is_switched_on

_MESSAGES = "messages"
_NAMES: Mapping[str, str] = {
    "instructions": "system",
    "max_output_tokens": "max_tokens",
    "stop": "stop_sequences",
    "user": "metadata.user_id",
    "prompt_cache_key": "metadata.user_id",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "max_tool_calls": "tools.max_uses",
    "context_edits": "context_management.edits",
    "previous_response_id": "thread.previous_message_id",
    "call_id": "tool_use_id",
    "encrypted_content": "signature",
}
_TOOL_MEMBERS: Mapping[str, str] = {"parameters": "input_schema"}
_SERVER_MEMBERS: Mapping[str, str] = {
    "server_label": "name",
    "server_url": "url",
    "authorization": "authorization_token",
    "allowed_tools": "tool_configuration.allowed_tools",
}
_INPUT = re.compile(r"(input|history)(?:\[(?P<index>\d+)\].*|\..*)?")
_TOOL = re.compile(r"tools\[(?P<index>\d+)\](?:\.(?P<member>.+))?")
_FORMAT = "text.format"


def own_name(path: str, request: Request) -> str:
    """Return the member that a path means, as the API writes it: `messages.3.content.0`."""
    if (item := _INPUT.fullmatch(path)) is not None:
        is_own = path.startswith("input[")
        return _name_item(int(item["index"]), request) if is_own else _MESSAGES
    if (tool := _TOOL.fullmatch(path)) is not None:
        return _name_tool(int(tool["index"]), tool["member"], request)
    if path == "prefill":
        return f"{_MESSAGES}.{len(request.raw[_MESSAGES]) - 1}"
    if path == "reasoning.effort":
        config = mapping(request.raw.get("output_config"))
        return "output_config.effort" if config.get("effort") is not None else "thinking"
    if path.startswith(_FORMAT):
        own = "output_format" if "output_format" in request.raw else "output_config.format"
        return own + path.removeprefix(_FORMAT)
    return _NAMES.get(path, path)


def _name_item(index: int, request: Request) -> str:
    """Name the block that an item was read from."""
    if index >= len(request.input):
        return _MESSAGES
    message, block = request.input[index]["place"]
    member = "system" if message < 0 else f"{_MESSAGES}.{message}.content"
    whole = request.raw["system"] if message < 0 else request.raw[_MESSAGES][message]["content"]
    return member if isinstance(whole, str) else f"{member}.{block}"


def _name_tool(index: int, member: str | None, request: Request) -> str:
    """Name a tool: those of `tools` come first, then the servers that are switched on."""
    tools = request.raw.get("tools") or ()
    if index < len(tools):
        return _join(f"tools.{index}", member, _TOOL_MEMBERS)
    servers = request.raw.get(SERVERS) or ()
    used = [at for at, server in enumerate(servers) if is_switched_on(server)]
    if index - len(tools) >= len(used):  # one of the response that the thread continues
        return "tools"
    return _join(f"{SERVERS}.{used[index - len(tools)]}", member, _SERVER_MEMBERS)


def _join(path: str, member: str | None, names: Mapping[str, str]) -> str:
    return path if member is None else f"{path}.{names.get(member, member)}"
