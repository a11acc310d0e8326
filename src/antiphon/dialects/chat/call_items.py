"""Calls of a canonical response as calls of Chat Completions."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from antiphon.core.items import (
    ApplyPatchCall,
    CustomToolCall,
    Document,
    FunctionCall,
    Item,
    LocalShellCall,
    ShellCall,
    ToolSearchCall,
)
from antiphon.dialects.chat.client_call_ids import SealedStates, write_call_id


class Call(NamedTuple):
    """A call that this format can show."""

    item: str
    """The id of its item."""
    call_id: str
    name: str
    arguments: str
    kind: Literal["function", "custom"] = "function"

    @property
    def member(self) -> str:
        """The member that holds the arguments."""
        return "arguments" if self.kind == "function" else "input"

    def render(self, sealed: SealedStates, arguments: str | None = None) -> Document:
        """Render the call; its id carries the sealed states, and `arguments` replaces those of the
        call."""
        given = self.arguments if arguments is None else arguments
        return {
            "id": write_call_id(self.call_id, self.item, sealed),
            "type": self.kind,
            self.kind: {"name": self.name, self.member: given},
        }


def read_call(item: Item) -> Call | None:
    """Read the call in an output item; None if it is another item."""
    match item:
        case FunctionCall(id=item_id, call_id=call_id, name=name, arguments=arguments):
            return Call(item_id, call_id, name, arguments or _if_done(item.status))
        case CustomToolCall(id=item_id, call_id=call_id, name=name, input=given):
            return Call(item_id, call_id, name, given, "custom")
        case ShellCall(id=item_id, call_id=call_id, action=action):
            return Call(item_id, call_id, "shell", _encode(action))
        case LocalShellCall(id=item_id, call_id=call_id, action=action):
            return Call(item_id, call_id, "local_shell", _encode(action))
        case ApplyPatchCall(id=item_id, call_id=call_id, operation=operation):
            return Call(item_id, call_id, "apply_patch", _encode({"operation": operation}))
        case ToolSearchCall(id=item_id, call_id=call_id, arguments=arguments):
            return Call(item_id, call_id, "tool_search", _encode(arguments))
    return None


def _if_done(status: str) -> str:
    """Return the arguments of a finished call without any: clients expect a JSON object."""
    return "{}" if status == "completed" else ""


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()
