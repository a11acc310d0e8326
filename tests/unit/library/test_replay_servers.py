"""Replay of a response for which the gateway called MCP servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

import antiphon
from antiphon.core.mcp.server_calls import ListToolsCall, ToolCallRequest
from antiphon.core.mcp.values import McpServer
from antiphon.library.replay_servers import RecordedServers, ServerReplay, split_bodies
from antiphon.providers.registry import known_specs

Document = dict[str, Any]
SKY = McpServer(label="sky")
LIST = ListToolsCall(call_id="mcpl_9", server=SKY, number=-1)
CALL = ToolCallRequest(call_id="mcp_9", server=SKY, number=-2, tool="weather", arguments="{}")
LISTED: Document = {
    "type": "mcp_list_tools",
    "id": "mcpl_1",
    "server_label": "sky",
    "tools": [{"name": "weather", "input_schema": {"type": "object"}}],
}
CALLED: Document = {
    "type": "mcp_call",
    "id": "mcp_1",
    "server_label": "sky",
    "name": "weather",
    "arguments": '{"city": "Ulm"}',
    "output": "Sunny.",
    "error": None,
}
TOOL: Document = {"type": "mcp", "server_label": "sky", "require_approval": "never"}
REQUEST: Document = {"model": "m", "input": "Hi", "stream": True, "tools": [TOOL]}


def chunk(delta: Document, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice]})}\n\n".encode()


def asked(name: str = "sky__weather") -> bytes:
    function = {"name": name, "arguments": CALLED["arguments"]}
    call = {"index": 0, "id": "c", "type": "function", "function": function}
    return chunk({"tool_calls": [call]}) + chunk({}, "tool_calls")


DONE = b"data: [DONE]\n\n"
ANSWER = chunk({"content": "Done."}) + chunk({}, "stop")


def item_types(events: list[Document]) -> list[str]:
    return [item["type"] for item in events[-1]["response"]["output"]]


def test_lists_and_calls_have_the_recorded_outcomes() -> None:
    data = asked() + DONE + ANSWER + DONE
    events = antiphon.replay(data, request=REQUEST, output=[LISTED, CALLED])
    assert item_types(events) == ["mcp_list_tools", "mcp_call", "message"]
    called = events[-1]["response"]["output"][1]
    assert (called["arguments"], called["output"]) == ('{"city": "Ulm"}', "Sunny.")
    assert events[-1]["type"] == "response.completed"


def test_rounds_without_a_mark_at_their_end_are_split_by_their_offsets() -> None:
    data = asked() + ANSWER
    events = antiphon.replay(data, request=REQUEST, output=[LISTED, CALLED], rounds=[len(asked())])
    assert item_types(events) == ["mcp_list_tools", "mcp_call", "message"]


def test_bodies_that_are_not_streamed_follow_each_other() -> None:
    call = {"id": "c", "type": "function"}
    function = {"name": "sky__weather", "arguments": "{}"}
    first = {"message": {"tool_calls": [{**call, "function": function}]}}
    second = {"message": {"content": "Done."}}
    bodies = [
        {"choices": [{**first, "finish_reason": "tool_calls"}]},
        {"choices": [{**second, "finish_reason": "stop"}]},
    ]
    data = "\n".join(map(json.dumps, bodies)).encode()
    request = {**REQUEST, "stream": False}
    events = antiphon.replay(data, request=request, output=[LISTED, CALLED])
    assert item_types(events) == ["mcp_list_tools", "mcp_call", "message"]


def test_another_format_has_its_own_blocks() -> None:
    request = {
        "model": "m",
        "max_tokens": 9,
        "stream": True,
        "messages": [{"role": "user", "content": "Hi"}],
        "mcp_servers": [{"type": "url", "name": "sky", "url": "https://sky.example/mcp"}],
    }
    data = asked() + DONE + ANSWER + DONE
    events = antiphon.replay(data, request=request, format="messages", output=[LISTED, CALLED])
    begun = [each["content_block"]["type"] for each in events if "content_block" in each]
    assert begun == ["mcp_tool_use", "mcp_tool_result", "text"]


def test_a_call_needs_an_approval_where_the_recorded_one_did() -> None:
    requested = {"type": "mcp_approval_request", "server_label": "sky", "name": "weather"}
    tools = [{"type": "mcp", "server_label": "sky"}]
    request = {**REQUEST, "tools": tools}
    events = antiphon.replay(asked() + DONE, request=request, output=[LISTED, requested])
    assert item_types(events) == ["mcp_list_tools", "mcp_approval_request"]


def test_a_list_that_failed_ends_the_response() -> None:
    failed = {**LISTED, "tools": [], "error": "HTTP 401"}
    events = antiphon.replay(b"", request=REQUEST, output=[failed])
    assert events[-1]["type"] == "response.failed"
    assert "HTTP 401" in events[-1]["response"]["error"]["message"]


def test_bytes_that_are_missing_fail_the_response() -> None:
    events = antiphon.replay(asked() + DONE, request=REQUEST, output=[LISTED, CALLED])
    assert events[-1]["type"] == "response.failed"


@pytest.mark.parametrize("dialect", ["chat", "responses"])
def test_without_items_of_servers_the_first_request_is_replayed(dialect: str) -> None:
    output = [CALLED] if dialect == "responses" else [{"type": "message"}]
    events = antiphon.replay(ANSWER, dialect=dialect, request=REQUEST, output=output)
    assert "mcp_list_tools" not in item_types(events)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "no"}]}, None),
        ({"type": "http_error", "code": 503, "message": "no"}, "http_error"),
    ],
)
def test_an_error_is_the_outcome_of_its_call(error: Document, kind: str | None) -> None:
    servers = RecordedServers([{**CALLED, "output": None, "error": error}])
    result: Any = servers.outcome(CALL)
    assert (result.is_error, result.problem and result.problem.type) == (kind is None, kind)


def test_an_item_is_used_once_and_a_missing_one_is_a_failure() -> None:
    servers = RecordedServers([LISTED, {"type": "message"}, CALLED])
    listed: Any = servers.outcome(LIST)
    assert [tool.name for tool in listed.tools] == ["weather"]
    assert servers.outcome(LIST) == LIST.fail()
    called: Any = servers.outcome(CALL)
    assert called.text == "Sunny."
    assert servers.outcome(CALL) == CALL.fail()
    assert not servers.requires_approval(SKY)


def test_a_body_that_is_no_json_is_the_last_one() -> None:
    assert [*split_bodies(b' {"a": 1}\n[2] nonsense {')] == [b'{"a": 1}', b"[2]", b"nonsense {"]
    assert [*split_bodies(b" \n")] == []


def test_a_replay_takes_any_provider_and_client() -> None:
    spec = known_specs()["deepseek"]
    replayed = ServerReplay(
        REQUEST, [LISTED, CALLED], spec, "m", client="codex", format="responses"
    )
    events = replayed.replay([asked() + DONE, ANSWER + DONE], is_whole=False)
    assert item_types(events) == ["mcp_list_tools", "mcp_call", "message"]
