"""Call restoration: a provider's function call as the item type that the client declared.

A call whose arguments do not parse as its type requires stays a `function_call`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from antiphon.core.tools.identity import ToolIdentity, ToolType
from antiphon.wire.items import (
    ApplyPatchCall,
    CallItem,
    CustomToolCall,
    Document,
    FunctionCall,
    LocalShellCall,
    ShellCall,
    Status,
    ToolSearchCall,
)


class ProviderCall(Struct, frozen=True):
    """A function call as the provider sent it."""

    id: str
    call_id: str
    name: str
    arguments: str
    status: Status


def restore_tool_call(identity: ToolIdentity | None, call: ProviderCall) -> CallItem:
    """Restore the item type that the client declared, or fall back to a function call."""
    if identity is not None and (restorer := _RESTORERS.get(identity.requested_type)):
        item = restorer(identity, call)
        if item is not None:
            return item
    return as_function_call(identity, call)


def as_function_call(identity: ToolIdentity | None, call: ProviderCall) -> FunctionCall:
    return FunctionCall(
        id=call.id,
        call_id=call.call_id,
        name=identity.requested_name if identity else call.name,
        arguments=call.arguments,
        status=call.status,
        namespace=identity.namespace or UNSET if identity else UNSET,
    )


def as_custom_call(identity: ToolIdentity | None, call: ProviderCall, text: str) -> CustomToolCall:
    return CustomToolCall(
        id=call.id,
        call_id=call.call_id,
        name=identity.requested_name if identity else call.name,
        input=text,
        status=call.status,
        namespace=identity.namespace or UNSET if identity else UNSET,
    )


def _object(call: ProviderCall) -> dict[str, Any] | None:
    try:
        arguments = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def _arguments(call: ProviderCall) -> Mapping[str, Any]:
    return _object(call) or {}


def _strings(value: object) -> list[str] | None:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return value
    return None


def _optional(arguments: Mapping[str, Any], kinds: Mapping[str, type]) -> dict[str, Any]:
    return {
        name: arguments[name]
        for name, kind in kinds.items()
        if isinstance(arguments.get(name), kind) and not isinstance(arguments[name], bool)
    }


def _custom(identity: ToolIdentity, call: ProviderCall) -> CallItem | None:
    text = _arguments(call).get("input")
    return as_custom_call(identity, call, text) if isinstance(text, str) else None


def _shell(identity: ToolIdentity, call: ProviderCall) -> CallItem | None:
    arguments = _arguments(call)
    commands = _strings(arguments.get("commands"))
    if commands is None:
        return None
    limits = {"timeout_ms": None, "max_output_length": None}
    given = _optional(arguments, {"timeout_ms": int, "max_output_length": int})
    action: Document = {"commands": commands, **limits, **given}
    return ShellCall(id=call.id, call_id=call.call_id, action=action, status=call.status)


def _local_shell(identity: ToolIdentity, call: ProviderCall) -> CallItem | None:
    arguments = _arguments(call)
    command = _strings(arguments.get("command", arguments.get("cmd")))
    if command is None:
        return None
    env = arguments.get("env")
    action: Document = {
        "type": "exec",
        "command": command,
        "env": {k: v for k, v in env.items() if isinstance(v, str)}
        if isinstance(env, dict)
        else {},
        **_optional(arguments, {"timeout_ms": int, "user": str, "working_directory": str}),
    }
    return LocalShellCall(id=call.id, call_id=call.call_id, action=action, status=call.status)


_OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "create_file": ("path", "diff"),
    "update_file": ("path", "diff"),
    "delete_file": ("path",),
}


def _apply_patch(identity: ToolIdentity, call: ProviderCall) -> CallItem | None:
    operation = _arguments(call).get("operation")
    if not isinstance(operation, dict):
        return None
    fields = _OPERATIONS.get(str(operation.get("type")))
    if fields is None or not all(isinstance(operation.get(name), str) for name in fields):
        return None
    kept = {name: operation[name] for name in ("type", *fields)}
    return ApplyPatchCall(id=call.id, call_id=call.call_id, operation=kept, status=call.status)


def _tool_search(identity: ToolIdentity, call: ProviderCall) -> CallItem | None:
    arguments = _object(call)
    if arguments is None:
        return None
    return ToolSearchCall(id=call.id, call_id=call.call_id, arguments=arguments, status=call.status)


_RESTORERS: Mapping[ToolType, Callable[[ToolIdentity, ProviderCall], CallItem | None]] = {
    "custom": _custom,
    "shell": _shell,
    "local_shell": _local_shell,
    "apply_patch": _apply_patch,
    "tool_search": _tool_search,
}
