"""Items that come whole and are passed on as they are, and the ends that providers mark."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.faults.fault import protocol_fault
from antiphon.core.stream.deltas import (
    Annotation,
    Delta,
    Finish,
    ItemEnd,
    RawItem,
    Reasoning,
    ReasoningState,
    Refusal,
    Text,
    ToolCall,
)
from antiphon.core.stream.machine import ResponseMachine
from antiphon.core.structured_output.contract import OutputContract
from antiphon.errors import InvalidOutputFormat
from tests.support.machines import Document, documents, machine, run
from tests.support.openai_sdk_check import consult
from tests.support.stream_validator import check

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


def finished_items(*deltas: Delta) -> list[Document]:
    events = run([*deltas, Finish("stop")])
    check(events)
    consult(events)
    return events


def output(*deltas: Delta) -> list[Document]:
    items: list[Document] = finished_items(*deltas)[-1]["response"]["output"]
    return items


def kinds(events: list[Document]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


@pytest.mark.parametrize("item", WHOLE, ids=lambda item: item["type"])
def test_an_item_that_came_whole_is_passed_on_as_it_is(item: Document) -> None:
    assert output(RawItem(item)) == [item]


@pytest.mark.parametrize("item", WHOLE, ids=lambda item: item["type"])
def test_it_is_announced_and_done_at_once(item: Document) -> None:
    events = documents(started().feed(RawItem(item)))
    assert kinds(events)[0] == "output_item.added"
    assert kinds(events)[-1] == "output_item.done"


def test_it_is_announced_as_something_that_goes_on() -> None:
    added, _ = documents(started().feed(RawItem(SEARCH)))
    assert added["item"] == SEARCH | {"status": "in_progress"}


def test_a_result_has_no_beginning() -> None:
    added, _ = documents(started().feed(RawItem(PROGRAM)))
    assert added["item"] == PROGRAM


def test_an_image_is_sent_once() -> None:
    added, done = documents(started().feed(RawItem(IMAGE)))
    assert added["item"]["result"] is None
    assert done["item"]["result"] == "aGk="


def test_the_arguments_of_a_servers_call_are_told_like_those_of_any_other() -> None:
    events = documents(started().feed(RawItem(MCP)))
    assert kinds(events)[1:3] == ["mcp_call_arguments.delta", "mcp_call_arguments.done"]
    assert events[0]["item"]["arguments"] == ""
    assert events[1]["delta"] == events[2]["arguments"] == '{"q":1}'


def test_a_servers_call_without_arguments_has_none_to_tell() -> None:
    item = {name: value for name, value in MCP.items() if name != "arguments"}
    assert kinds(documents(started().feed(RawItem(item)))) == [
        "output_item.added",
        "output_item.done",
    ]


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("status", ["in_progress", "searching", "generating", "calling"])
def test_an_item_that_came_whole_has_ended_whatever_it_says(status: str) -> None:
    [item] = output(RawItem(SEARCH | {"status": status}))
    assert item["status"] == "completed"


@pytest.mark.parametrize("reason", ["length", "network_error"])
def test_its_own_status_stands_when_the_response_is_cut(reason: str) -> None:
    events = run([RawItem(SEARCH), Finish(reason)])
    check(events)
    assert events[-1]["response"]["output"] == [SEARCH]


def test_it_closes_the_text_before_it_and_parts_it_from_the_text_behind() -> None:
    items = output(Text("a"), RawItem(SEARCH), Text("b"))
    assert [item["type"] for item in items] == ["message", "web_search_call", "message"]


def test_it_waits_for_a_call_that_is_still_being_written() -> None:
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


def test_a_failure_keeps_it() -> None:
    subject = started()
    subject.feed(ToolCall(0, "a", "get_weather", '{"x"'))
    subject.feed(RawItem(SEARCH))
    call, item = documents(subject.fail(protocol_fault("x")))[-1]["response"]["output"]
    assert call["status"] == "incomplete"
    assert item == SEARCH


# Ends


def test_what_comes_after_an_end_is_another_item_of_the_same_kind() -> None:
    items = output(Text("a"), ItemEnd(), Text("b"), Text("c"))
    assert [item["content"][0]["text"] for item in items] == ["a", "bc"]


def test_reasoning_and_refusals_end_as_well() -> None:
    items = output(Reasoning("a"), ItemEnd(), Reasoning("b"), Refusal("c"), ItemEnd(), Refusal("d"))
    assert [item["type"] for item in items] == ["reasoning"] * 2 + ["message"] * 2


def test_an_end_of_nothing_is_nothing() -> None:
    assert [item["type"] for item in output(ItemEnd(), Text("a"), ItemEnd())] == ["message"]


def test_a_citation_after_an_end_belongs_to_the_next_text() -> None:
    path = {"type": "file_path", "file_id": "file_1", "index": 0}
    items = output(Text("a"), ItemEnd(), Annotation(path), Text("b"))
    assert [item["content"][0]["annotations"] for item in items] == [[], [path]]


def test_state_after_an_end_is_sealed_apart() -> None:
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


def test_a_promise_is_kept_by_the_text_behind_a_search() -> None:
    contract = OutputContract(requested="json_object", asked="json_object")
    subject = started()
    for delta in (RawItem(SEARCH), Text("no JSON")):
        subject.feed(delta)
    subject.finish("stop")
    with pytest.raises(InvalidOutputFormat):
        contract.check(subject.snapshot, provider="p")


def test_nothing_is_promised_while_a_client_has_to_act() -> None:
    contract = OutputContract(requested="json_object", asked="json_object")
    subject = started()
    for delta in (RawItem(APPROVAL), Text("May I?")):
        subject.feed(delta)
    subject.finish("stop")
    contract.check(subject.snapshot, provider="p")
    assert subject.snapshot.output[0] == APPROVAL
