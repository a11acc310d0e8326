"""Who a tool is on both sides, and what its calls become."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from antiphon.core.tools.identity import NO_TOOLS, ToolIdentity, ToolIdentityMap, ToolType
from antiphon.core.tools.restore import Call, restore
from antiphon.errors import ToolCollision

READ = ToolIdentity("mcp__files__read", "read", namespace="mcp__files")
EXEC = ToolIdentity("exec", "exec", "custom")


def test_names_are_found_in_both_directions() -> None:
    tools = ToolIdentityMap([READ, EXEC])
    assert tools.restored("mcp__files__read") == READ
    assert tools.declared("read", "mcp__files") == READ
    assert tools.declared("exec") == tools.restored("exec") == EXEC
    assert len(tools) == 2
    assert "exec" in list(tools)
    assert "exec" in tools


def test_a_name_nobody_declared_is_nobody() -> None:
    tools = ToolIdentityMap([READ])
    assert tools.restored("read") is None
    assert tools.declared("read") is None
    assert "read" not in tools
    assert len(NO_TOOLS) == 0


def test_a_tool_of_the_history_has_a_provider_name_although_it_is_not_declared() -> None:
    tools = ToolIdentityMap([ToolIdentity("files_read", "read", namespace="mcp__files")])
    assert tools.name_for_provider("read", "mcp__files") == "files_read"
    assert tools.name_for_provider("write", "mcp__files") == "mcp__files__write"


def test_the_same_tool_twice_is_one_tool() -> None:
    assert len(ToolIdentityMap([EXEC, EXEC])) == 1


@pytest.mark.parametrize(
    "other",
    [
        ToolIdentity("exec", "other"),
        ToolIdentity("exec", "exec", "function"),
        ToolIdentity("exec", "exec", "custom", namespace="n"),
        ToolIdentity("exec_2", "exec", "custom"),
    ],
)
def test_two_tools_under_one_name_are_an_error(other: ToolIdentity) -> None:
    with pytest.raises(ToolCollision) as raised:
        ToolIdentityMap([EXEC, other])
    assert raised.value.code == "bridge.request.tool_collision"
    assert "exec" in raised.value.message


def restored(kind: ToolType, arguments: str, **identity: Any) -> dict[str, Any]:
    tool = ToolIdentity("wire_name", "asked_name", kind, **identity)
    call = Call("x_1", "call_1", "wire_name", arguments, "completed")
    item: dict[str, Any] = msgspec.to_builtins(restore(tool, call))
    return item


def function(arguments: str) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": "x_1",
        "call_id": "call_1",
        "name": "asked_name",
        "arguments": arguments,
        "status": "completed",
    }


HEAD = {"id": "x_1", "call_id": "call_1", "status": "completed"}
NO_LIMITS = {"timeout_ms": None, "max_output_length": None}
EXEC_ACTION = {"type": "exec", "command": ["ls", "-l"], "env": {}}


@pytest.mark.parametrize(
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
            '{"command":["ls","-l"],"env":{"A":"1","B":2}}',
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
            {"type": "custom_tool_call", "name": "asked_name", "input": "ls\n"},
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
def test_a_call_is_restored_to_the_type_that_was_asked_for(
    kind: ToolType, arguments: str, expected: dict[str, Any]
) -> None:
    assert restored(kind, arguments) == HEAD | expected


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("shell", '{"commands":"ls"}'),
        ("shell", '{"commands":["ls",1]}'),
        ("shell", "{}"),
        ("local_shell", '{"command":"ls"}'),
        ("local_shell", "{}"),
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
def test_what_does_not_parse_as_agreed_stays_a_function_call(
    kind: ToolType, arguments: str
) -> None:
    assert restored(kind, arguments) == function(arguments)


@pytest.mark.parametrize(("kind", "arguments"), [("function", "{}"), ("custom", '{"input":"x"}')])
def test_a_namespace_comes_back_beside_the_name(kind: ToolType, arguments: str) -> None:
    item = restored(kind, arguments, namespace="mcp__files")
    assert (item["name"], item["namespace"]) == ("asked_name", "mcp__files")


def test_a_call_of_a_tool_nobody_declared_keeps_its_name() -> None:
    item = restore(None, Call("fc_1", "call_1", "surprise", "{}", "completed"))
    assert msgspec.to_builtins(item)["name"] == "surprise"
