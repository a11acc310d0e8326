"""Raw items, which are passed on as they are, and explicit item ends."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.deltas import (
    Annotation,
    Delta,
    Finish,
    ItemEnd,
    RawItem,
    RawItemEvent,
    RawItemStarted,
    Reasoning,
    ReasoningState,
    Refusal,
    Text,
    ToolCall,
    Usage,
)
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.stream.machine import ResponseMachine
from antiphon.core.structured_output.contract import OutputContract
from antiphon.errors import InvalidOutputFormat
from tests.support.machines import Document, documents, machine, run
from tests.support.openai_sdk_check import check_with_sdk
from tests.support.stream_validator import check
from tests.support.tables import table

SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "x"},
}
MCP = {
    "type": "mcp_call",
    "id": "mcp_1",
    "status": "failed",
    "name": "ask",
    "server_label": "wiki",
    "arguments": '{"q":1}',
    "output": None,
    "error": {"type": "http_error", "code": 500, "message": "down"},
}
IMAGE = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="}
PROGRAM = {
    "type": "program_output",
    "id": "cmo_1",
    "status": "completed",
    "call_id": "call_1",
    "result": "42",
}
COMPACTION = {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}
APPROVAL = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "name": "ask",
    "server_label": "wiki",
    "arguments": "{}",
}
WHOLE = [SEARCH, MCP, IMAGE, PROGRAM, COMPACTION, APPROVAL]


def started(**options: Any) -> ResponseMachine:
    subject = machine(**options)
    subject.start()
    return subject


def events_of(*deltas: Delta) -> list[Document]:
    events = run([*deltas, Finish("stop")])
    check(events)
    check_with_sdk(events)
    return events


def output(*deltas: Delta) -> list[Document]:
    items: list[Document] = events_of(*deltas)[-1]["response"]["output"]
    return items


def kinds(events: list[Document]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


@table("item", WHOLE, ids=lambda item: item["type"])
def test_a_raw_item_is_passed_on_unchanged(item: Document) -> None:
    assert output(RawItem(item)) == [item]


@table("item", WHOLE, ids=lambda item: item["type"])
def test_a_raw_item_is_announced_and_done_at_once(item: Document) -> None:
    events = documents(started().feed(RawItem(item)))
    assert kinds(events)[0] == "output_item.added"
    assert kinds(events)[-1] == "output_item.done"


def test_a_raw_item_is_announced_as_in_progress() -> None:
    added, _ = documents(started().feed(RawItem(SEARCH)))
    assert added["item"] == SEARCH | {"status": "in_progress"}


def test_a_raw_output_item_is_announced_with_its_final_status() -> None:
    added, _ = documents(started().feed(RawItem(PROGRAM)))
    assert added["item"] == PROGRAM


def test_a_generated_image_is_sent_once() -> None:
    added, done = documents(started().feed(RawItem(IMAGE)))
    assert added["item"]["result"] is None
    assert done["item"]["result"] == "aGk="


def test_the_arguments_of_an_mcp_call_are_streamed() -> None:
    events = documents(started().feed(RawItem(MCP)))
    assert kinds(events)[1:3] == ["mcp_call_arguments.delta", "mcp_call_arguments.done"]
    assert events[0]["item"]["arguments"] == ""
    assert events[1]["delta"] == events[2]["arguments"] == '{"q":1}'


def test_an_mcp_call_without_arguments_has_no_argument_events() -> None:
    item = {name: value for name, value in MCP.items() if name != "arguments"}
    assert kinds(documents(started().feed(RawItem(item)))) == [
        "output_item.added",
        "output_item.done",
    ]


@table(
    ("kind", "item_id", "expected"),
    [
        ("web_search_call", "57dd7f2e-7c15-4c1b", "ws_n1"),
        ("web_search_call", None, "ws_n1"),
        ("acme_call", "", "item_n1"),
        ("acme_call", 7, "item_n1"),
    ],
)
def test_an_id_that_clients_would_not_accept_is_replaced(
    kind: str, item_id: object, expected: str
) -> None:
    item = {"type": kind, "id": item_id, "status": "completed"}
    [added, done] = documents(started().feed(RawItem(item)))
    assert added["item"]["id"] == done["item"]["id"] == expected


@table("status", ["in_progress", "searching", "generating", "calling"])
def test_a_raw_item_in_progress_becomes_completed(status: str) -> None:
    [item] = output(RawItem(SEARCH | {"status": status}))
    assert item["status"] == "completed"


@table("reason", ["length", "network_error"])
def test_a_raw_item_keeps_its_status_when_the_response_is_cut(reason: str) -> None:
    events = run([RawItem(SEARCH), Finish(reason)])
    check(events)
    assert events[-1]["response"]["output"] == [SEARCH]


def test_a_raw_item_separates_the_messages_before_and_after_it() -> None:
    items = output(Text("a"), RawItem(SEARCH), Text("b"))
    assert [item["type"] for item in items] == ["message", "web_search_call", "message"]


def test_a_raw_item_waits_for_an_open_call() -> None:
    subject = started()
    subject.feed(ToolCall(0, "a", "get_weather", '{"x"'))
    assert subject.feed(RawItem(SEARCH)) == []
    events = documents(subject.feed(ToolCall(0, arguments=":1}")))
    assert kinds(events)[-3:] == ["output_item.done", "output_item.added", "output_item.done"]
    assert [
        item["type"] for item in documents(subject.finish("stop"))[-1]["response"]["output"]
    ] == [
        "function_call",
        "web_search_call",
    ]


def test_a_failed_response_keeps_a_raw_item() -> None:
    subject = started()
    subject.feed(ToolCall(0, "a", "get_weather", '{"x"'))
    subject.feed(RawItem(SEARCH))
    call, item = documents(subject.fail(protocol_fault("x")))[-1]["response"]["output"]
    assert call["status"] == "incomplete"
    assert item == SEARCH


# Ends


def test_text_after_an_item_end_is_a_new_message() -> None:
    items = output(Text("a"), ItemEnd(), Text("b"), Text("c"))
    assert [item["content"][0]["text"] for item in items] == ["a", "bc"]


def test_reasoning_and_refusals_after_an_item_end_are_new_items() -> None:
    items = output(Reasoning("a"), ItemEnd(), Reasoning("b"), Refusal("c"), ItemEnd(), Refusal("d"))
    assert [item["type"] for item in items] == ["reasoning"] * 2 + ["message"] * 2


def test_an_item_end_without_an_item_makes_no_event() -> None:
    assert [item["type"] for item in output(ItemEnd(), Text("a"), ItemEnd())] == ["message"]


def test_an_annotation_after_an_item_end_belongs_to_the_next_message() -> None:
    path = {"type": "file_path", "file_id": "file_1", "index": 0}
    items = output(Text("a"), ItemEnd(), Annotation(path), Text("b"))
    assert [item["content"][0]["annotations"] for item in items] == [[], [path]]


def test_state_after_an_item_end_is_sealed_into_its_own_item() -> None:
    subject = started(seal=lambda states, raw: f"{raw}:{[state.value for state in states]}")
    subject.feed(Reasoning("a"))
    subject.feed(ReasoningState("s", 1))
    subject.feed(ItemEnd())
    subject.feed(ReasoningState("s", 2))
    subject.feed(Text("b"))
    events = documents(subject.finish("stop"))
    sealed = [item.get("encrypted_content") for item in events[-1]["response"]["output"]]
    assert sealed == ["a:[1]", ":[2]", None]


# What was promised


def test_the_output_contract_applies_to_text_after_a_search() -> None:
    contract = OutputContract(requested="json_object", asked="json_object")
    subject = started()
    for delta in (RawItem(SEARCH), Text("no JSON")):
        subject.feed(delta)
    subject.finish("stop")
    with pytest.raises(InvalidOutputFormat):
        contract.check(subject.snapshot, provider="p")


def test_the_output_contract_does_not_apply_beside_an_approval_request() -> None:
    contract = OutputContract(requested="json_object", asked="json_object")
    subject = started()
    for delta in (RawItem(APPROVAL), Text("May I?")):
        subject.feed(delta)
    subject.finish("stop")
    contract.check(subject.snapshot, provider="p")
    assert subject.snapshot.output[0] == APPROVAL


# Compactions


def test_a_started_compaction_is_sealed_when_it_is_complete() -> None:
    subject = started(seal=lambda states, text: f"sealed {states[0].value}")
    item = {**COMPACTION, "encrypted_content": "native"}
    events = documents(
        [
            *subject.feed(RawItemStarted(0, item)),
            *subject.feed(RawItemEvent(0, "response.compaction.compacting", {"item_id": "x"})),
            *subject.feed(RawItem(item, 0)),
        ]
    )
    assert kinds(events) == ["output_item.added", "compaction.compacting", "output_item.done"]
    assert events[0]["item"]["encrypted_content"] == ""
    assert events[2]["item"]["encrypted_content"].startswith("sealed {'item'")
    assert "native" in events[2]["item"]["encrypted_content"]


def test_usage_from_before_the_first_request_is_added() -> None:
    subject = ResponseMachine(earlier_usage=Usage(input_tokens=10, output_tokens=2))
    subject.start()
    subject.feed(Usage(input_tokens=3, output_tokens=4))
    usage = subject.snapshot.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (13, 6, 19)
