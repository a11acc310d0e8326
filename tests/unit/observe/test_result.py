"""Results of traced requests: output items of whole and of cut streams, and checked tool calls."""

from __future__ import annotations

import json
from typing import Any

from antiphon.observe.result import find_problems, read_result
from tests.support.tables import table

SCHEMA = {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]}
TOOLS = [
    {"type": "function", "name": "run", "parameters": SCHEMA},
    {"type": "function", "name": "free"},
    {
        "type": "namespace",
        "name": "mcp",
        "tools": [{"type": "function", "name": "inner", "parameters": SCHEMA}],
    },
]


def encode(*events: dict[str, Any]) -> bytes:
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )


def created() -> dict[str, Any]:
    response = {"status": "in_progress", "output": [], "tools": TOOLS}
    return {"type": "response.created", "response": response}


def ended(*items: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    response = {"status": status, "output": list(items), "tools": TOOLS, **more}
    return {"type": f"response.{status}", "response": response}


def call(name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "name": name, "arguments": arguments}


def test_a_finished_response_has_the_items_of_its_terminal_event() -> None:
    item = {"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}
    details = {"incomplete_details": {"reason": "max_output_tokens"}}
    result = read_result(encode(created(), ended(item, status="incomplete", **details)))
    assert result is not None
    assert (result.status, result.incomplete_reason) == ("incomplete", "max_output_tokens")
    assert result.items == [item]


def test_a_cut_stream_has_finished_items_and_the_text_so_far_of_the_others() -> None:
    def added(index: int, kind: str) -> dict[str, Any]:
        item = {"type": kind}
        return {"type": "response.output_item.added", "output_index": index, "item": item}

    def delta(kind: str, index: int, text: str) -> dict[str, Any]:
        return {"type": f"response.{kind}.delta", "output_index": index, "delta": text}

    done = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Whole"}]}
    events = [
        created(),
        added(0, "reasoning"),
        delta("reasoning_summary_text", 0, "Who"),
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        added(1, "message"),
        delta("output_text", 1, "Hel"),
        delta("output_text", 1, "lo"),
        added(2, "function_call"),
        delta("function_call_arguments", 2, '{"cm'),
        added(3, "reasoning"),
        delta("reasoning_text", 3, "So"),
        added(4, "message"),
        delta("refusal", 4, "No"),
    ]
    result = read_result(encode(*events) + b'data: {"type": "response.comp')
    assert result is not None
    assert result.status is None
    assert result.items == [
        done,
        {
            "type": "message",
            "status": "incomplete",
            "content": [{"type": "output_text", "text": "Hello"}],
        },
        {"type": "function_call", "status": "incomplete", "arguments": '{"cm'},
        {
            "type": "reasoning",
            "status": "incomplete",
            "summary": [{"type": "summary_text", "text": "So"}],
        },
        {
            "type": "message",
            "status": "incomplete",
            "content": [{"type": "refusal", "refusal": "No"}],
        },
    ]


def test_a_whole_response_has_its_items() -> None:
    item = call("run", '{"cmd": "ls"}')
    body = json.dumps(ended(item)["response"]).encode()
    result = read_result(body)
    assert result is not None
    assert (result.status, result.items, result.calls[0].check) == ("completed", [item], "valid")
    assert read_result(body[:-9]) is None


def test_without_events_there_is_no_result() -> None:
    assert read_result(b"") is None


@table(
    "item, check, problem",
    [
        (call("run", '{"cmd": "ls"}'), "valid", ""),
        (call("run", "{}"), "invalid", '"cmd" is a required property'),
        (call("run", '{"cmd": 1}'), "invalid", 'cmd: 1 is not of type "string"'),
        (call("run", '{"cmd"'), "invalid", "the arguments are not valid JSON"),
        (call("inner", "{}"), "invalid", '"cmd" is a required property'),
        (call("free", '{"x": 1}'), "unchecked", ""),
        (call("other", "{}"), "unknown_tool", ""),
        ({"type": "custom_tool_call", "name": "patch", "input": "*** Begin"}, "unchecked", ""),
    ],
)
def test_a_call_is_checked_with_the_schema_of_its_tool(
    item: dict[str, Any], check: str, problem: str
) -> None:
    result = read_result(encode(ended(item)))
    assert result is not None
    (found,) = result.calls
    assert (found.index, found.name, found.check) == (0, item["name"], check)
    assert list(found.problems) == ([problem] if problem else [])
    assert found.arguments == item.get("arguments", item.get("input"))


def test_a_schema_that_is_not_supported_checks_nothing() -> None:
    assert find_problems("{}", {"type": "nonsense"}) is None
    assert find_problems("{}", {"$ref": "https://example.com/schema"}) is None
