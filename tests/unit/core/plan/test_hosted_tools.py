"""Hosted tools that nobody can run: refused, unless the operator or a profile allows them."""

from __future__ import annotations

from typing import Any

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.hosted_tools import (
    HostedToolPolicy,
    family,
    reason_unavailable,
    refuse_search,
    refuse_tool,
    runs_in_container,
)
from tests.support.tables import table

CAN = Capabilities(model_name="up/model")


@table(
    ("policy", "refused"),
    [
        (HostedToolPolicy(), True),
        (HostedToolPolicy("ignore"), False),
        (HostedToolPolicy(optional=frozenset({"web_search"})), False),
        (HostedToolPolicy(optional=frozenset({"mcp"})), True),
    ],
)
def test_a_policy_refuses_tools_that_are_not_optional(
    policy: HostedToolPolicy, refused: bool
) -> None:
    assert policy.refuses("web_search_preview") is refused


def test_the_reason_names_what_the_gateway_lacks() -> None:
    assert "MCP" in reason_unavailable("mcp")
    assert "computer" in reason_unavailable("computer_use_preview")
    assert "'telepathy'" in reason_unavailable("telepathy")
    assert family("computer_use_preview") == "computer"
    assert family("code_execution_20250825") == "code_execution"
    assert family("web_fetch_20250910") == "web_fetch"


@table(
    ("tool", "expected"),
    [
        ({}, False),
        ({"environment": None}, False),
        ({"environment": {"type": "local"}}, False),
        ({"environment": {"type": "container_auto"}}, True),
    ],
)
def test_a_shell_runs_at_the_client_unless_it_names_a_container(
    tool: dict[str, Any], expected: bool
) -> None:
    assert runs_in_container(tool) is expected


def test_the_error_names_the_tool_the_model_and_the_setting() -> None:
    error = refuse_tool("mcp", "tools[0].type", "the reason", CAN)
    assert (error.status, error.param, error.wire_code) == (
        400,
        "tools[0].type",
        "unsupported_parameter",
    )
    for text in ("'mcp'", "the reason", "up/model", "`hosted_tools`", "[compatibility]"):
        assert text in error.message


def test_the_error_of_a_search_names_the_settings_of_searches() -> None:
    error = refuse_tool("web_search", "tools[0].type", "the reason", CAN)
    for text in ("'web_search'", "`backend`", "[search]", "`web_search` in [providers.up]"):
        assert text in error.message
    managed = Capabilities(model_name="up/model", web_search="managed")
    message = refuse_search("web_search", "tools", "the reason", managed).message
    assert "restriction" in message
    assert "`backend`" not in message
