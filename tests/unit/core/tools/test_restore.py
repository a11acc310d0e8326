"""Call restoration: every tool type, and the fallback to a function call."""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.core.items import FunctionCall, ToolSearchCall
from antiphon.core.tools.identity import ToolIdentity, ToolType
from antiphon.core.tools.restore import ProviderCall, restore_tool_call
from tests.support.tables import table


def restored(kind: ToolType, arguments: str, **identity: Any) -> dict[str, Any]:
    tool = ToolIdentity("wire_name", "requested_name", kind, **identity)
    call = ProviderCall("x_1", "call_1", "wire_name", arguments, "completed")
    item: dict[str, Any] = msgspec.to_builtins(restore_tool_call(tool, call))
    return item


def function(arguments: str) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": "x_1",
        "call_id": "call_1",
        "name": "requested_name",
        "arguments": arguments,
        "status": "completed",
    }


HEAD = {"id": "x_1", "call_id": "call_1", "status": "completed"}
NO_LIMITS = {"timeout_ms": None, "max_output_length": None}
EXEC_ACTION = {"type": "exec", "command": ["ls", "-l"], "env": {}}


@table(
    ("kind", "arguments", "expected"),
    [
        ("function", '{"a":1}', function('{"a":1}')),
        ("function", "not json", function("not json")),
        ("function", "", function("")),
        (
            "shell",
            '{"commands":["ls"],"timeout_ms":5}',
            {"type": "shell_call", "action": {"commands": ["ls"], **NO_LIMITS, "timeout_ms": 5}},
        ),
        (
            "shell",
            '{"commands":[],"timeout_ms":true,"max_output_length":"9","more":1}',
            {"type": "shell_call", "action": {"commands": [], **NO_LIMITS}},
        ),
        (
            "local_shell",
            '{"command":["ls","-l"],"env":{"A":"1"}}',
            {"type": "local_shell_call", "action": EXEC_ACTION | {"env": {"A": "1"}}},
        ),
        (
            "local_shell",
            '{"cmd":["ls","-l"],"env":null,"timeout_ms":9,"user":"u","working_directory":"/w"}',
            {
                "type": "local_shell_call",
                "action": EXEC_ACTION | {"timeout_ms": 9, "user": "u", "working_directory": "/w"},
            },
        ),
        (
            "apply_patch",
            '{"operation":{"type":"update_file","path":"a","diff":"+b","more":1}}',
            {
                "type": "apply_patch_call",
                "operation": {"type": "update_file", "path": "a", "diff": "+b"},
            },
        ),
        (
            "apply_patch",
            '{"operation":{"type":"delete_file","path":"a"}}',
            {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
        ),
        (
            "custom",
            '{"input":"ls\\n"}',
            {"type": "custom_tool_call", "name": "requested_name", "input": "ls\n"},
        ),
        (
            "tool_search",
            '{"query":"files"}',
            {"type": "tool_search_call", "execution": "client", "arguments": {"query": "files"}},
        ),
        (
            "tool_search",
            "{}",
            {"type": "tool_search_call", "execution": "client", "arguments": {}},
        ),
    ],
)
def test_a_call_is_restored_to_the_requested_type(
    kind: ToolType, arguments: str, expected: dict[str, Any]
) -> None:
    assert restored(kind, arguments) == HEAD | expected


@table(
    ("kind", "arguments"),
    [
        ("shell", '{"commands":"ls"}'),
        ("shell", '{"commands":["ls",1]}'),
        ("shell", "{}"),
        ("local_shell", '{"command":"ls"}'),
        ("local_shell", "{}"),
        ("local_shell", '{"command":["ls"],"env":"A=1"}'),
        ("local_shell", '{"command":["ls"],"env":{"A":1}}'),
        ("apply_patch", '{"operation":"delete"}'),
        ("apply_patch", '{"operation":{"type":"move_file","path":"a"}}'),
        ("apply_patch", '{"operation":{"type":"create_file","path":"a"}}'),
        ("apply_patch", '{"operation":{"type":{},"path":"a"}}'),
        ("custom", '{"input":1}'),
        ("custom", '{"text":"ls"}'),
        ("tool_search", "[]"),
        *(
            (kind, broken)
            for kind in ("shell", "local_shell", "apply_patch", "custom", "tool_search")
            for broken in ("", "{", "[]", "null", "ls", '{"input":"\\ud800"}', "[" * 100_000)
        ),
    ],
)
def test_arguments_that_do_not_parse_leave_a_function_call(kind: ToolType, arguments: str) -> None:
    assert restored(kind, arguments) == function(arguments)


@table(("kind", "arguments"), [("function", "{}"), ("custom", '{"input":"x"}')])
def test_a_restored_call_has_its_namespace(kind: ToolType, arguments: str) -> None:
    item = restored(kind, arguments, namespace="mcp__files")
    assert (item["name"], item["namespace"]) == ("requested_name", "mcp__files")


def test_a_call_of_an_undeclared_tool_keeps_its_name() -> None:
    item = restore_tool_call(None, ProviderCall("fc_1", "call_1", "surprise", "{}", "completed"))
    assert msgspec.to_builtins(item)["name"] == "surprise"


# --- tool search ----------------------------------------------------------------------------------

SEARCH = ToolIdentity("tool_search", "tool_search", "tool_search")


def call(arguments: str) -> ProviderCall:
    return ProviderCall("tsc_1", "call_1", "tool_search", arguments, "completed")


def test_a_tool_search_call_has_an_object_for_arguments() -> None:
    item = restore_tool_call(SEARCH, call('{"query": "echo", "limit": 3}'))
    assert msgspec.to_builtins(item) == {
        "type": "tool_search_call",
        "id": "tsc_1",
        "call_id": "call_1",
        "execution": "client",
        "arguments": {"query": "echo", "limit": 3},
        "status": "completed",
    }


def test_a_tool_search_without_arguments_is_a_tool_search_call() -> None:
    assert isinstance(restore_tool_call(SEARCH, call("{}")), ToolSearchCall)


@table("arguments", ["", "{", "[]", "null", '"echo"'])
def test_a_tool_search_whose_arguments_are_no_object_stays_a_function_call(arguments: str) -> None:
    item = restore_tool_call(SEARCH, call(arguments))
    assert isinstance(item, FunctionCall)
    assert (item.name, item.arguments) == ("tool_search", arguments)
