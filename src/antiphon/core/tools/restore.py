"""Call restoration: a provider's function call as the item type that the client declared.

A call whose arguments do not parse as its type requires stays a `function_call`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from antiphon.core.items import (
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
from antiphon.core.tools.identity import ToolIdentity, ToolType


class ProviderCall(Struct, frozen=True):
    """A function call as the provider sent it."""

    id: str
    call_id: str
    name: str
    arguments: str
    status: Status = "completed"
    extra: Document | UnsetType = UNSET


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
        extra=call.extra,
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


def _parse_object(call: ProviderCall) -> dict[str, Any] | None:
    try:
        arguments = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def _parse_arguments(call: ProviderCall) -> Mapping[str, Any]:
    return _parse_object(call) or {}


def _string_list(value: object) -> list[str] | None:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return value
    return None


def _string_map(value: object) -> dict[str, str] | None:
    """An object whose values are strings; without a value, an empty one."""
    if value is None:
        return {}
    if isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
        return value
    return None


def _optional_fields(arguments: Mapping[str, Any], kinds: Mapping[str, type]) -> dict[str, Any]:
    return {
        name: arguments[name]
        for name, kind in kinds.items()
        if isinstance(arguments.get(name), kind) and not isinstance(arguments[name], bool)
    }


def _restore_custom(identity: ToolIdentity, call: ProviderCall) -> CallItem | None:
    text = _parse_arguments(call).get("input")
    return as_custom_call(identity, call, text) if isinstance(text, str) else None


def _restore_shell(identity: ToolIdentity, call: ProviderCall) -> CallItem | None:
    arguments = _parse_arguments(call)
    commands = _string_list(arguments.get("commands"))
    if commands is None:
        return None
    limits = {"timeout_ms": None, "max_output_length": None}
    given = _optional_fields(arguments, {"timeout_ms": int, "max_output_length": int})
    action: Document = {"commands": commands, **limits, **given}
    return ShellCall(id=call.id, call_id=call.call_id, action=action, status=call.status)


def _restore_local_shell(identity: ToolIdentity, call: ProviderCall) -> CallItem | None:
    arguments = _parse_arguments(call)
    command = _string_list(arguments.get("command", arguments.get("cmd")))
    env = _string_map(arguments.get("env"))
    if command is None or env is None:
        return None
    action: Document = {
        "type": "exec",
        "command": command,
        "env": env,
        **_optional_fields(arguments, {"timeout_ms": int, "user": str, "working_directory": str}),
    }
    return LocalShellCall(id=call.id, call_id=call.call_id, action=action, status=call.status)


_OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "create_file": ("path", "diff"),
    "update_file": ("path", "diff"),
    "delete_file": ("path",),
}


def _restore_apply_patch(identity: ToolIdentity, call: ProviderCall) -> CallItem | None:
    operation = _parse_arguments(call).get("operation")
    if not isinstance(operation, dict):
        return None
    fields = _OPERATIONS.get(str(operation.get("type")))
    if fields is None or not all(isinstance(operation.get(name), str) for name in fields):
        return None
    operation_fields = {name: operation[name] for name in ("type", *fields)}
    return ApplyPatchCall(
        id=call.id, call_id=call.call_id, operation=operation_fields, status=call.status
    )


def _restore_tool_search(identity: ToolIdentity, call: ProviderCall) -> CallItem | None:
    arguments = _parse_object(call)
    if arguments is None:
        return None
    return ToolSearchCall(id=call.id, call_id=call.call_id, arguments=arguments, status=call.status)


_RESTORERS: Mapping[ToolType, Callable[[ToolIdentity, ProviderCall], CallItem | None]] = {
    "custom": _restore_custom,
    "shell": _restore_shell,
    "local_shell": _restore_local_shell,
    "apply_patch": _restore_apply_patch,
    "tool_search": _restore_tool_search,
}
