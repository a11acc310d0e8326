"""Rendering of events for clients of Messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from antiphon.core.deltas import (
    Annotation,
    Delta,
    EmptyReasoning,
    RawItem,
    RawItemEvent,
    RawItemStarted,
    Reasoning,
    ReasoningState,
    Refusal,
    SearchEnded,
    SearchStarted,
    Text,
    ToolCall,
    Usage,
)
from antiphon.core.events import ArgumentsDelta, Event, Failed, Incomplete
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.response import Response
from antiphon.dialects.anthropic.message_ids import unwrap_call_id
from antiphon.dialects.anthropic.render import PING, MessagesRenderer
from antiphon.dialects.anthropic.render_message import render_whole
from antiphon.dialects.client_dialect import EventBatch
from tests.support.machines import machine

Document = dict[str, Any]
SEALED = "ap2.sealed"
STATE = ReasoningState("s", {}, "turn")


def finished(*deltas: Delta, reason: str = "stop") -> list[Event]:
    made = machine(seal=lambda states, text: SEALED, empty_arguments="{}")
    events = made.start()
    for delta in deltas:
        events += made.feed(delta)
    return [*events, *made.finish(reason)]


def render(events: Sequence[Event], **options: bool) -> list[Document]:
    """The events of a stream; each has its type in both places."""
    renderer = MessagesRenderer(**options)
    data = renderer.feed(EventBatch(0, events)) + renderer.close()
    found = []
    for frame in data.decode().split("\n\n")[:-1]:
        name, document = frame.split("\n")
        found.append(json.loads(document.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def blocks(*deltas: Delta, reason: str = "stop") -> list[Document]:
    """The blocks of a stream: what they began with, their deltas, and whether they were closed."""
    found: list[Document] = []
    for event in render(finished(*deltas, reason=reason)):
        match event:
            case {"type": "content_block_start", "index": index, "content_block": block}:
                assert index == len(found)
                assert not found or found[-1]["closed"] or found[-1]["start"]["type"] == "tool_use"
                found.append({"start": block, "deltas": [], "closed": False})
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                found[index]["deltas"].append(delta)
            case {"type": "content_block_stop", "index": index}:
                found[index]["closed"] = True
    return found


def joined(block: Document, member: str) -> str:
    return "".join(delta[member] for delta in block["deltas"])


# --- the message ----------------------------------------------------------------------------------


def test_a_message_begins_with_the_requested_model_and_an_estimate() -> None:
    renderer = MessagesRenderer(input_tokens=12)
    data = renderer.feed(EventBatch(0, finished(Text("hi"))[:1])).decode()
    start = json.loads(data.split("\n")[1].removeprefix("data: "))
    assert start == {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": 12,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": 0,
                "service_tier": "standard",
            },
        },
    }
    assert data.endswith(PING.decode())


def test_a_message_ends_with_a_reason_and_its_usage() -> None:
    usage = Usage(
        input_tokens=100,
        output_tokens=7,
        cached_tokens=60,
        cache_write_tokens=30,
        reasoning_tokens=2,
    )
    *_, delta, stop = render(finished(Text("hi"), usage))
    assert delta == {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 30,
            "cache_read_input_tokens": 60,
            "output_tokens": 7,
            "service_tier": "standard",
            "output_tokens_details": {"thinking_tokens": 2},
        },
    }
    assert stop == {"type": "message_stop"}


def test_a_sign_of_life_is_a_ping() -> None:
    renderer = MessagesRenderer()
    assert renderer.keepalive(-1) == b'event: ping\ndata: {"type":"ping"}\n\n'
    assert renderer.keepalive_diagnostic is None


def test_a_failure_is_an_error_and_nothing_after_it() -> None:
    made = machine()
    events = [*made.start(), *made.feed(Text("ha")), *made.fail(protocol_fault("broken"))]
    *_, last = render(events)
    assert last["type"] == "error"
    assert last["error"]["type"] == "api_error"
    assert "content_block_stop" not in [event["type"] for event in render(events)]


def test_a_response_without_an_error_still_fails_with_one() -> None:
    response = Response(id="resp_1", created_at=0, model="m", status="failed")
    [event] = render([Failed(response)])
    assert event["error"] == {"type": "api_error", "message": "The response has failed."}
    cancelled = msgspec.structs.replace(response, status="cancelled")
    [event] = render([Incomplete(cancelled)])
    assert event["error"]["message"] == "The response was cancelled."


# --- text and citations ---------------------------------------------------------------------------


def test_text_is_one_block() -> None:
    [block] = blocks(Text("he"), Text("llo"))
    assert block["start"] == {"type": "text", "text": ""}
    assert [delta["type"] for delta in block["deltas"]] == ["text_delta"] * 2
    assert joined(block, "text") == "hello"
    assert block["closed"]


def test_citations_belong_to_the_block_of_their_text() -> None:
    cited = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 2}
    other = {"type": "container_file_citation", "file_id": "f"}
    [block] = blocks(Annotation(cited), Annotation(other), Text("hi"))
    assert [delta["type"] for delta in block["deltas"]] == ["text_delta", "citations_delta"]
    assert block["deltas"][1]["citation"]["url"] == "u"


def test_a_refusal_is_the_explanation_of_the_end() -> None:
    *_, delta, _ = render(finished(Refusal("I can"), Refusal("not.")))
    details = {"type": "refusal", "category": None, "explanation": "I cannot."}
    assert delta["delta"]["stop_reason"] == "refusal"
    assert delta["delta"]["stop_details"] == details
    assert blocks(Refusal("no")) == []


# --- reasoning ------------------------------------------------------------------------------------


def test_a_thought_has_its_sealed_state_in_one_delta() -> None:
    thought, _ = blocks(Reasoning("a"), Reasoning("b"), STATE, Text("x"))
    assert thought["start"] == {"type": "thinking", "thinking": "", "signature": ""}
    assert thought["deltas"] == [
        {"type": "thinking_delta", "thinking": "a"},
        {"type": "thinking_delta", "thinking": "b"},
        {"type": "signature_delta", "signature": SEALED},
    ]


def test_parts_of_a_thought_are_blocks_and_the_last_one_is_signed() -> None:
    first, second, _ = blocks(
        Reasoning("a", "summary", 0), Reasoning("b", "summary", 1), STATE, Text("x")
    )
    assert [delta["type"] for delta in first["deltas"]] == ["thinking_delta"]
    assert [delta["type"] for delta in second["deltas"]] == ["thinking_delta", "signature_delta"]
    assert first["closed"]


def test_state_without_a_thought_is_an_empty_block_before_the_call() -> None:
    state, call = blocks(STATE, ToolCall(0, "a", "get_weather", "{}"), reason="tool_calls")
    assert state["start"]["type"] == "thinking"
    assert state["deltas"] == [{"type": "signature_delta", "signature": SEALED}]
    assert call["start"]["type"] == "tool_use"


def test_state_after_text_is_left_out_for_clients_whose_result_is_the_last_block() -> None:
    """Claude Code prints the last block of a message, and would print nothing."""

    def kinds(*deltas: Delta) -> list[str]:
        events = finished(*deltas)
        shown = render(events, ends_with_text=True)
        whole = json.loads(render_whole(events[-1].response, ends_with_text=True))  # type: ignore[union-attr]
        starts = [each for each in shown if each["type"] == "content_block_start"]
        assert [each["index"] for each in starts] == [*range(len(starts))]
        streamed = [each["content_block"]["type"] for each in starts]
        assert streamed == [block["type"] for block in whole["content"]]
        return streamed

    call = ToolCall(0, "c", "f", "{}")
    assert kinds(Text("Hi."), STATE) == ["text"]
    assert kinds(Text("Hi."), STATE, call) == ["text", "thinking", "tool_use"]
    assert kinds(Reasoning("Hm."), STATE, Text("Hi.")) == ["thinking", "text"]
    assert kinds(STATE, call) == ["thinking", "tool_use"]


def test_reasoning_without_text_and_state_is_not_shown() -> None:
    [block] = blocks(EmptyReasoning(), Text("x"))
    assert block["start"]["type"] == "text"


# --- calls ----------------------------------------------------------------------------------------


def test_arguments_are_deltas_as_they_arrive() -> None:
    pieces = ("", '{"a":', " 1}")
    calls = [ToolCall(0, "call_0", "get_weather", piece) for piece in pieces]
    [block] = blocks(*calls, reason="tool_calls")
    start = block["start"]
    assert (start["type"], start["name"], start["input"]) == ("tool_use", "get_weather", {})
    assert unwrap_call_id(start["id"]) == "call_0"
    assert joined(block, "partial_json") == '{"a": 1}'
    assert block["closed"]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    [block] = blocks(ToolCall(0, "a", "get_weather"), reason="tool_calls")
    assert joined(block, "partial_json") == "{}"
    assert MessagesRenderer().feed(EventBatch(0, [ArgumentsDelta("fc", 0, "")])) == b""


def test_a_call_that_was_cut_off_is_never_closed() -> None:
    cut = ToolCall(0, "a", "get_weather", '{"a":')
    *_, delta, _ = render(finished(cut, reason="length"))
    assert delta["delta"]["stop_reason"] == "max_tokens"
    [block] = blocks(cut, reason="length")
    assert not block["closed"]


def test_what_follows_a_call_that_was_cut_off_does_not_close_it() -> None:
    """In a response that fails, the call does not end, and the text after it is still sent."""
    made = machine()
    events = [*made.start(), *made.feed(ToolCall(0, "a", "get_weather", '{"a":'))]
    events += [*made.feed(Text("I wonder")), *made.fail(protocol_fault("broken"))]
    documents = render(events)
    assert "I wonder" in str(documents)
    stopped = [each["index"] for each in documents if each["type"] == "content_block_stop"]
    assert 0 not in stopped
    assert documents[-1]["type"] == "error"


def test_freeform_input_is_one_argument() -> None:
    call = [ToolCall(0, "a", "exec", piece, "custom") for piece in ('say "', 'hi"\n')]
    [block] = blocks(*call, reason="tool_calls")
    assert json.loads(joined(block, "partial_json")) == {"input": 'say "hi"\n'}
    [empty] = blocks(ToolCall(0, "a", "exec", "", "custom"), reason="tool_calls")
    assert json.loads(joined(empty, "partial_json")) == {"input": ""}


def test_a_call_of_a_built_in_tool_has_its_arguments_at_the_end() -> None:
    [block] = blocks(ToolCall(0, "a", "shell", '{"commands": ["ls"]}'), reason="tool_calls")
    assert block["start"]["name"] == "shell"
    assert json.loads(joined(block, "partial_json"))["commands"] == ["ls"]


# --- searches and other items ---------------------------------------------------------------------


def test_a_search_is_a_server_tool_and_its_result() -> None:
    action = {"type": "search", "query": "rain"}
    sources = [{"type": "url", "url": "https://a.test"}]
    ended = SearchEnded({**action, "sources": sources})
    use, result, text = blocks(SearchStarted(action), ended, Text("wet"))
    assert use["start"] == {
        "type": "server_tool_use",
        "id": "srvtoolu_ap1n1",
        "name": "web_search",
        "input": {},
    }
    assert json.loads(joined(use, "partial_json")) == {"query": "rain"}
    assert result["start"]["tool_use_id"] == "srvtoolu_ap1n1"
    assert [each["url"] for each in result["start"]["content"]] == ["https://a.test"]
    assert text["start"]["type"] == "text"
    *_, delta, _ = render(finished(SearchStarted(action), ended, Text("wet")))
    counts = {"web_search_requests": 1, "web_fetch_requests": 0}
    assert delta["usage"]["server_tool_use"] == counts


def test_a_call_of_an_mcp_server_is_a_tool_and_its_result() -> None:
    item = {"type": "mcp_call", "id": "mcp_1", "name": "weather", "server_label": "sky"}
    piece = "response.mcp_call_arguments.delta"
    use, result, text = blocks(
        RawItemStarted(-1, {**item, "arguments": ""}, held=True),
        RawItemEvent(-1, "response.mcp_call.in_progress", {"item_id": "mcp_1"}),
        RawItemEvent(-1, piece, {"item_id": "mcp_1", "delta": '{"city":'}),
        RawItemEvent(-1, piece, {"item_id": "mcp_1", "delta": '"Ulm"}'}),
        RawItem({**item, "arguments": '{"city":"Ulm"}', "output": "Sunny."}, -1),
        Text("It is sunny."),
    )
    assert use["start"]["type"] == "mcp_tool_use"
    assert joined(use, "partial_json") == '{"city":"Ulm"}'
    assert result["start"]["content"] == [{"type": "text", "text": "Sunny."}]
    assert text["start"]["type"] == "text"


def test_a_client_of_the_beta_gets_the_tools_of_a_server() -> None:
    tools = [{"name": "weather", "description": "", "input_schema": {}}]
    item = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "sky", "tools": tools}
    events = finished(RawItem(item), Text("Hi."))
    shown = [each for each in render(events, lists_tools=True) if each.get("index") == 0]
    assert [each["type"] for each in shown] == ["content_block_start", "content_block_stop"]
    block = {"type": "mcp_tool_listing", "mcp_server_name": "sky", "tools": tools}
    assert shown[0]["content_block"] == block
    [start] = [each for each in render(events) if each["type"] == "content_block_start"]
    assert start["content_block"]["type"] == "text"


def test_a_compaction_is_a_block_with_the_sealed_summary() -> None:
    events = finished(RawItem({"type": "compaction", "state": {}}), Text("Hi."))
    shown = render(events)
    [start, delta] = [each for each in shown if each.get("index") == 0][:2]
    assert start["content_block"]["content"] is None
    assert delta["delta"]["type"] == "compaction_delta"
    assert delta["delta"]["encrypted_content"] == SEALED
    whole = json.loads(render_whole(events[-1].response))["content"]  # type: ignore[union-attr]
    assert whole[0] == {**delta["delta"], "type": "compaction"}
    assert [block["type"] for block in whole] == ["compaction", "text"]


def test_items_that_the_format_does_not_have_are_not_shown() -> None:
    item = {"type": "code_interpreter_call", "id": "ci_1", "status": "completed"}
    [block] = blocks(RawItem(item), Text("4"))
    assert block["start"]["type"] == "text"
