"""Whole messages: their content, their end, and their usage."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from antiphon.core.items import (
    FunctionCall,
    Message,
    OutputText,
    ReasoningItem,
    ReasoningText,
    RefusalText,
    SummaryText,
)
from antiphon.core.response import IncompleteDetails, Response
from antiphon.dialects.anthropic.render_message import render_usage, render_whole
from tests.support.tables import table

Document = dict[str, Any]
HELLO = Message(id="msg_1", status="completed", content=(OutputText("hello"),))
CALL = FunctionCall(id="fc_1", call_id="c", name="f", arguments='{"a": 1}', status="completed")
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}}


def response(*output: Any, status: Any = "completed", **fields: Any) -> Response:
    return Response(id="resp_1", created_at=0, model="m", status=status, output=output, **fields)


def whole(*output: Any, **fields: Any) -> Document:
    document: Document = json.loads(render_whole(response(*output, **fields)))
    return document


def types(document: Document) -> list[str]:
    return [block["type"] for block in document["content"]]


def test_a_message_has_every_member_that_clients_need() -> None:
    assert whole(HELLO) == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "hello"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 0,
            "service_tier": "standard",
        },
    }


def test_every_item_is_a_block_or_two() -> None:
    unknown = {"type": "mcp_list_tools", "id": "mcpl_1"}
    called = {"type": "mcp_call", "id": "mcp_1", "arguments": '{"b": 2}'}
    thought = ReasoningItem(id="rs_1", status="completed", encrypted_content="ap2.x")
    document = whole(thought, HELLO, CALL, SEARCH, unknown, called)
    assert types(document) == [
        "thinking",
        "text",
        "tool_use",
        "server_tool_use",
        "web_search_tool_result",
        "mcp_tool_use",
        "mcp_tool_result",
    ]
    assert document["content"][2]["input"] == {"a": 1}
    assert document["content"][5]["input"] == {"b": 2}
    assert document["stop_reason"] == "tool_use"


LIST: Document = {
    "type": "mcp_list_tools",
    "id": "mcpl_1",
    "server_label": "sky",
    "tools": [{"name": "weather", "input_schema": {}, "annotations": {}, "description": None}, 1],
}


def test_a_client_of_the_beta_gets_the_tools_of_servers() -> None:
    listed, text = json.loads(render_whole(response(LIST, HELLO), lists_tools=True))["content"]
    assert listed == {
        "type": "mcp_tool_listing",
        "mcp_server_name": "sky",
        "tools": [{"name": "weather", "description": None, "input_schema": {}}],
    }
    assert text["type"] == "text"
    assert types(whole(LIST, HELLO)) == ["text"]


def test_a_list_that_failed_has_no_block() -> None:
    failed = {**LIST, "error": "Down.", "tools": None}
    assert json.loads(render_whole(response(failed), lists_tools=True))["content"] == []


def test_the_last_block_of_a_thought_is_signed() -> None:
    thought = ReasoningItem(
        id="rs_1",
        status="completed",
        summary=(SummaryText("a"), SummaryText("")),
        content=(ReasoningText("b"),),
        encrypted_content="ap2.x",
    )
    assert whole(thought)["content"] == [
        {"type": "thinking", "thinking": "a", "signature": ""},
        {"type": "thinking", "thinking": "b", "signature": "ap2.x"},
    ]
    assert whole(ReasoningItem(id="rs_1", status="completed"))["content"] == []


def test_citations_are_part_of_their_text() -> None:
    cited = {"type": "url_citation", "url": "u", "start_index": 0, "end_index": 1}
    text = OutputText("a", annotations=(cited, {"type": "file_path"}))
    [block] = whole(Message(id="msg_1", status="completed", content=(text,)))["content"]
    assert [each["url"] for each in block["citations"]] == ["u"]
    assert whole(Message(id="msg_1", status="completed", content=(OutputText(),)))["content"] == []


def test_a_call_that_was_cut_off_is_left_out() -> None:
    cut = msgspec.structs.replace(CALL, status="incomplete", arguments='{"a"')
    document = whole(
        HELLO, cut, status="incomplete", incomplete_details=IncompleteDetails("max_output_tokens")
    )
    assert types(document) == ["text"]
    assert document["stop_reason"] == "max_tokens"


@table(
    ("fields", "end"),
    [
        ({"stop_sequence": "END"}, {"stop_reason": "stop_sequence", "stop_sequence": "END"}),
        (
            {"status": "incomplete", "incomplete_details": IncompleteDetails("content_filter")},
            {
                "stop_reason": "refusal",
                "stop_sequence": None,
                "stop_details": {
                    "type": "refusal",
                    "category": None,
                    "explanation": None,
                    "reason": "content_filter",
                },
            },
        ),
    ],
)
def test_a_message_says_why_it_has_ended(fields: Document, end: Document) -> None:
    document = whole(HELLO, **fields)
    assert {name: document[name] for name in end} == end


def test_a_stop_sequence_beside_a_call_is_not_the_reason() -> None:
    document = whole(CALL, stop_sequence="END")
    assert (document["stop_reason"], document["stop_sequence"]) == ("tool_use", None)


def test_a_refusal_is_an_explanation() -> None:
    document = whole(Message(id="msg_1", status="completed", content=(RefusalText("No."),)))
    assert document["content"] == []
    assert document["stop_details"]["explanation"] == "No."


def test_a_refusal_after_a_call_is_still_the_reason() -> None:
    refused = Message(id="msg_1", status="completed", content=(RefusalText("No."),))
    assert whole(CALL, refused)["stop_reason"] == "refusal"


def test_the_estimate_counts_only_until_there_is_usage() -> None:
    assert render_usage(response(), 7)["input_tokens"] == 7
    assert render_usage(response(service_tier="priority"))["service_tier"] == "priority"
