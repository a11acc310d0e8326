"""Calls of MCP servers that the gateway makes for a response: lists of tools, and calls of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from antiphon.core.deltas import Delta, RawItem, RawItemEvent, RawItemStarted
from antiphon.core.diagnostic import Code, Diagnostic, degraded, ignored
from antiphon.core.filters.gateway_call import GatewayCall
from antiphon.core.history.steps import ImagePart, MessageStep, Step, TextPart
from antiphon.core.items import Document
from antiphon.core.mcp.items import CALL, LIST, call_item, failed_result, list_item
from antiphon.core.mcp.values import McpProblem, McpResult, McpServer, McpToolList

UNREADABLE = "The call was not made: its arguments are not a JSON object."
_SHOWN_TOOLS = 5
_INTERRUPTED = "The server was not asked, because the response ended."


class ServerCall(GatewayCall, frozen=True, kw_only=True):
    """A call of a server. Its `call_id` is the id of its item."""

    server: McpServer
    number: int
    """Identifies the item while it is open; negative, as no provider numbers its items."""

    def _event(self, kind: str, stage: str, **fields: Any) -> RawItemEvent:
        event = {"item_id": self.call_id, **fields}
        return RawItemEvent(self.number, f"response.{kind}.{stage}", event)


class ListToolsCall(ServerCall, frozen=True, kw_only=True):
    """A list of a server's tools."""

    def announce(self) -> Sequence[Delta]:
        item = list_item(self.call_id, self.server.label)
        return [
            RawItemStarted(self.number, item, held=True),
            self._event(LIST, "in_progress"),
        ]

    def end(self, found: McpToolList) -> list[Delta]:
        """Return what the client gets of the list."""
        stage = "completed" if found.problem is None else "failed"
        item = list_item(self.call_id, self.server.label, found)
        return [self._event(LIST, stage), RawItem(item, self.number)]

    def fail(self) -> McpToolList:
        return McpToolList(problem=McpProblem(type="http_error", message=_INTERRUPTED))


class ToolCallRequest(ServerCall, frozen=True, kw_only=True):
    """A call of a server's tool."""

    tool: str
    arguments: str
    """As the model wrote them."""
    values: Mapping[str, Any] | None = None
    """The same, parsed; None: they are not a JSON object, and no server gets them."""
    approval_request_id: str | None = None
    is_announced: bool = True
    """The client has seen it begin, while the model wrote its arguments."""

    def announce(self) -> Sequence[Delta]:
        return [] if self.is_announced else [*self.begin(), *self.end_arguments()]

    def begin(self) -> list[Delta]:
        """Return what the client gets when the name of the tool is known."""
        return [
            RawItemStarted(self.number, self._item(), held=True),
            self._event(CALL, "in_progress"),
        ]

    def add_arguments(self, text: str) -> list[Delta]:
        """Return what the client gets of a piece of the arguments."""
        return [self._event(f"{CALL}_arguments", "delta", delta=text)] if text else []

    def end_arguments(self) -> list[Delta]:
        """Return what the client gets when the arguments are complete."""
        return [self._event(f"{CALL}_arguments", "done", arguments=self.arguments)]

    def end(self, result: McpResult) -> list[Delta]:
        """Return what the client gets of the result."""
        item = self._item(result)
        return [self._event(CALL, item["status"]), RawItem(item, self.number)]

    def fail(self) -> McpResult:
        return failed_result(_INTERRUPTED)

    def _item(self, result: McpResult | None = None) -> Document:
        return call_item(
            self.call_id,
            self.server.label,
            self.tool,
            approval_request_id=self.approval_request_id,
            arguments="" if result is None else self.arguments,
            result=result,
        )


def note_left_out(label: str, found: McpToolList) -> Diagnostic:
    """Report tools of a server that the model is not offered."""
    names = ", ".join(map(repr, found.left_out[:_SHOWN_TOOLS]))
    more = len(found.left_out) - _SHOWN_TOOLS
    message = (
        f"Tools of the MCP server {label!r} exceed a limit of the gateway ([mcp]) and are left out:"
        f" {names}{f' and {more} more' if more > 0 else ''}."
    )
    return ignored(Code.TOOL_IGNORED, "tools", message, "mcp")


def note_result(call: ToolCallRequest, result: McpResult) -> list[Diagnostic]:
    """Report what the client would not find in the items."""
    if not result.left_out:
        return []
    message = (
        f"The result of {call.tool!r} of the MCP server {call.server.label!r} exceeds a limit of"
        f" the gateway ([mcp]); {result.left_out} of it were left out."
    )
    return [degraded(Code.MCP_RESULT_CUT, "tools", message, "mcp")]


def show_images(call: ToolCallRequest, result: McpResult) -> Step:
    """The images of a result, as the user's: few providers take images in results of calls."""
    images = (ImagePart(f"data:{each.media_type};base64,{each.data}") for each in result.images)
    return MessageStep("user", (TextPart(f"[images in the result of {call.tool}]"), *images))


def parse_arguments(text: str) -> dict[str, Any] | None:
    """Parse the arguments of a call; None: they are not a JSON object."""
    try:
        given = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        return None
    return given if isinstance(given, dict) else None
