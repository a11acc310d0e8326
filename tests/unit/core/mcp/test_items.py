"""Items of MCP tools, as the API has them."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.mcp.items import (
    approval_request_item,
    call_item,
    failed_result,
    list_item,
    read_list,
)
from antiphon.core.mcp.values import McpImage, McpProblem, McpResult, McpTool, McpToolList

TOOL = McpTool(name="read", description="Reads.", input_schema={"type": "object"})


def test_a_list_that_is_being_made_has_no_tools() -> None:
    assert list_item("mcpl_1", "files") == {
        "id": "mcpl_1",
        "type": "mcp_list_tools",
        "server_label": "files",
        "tools": [],
    }


def test_a_list_has_the_tools_of_the_server() -> None:
    item = list_item("mcpl_1", "files", McpToolList(tools=(TOOL,)))
    assert item["tools"] == [
        {
            "annotations": {"read_only": False},
            "description": "Reads.",
            "input_schema": {"type": "object"},
            "name": "read",
        }
    ]
    assert "error" not in item


def test_a_list_that_failed_says_why() -> None:
    problem = McpProblem(type="http_error", message="HTTP 401", code=401)
    item = list_item("mcpl_1", "files", McpToolList(problem=problem))
    assert (item["error"], item["tools"]) == ("HTTP 401", [])
    assert read_list(item) is None


def test_a_list_is_read_as_it_was_made() -> None:
    item = list_item("mcpl_1", "files", McpToolList(tools=(TOOL,)))
    assert read_list(item) == (
        McpTool(
            name="read",
            description="Reads.",
            input_schema={"type": "object"},
            annotations={"read_only": False},
        ),
    )


def test_a_listed_tool_may_have_nothing_but_its_name() -> None:
    tools = [{"name": "read", "annotations": None}, {"description": "no name"}, "no object"]
    assert read_list({"tools": tools}) == (McpTool(name="read"),)
    assert read_list({}) == ()


def test_a_call_in_progress_has_neither_arguments_nor_output() -> None:
    assert call_item("mcp_1", "files", "read") == {
        "id": "mcp_1",
        "type": "mcp_call",
        "status": "in_progress",
        "approval_request_id": None,
        "arguments": "",
        "error": None,
        "name": "read",
        "output": None,
        "server_label": "files",
    }


def ended(result: McpResult) -> dict[str, Any]:
    return call_item("mcp_1", "files", "read", arguments="{}", result=result)


def test_the_result_of_a_call_is_its_output() -> None:
    item = ended(McpResult(text="Found."))
    assert (item["status"], item["output"], item["error"]) == ("completed", "Found.", None)


def test_an_image_in_a_result_is_named() -> None:
    image = McpImage(media_type="image/png", data="AA==")
    assert (
        ended(McpResult(text="A map:", images=(image,)))["output"] == "A map:\n[image: image/png]"
    )
    assert ended(McpResult(images=(image,)))["output"] == "[image: image/png]"


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (
            McpResult(text="No file.", is_error=True),
            {
                "type": "mcp_tool_execution_error",
                "content": [{"type": "text", "text": "No file."}],
            },
        ),
        (
            McpResult(problem=McpProblem(type="mcp_tool_execution_error", message="It raised.")),
            {
                "type": "mcp_tool_execution_error",
                "content": [{"type": "text", "text": "It raised."}],
            },
        ),
        (
            McpResult(problem=McpProblem(type="http_error", message="HTTP 500", code=500)),
            {"type": "http_error", "code": 500, "message": "HTTP 500"},
        ),
        (
            failed_result("Not made."),
            {"type": "mcp_protocol_error", "code": -32603, "message": "Not made."},
        ),
    ],
)
def test_a_call_that_failed_has_an_error_and_no_output(
    result: McpResult, error: dict[str, Any]
) -> None:
    item = ended(result)
    assert (item["status"], item["output"], item["error"]) == ("failed", None, error)


def test_a_request_for_approval_has_the_whole_call() -> None:
    assert approval_request_item("mcpr_1", "files", "read", "{}") == {
        "id": "mcpr_1",
        "type": "mcp_approval_request",
        "arguments": "{}",
        "name": "read",
        "server_label": "files",
    }
