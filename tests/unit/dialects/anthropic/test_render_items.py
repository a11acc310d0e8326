"""Output items as content blocks."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from antiphon.core.items import (
    ApplyPatchCall,
    CallItem,
    CustomToolCall,
    FunctionCall,
    LocalShellCall,
    ShellCall,
    ToolSearchCall,
)
from antiphon.dialects.anthropic.render_items import (
    call_arguments,
    call_block,
    call_input,
    is_call,
    is_search,
    is_server_call,
    is_unfinished,
    listing_block,
    render_citation,
    search_input,
    search_result_block,
    server_arguments,
    server_result_block,
    server_use_block,
)
from tests.support.tables import table

Document = dict[str, Any]


def function(arguments: str = "{}", status: Any = "completed") -> FunctionCall:
    return FunctionCall(id="fc_1", call_id="a", name="f", arguments=arguments, status=status)


CALL: Document = {"id": "x_1", "call_id": "a", "status": "completed"}


@table(
    ("item", "name", "arguments"),
    [
        (function(""), "f", {}),
        (CustomToolCall(**CALL, name="exec", input="ls"), "exec", {"input": "ls"}),
        (ShellCall(**CALL, action={"commands": []}), "shell", {"commands": []}),
        (LocalShellCall(**CALL, action={"command": []}), "local_shell", {"command": []}),
        (ApplyPatchCall(**CALL, operation={"a": 1}), "apply_patch", {"operation": {"a": 1}}),
        (ToolSearchCall(**CALL, arguments={"query": "q"}), "tool_search", {"query": "q"}),
    ],
)
def test_every_call_is_a_tool_use(item: CallItem, name: str, arguments: Document) -> None:
    block = call_block(item, "resp_1", 0)
    assert (block["type"], block["name"]) == ("tool_use", name)
    assert json.loads(call_arguments(item)) == arguments
    assert is_call(item)


def test_arguments_keep_the_bytes_of_the_model() -> None:
    assert msgspec.json.encode(call_input('{"a": 1.0}')) == b'{"a": 1.0}'


@table("arguments", ['{"a"', "[]", "[" * 5000])
def test_arguments_that_are_no_object_are_kept_inside_of_one(arguments: str) -> None:
    assert call_input(arguments) == {"_malformed": arguments}


MCP_CALL: Document = {
    "type": "mcp_call",
    "id": "mcp_1",
    "name": "weather",
    "server_label": "sky",
    "arguments": '{"city":"Ulm"}',
    "output": "Sunny.",
    "error": None,
}


def test_a_call_of_an_mcp_server_is_a_use_and_its_result() -> None:
    assert is_server_call(MCP_CALL)
    assert server_use_block(MCP_CALL) == {
        "type": "mcp_tool_use",
        "id": "mcptoolu_1",
        "name": "weather",
        "input": {},
        "server_name": "sky",
    }
    assert server_arguments(MCP_CALL) == '{"city":"Ulm"}'
    assert server_arguments({**MCP_CALL, "arguments": ""}) == "{}"
    assert server_result_block(MCP_CALL) == {
        "type": "mcp_tool_result",
        "tool_use_id": "mcptoolu_1",
        "is_error": False,
        "content": [{"type": "text", "text": "Sunny."}],
    }


@table(
    "error, text",
    [
        ({"type": "http_error", "code": 500, "message": "HTTP 500"}, "HTTP 500"),
        (
            {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "No."}]},
            "No.",
        ),
        ({"type": "other"}, '{"type":"other"}'),
    ],
)
def test_the_error_of_an_mcp_call_is_the_text_of_its_result(error: Document, text: str) -> None:
    block = server_result_block({**MCP_CALL, "output": None, "error": error})
    assert block["is_error"]
    assert block["content"] == [{"type": "text", "text": text}]


def test_only_a_call_can_be_unfinished() -> None:
    assert is_unfinished(function(status="incomplete"))
    assert not is_unfinished(function())
    assert not is_unfinished({"type": "web_search_call", "status": "incomplete"})
    assert not is_search({"type": "mcp_call"})


@table(
    ("action", "query"),
    [
        ({"type": "search", "query": "rain"}, "rain"),
        ({"type": "search", "query": "", "queries": ["a", "b"]}, "a, b"),
        ({"type": "open_page", "url": "https://a.test"}, "https://a.test"),
        (None, ""),
    ],
)
def test_a_search_has_a_query(action: Any, query: str) -> None:
    assert search_input({"action": action}) == {"query": query}


@table(
    ("item", "content"),
    [
        (
            {"status": "failed"},
            {"type": "web_search_tool_result_error", "error_code": "unavailable"},
        ),
        ({"status": "completed"}, []),
        ({"status": "completed", "action": {"sources": [7]}}, []),
        (
            {"status": "completed", "action": {"sources": [{"url": "u", "title": "t"}, {}]}},
            [
                {
                    "type": "web_search_result",
                    "url": "u",
                    "title": "t",
                    "encrypted_content": "",
                    "page_age": None,
                },
                {
                    "type": "web_search_result",
                    "url": "",
                    "title": "",
                    "encrypted_content": "",
                    "page_age": None,
                },
            ],
        ),
    ],
)
def test_a_search_has_results_or_an_error(item: Document, content: Any) -> None:
    block = search_result_block({"id": "ws_1", **item})
    assert block == {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_ap11",
        "content": content,
    }


def test_lists_of_a_provider_that_are_none_are_empty() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "action": {"sources": 1}}
    assert search_result_block(search)["content"] == []
    listing = {"type": "mcp_list_tools", "server_label": "s", "tools": True}
    assert listing_block(listing)["tools"] == []


def test_a_citation_keeps_its_place_if_it_has_one() -> None:
    bare = {"type": "url_citation", "url": "u"}
    citation = {
        "type": "web_search_result_location",
        "cited_text": "",
        "url": "u",
        "title": "u",
        "encrypted_index": "",
    }
    assert render_citation(bare) == citation
    place = {"start_index": 1, "end_index": 2}
    assert render_citation({**bare, **place, "title": "t"}) == {**citation, **place, "title": "t"}


def test_a_citation_of_a_document_is_given_back_as_it_was() -> None:
    citation = {"type": "page_location", "document_index": 0}
    assert render_citation({"type": "file_citation", "citation": citation}) == citation
    assert render_citation({"type": "file_citation", "file_id": "f"}) is None
