"""An `mcp` tool of a request: which tools of its server may be called, and which need approval."""

from __future__ import annotations

from typing import Any

from antiphon.core.mcp.toolset import McpPlan, McpToolset, is_read_only, read_toolset
from antiphon.core.mcp.values import McpTool
from tests.support.mcp.value_servers import ValueRules
from tests.support.tables import table

READ = McpTool(name="read", annotations={"readOnlyHint": True})
WRITE = McpTool(name="write", annotations={"readOnlyHint": False})
LISTED = McpTool(name="listed", annotations={"read_only": True})


def toolset(**fields: Any) -> McpToolset:
    return read_toolset({"type": "mcp", "server_label": "files", **fields}, ValueRules())


def allowed(**fields: Any) -> list[str]:
    return [tool.name for tool in (READ, WRITE, LISTED) if toolset(**fields).allows(tool)]


def needing_approval(value: Any) -> list[str]:
    approval = toolset(require_approval=value).approval
    return [tool.name for tool in (READ, WRITE, LISTED) if approval.is_needed(tool)]


def test_a_server_has_its_label_url_and_description() -> None:
    found = toolset(server_url="https://files.example/mcp", server_description="Files.")
    assert (found.label, found.server.url) == ("files", "https://files.example/mcp")
    assert found.description == "Files."
    assert found.document["server_label"] == "files"


def test_a_server_without_a_url_is_one_of_the_configuration() -> None:
    assert (toolset().server.url, toolset().server.headers) == ("", {})


@table(
    ("fields", "expected"),
    [
        ({"headers": {"X-Team": "a"}}, {"X-Team": "a"}),
        ({"authorization": "token"}, {"Authorization": "Bearer token"}),
        ({"authorization": "Bearer token"}, {"Authorization": "Bearer token"}),
        (
            {"authorization": "new", "headers": {"authorization": "old", "X-Team": "a"}},
            {"X-Team": "a", "Authorization": "Bearer new"},
        ),
    ],
)
def test_an_authorization_is_a_header(fields: dict[str, Any], expected: dict[str, str]) -> None:
    assert toolset(**fields).server.headers == expected


def test_all_tools_are_allowed_unless_they_are_restricted() -> None:
    assert allowed() == ["read", "write", "listed"]
    assert allowed(allowed_tools=None) == ["read", "write", "listed"]


def test_tools_are_allowed_by_name() -> None:
    assert allowed(allowed_tools=["write"]) == ["write"]
    assert allowed(allowed_tools=[]) == []
    assert allowed(allowed_tools={"tool_names": ["read", "write"]}) == ["read", "write"]


def test_tools_are_allowed_by_what_they_change() -> None:
    assert allowed(allowed_tools={"read_only": True}) == ["read", "listed"]
    assert allowed(allowed_tools={"read_only": False}) == ["write"]
    assert allowed(allowed_tools={"read_only": True, "tool_names": ["read", "write"]}) == ["read"]


def test_tools_are_disabled_by_name() -> None:
    assert allowed(toolset={"disabled": ["read"]}) == ["write", "listed"]
    assert allowed(toolset={"disabled": ["read"]}, allowed_tools=["read", "write"]) == ["write"]


def test_a_client_may_list_the_tools() -> None:
    assert toolset().listed is None
    found = toolset(toolset={"listed": [{"name": "read", "description": "Reads."}, {}, 1]})
    assert found.listed == (McpTool(name="read", description="Reads."),)


def test_a_tool_without_annotations_may_change_something() -> None:
    assert not is_read_only(McpTool(name="other"))


@table("value", [None, "always", {}, {"always": {"tool_names": ["read"]}}])
def test_approval_is_needed_unless_the_request_says_otherwise(value: Any) -> None:
    assert needing_approval(value) == ["read", "write", "listed"]


def test_approval_may_be_needed_for_no_tool() -> None:
    assert needing_approval("never") == []


def test_the_operator_decides_if_the_request_does_not_say() -> None:
    tool = {"type": "mcp", "server_label": "files"}
    assert read_toolset(tool, ValueRules(approval=False)).approval.mode == "never"
    asking = {**tool, "require_approval": "always"}
    assert read_toolset(asking, ValueRules(approval=False)).approval.mode == "always"


def test_approval_may_be_needed_for_some_tools() -> None:
    assert needing_approval({"never": {"read_only": True}}) == ["write"]
    both = {"never": {"read_only": True}, "always": {"tool_names": ["read"]}}
    assert needing_approval(both) == ["read", "write"]


def test_a_plan_needs_servers_first_if_a_list_or_an_approved_call_is_missing() -> None:
    assert not McpPlan(toolsets=(toolset(),)).needs_opening
    assert McpPlan(unlisted=(toolset(),)).needs_opening
