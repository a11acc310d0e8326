"""Tool identity map: lookup in both directions, and name collisions."""

from __future__ import annotations

import pytest

from antiphon.core.tools.identity import NO_TOOLS, ToolIdentity, ToolIdentityMap
from antiphon.errors import ToolCollision

READ = ToolIdentity("mcp__files__read", "read", namespace="mcp__files")
EXEC = ToolIdentity("exec", "exec", "custom")


def test_names_are_found_in_both_directions() -> None:
    tools = ToolIdentityMap([READ, EXEC])
    assert tools.by_provider_name("mcp__files__read") == READ
    assert tools.by_requested_name("read", "mcp__files") == READ
    assert tools.by_requested_name("exec") == tools.by_provider_name("exec") == EXEC
    assert len(tools) == 2
    assert "exec" in list(tools)
    assert "exec" in tools


def test_an_undeclared_name_is_not_found() -> None:
    tools = ToolIdentityMap([READ])
    assert tools.by_provider_name("read") is None
    assert tools.by_requested_name("read") is None
    assert "read" not in tools
    assert len(NO_TOOLS) == 0


def test_the_same_tool_twice_is_one_entry() -> None:
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
def test_two_tools_with_the_same_name_are_an_error(other: ToolIdentity) -> None:
    with pytest.raises(ToolCollision) as raised:
        ToolIdentityMap([EXEC, other])
    assert raised.value.code == "bridge.request.tool_collision"
    assert "exec" in raised.value.message
