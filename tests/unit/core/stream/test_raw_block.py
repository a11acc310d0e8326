"""Raw items that the provider starts, reports on and ends: their events and their order."""

from __future__ import annotations

from typing import Any

from antiphon.core.deltas import (
    Delta,
    EmptyReasoning,
    Finish,
    RawItem,
    RawItemEvent,
    RawItemStarted,
    ReasoningState,
    Text,
    ToolCall,
)
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.stream.machine import ResponseMachine
from tests.support.machines import Document, documents, machine, run
from tests.support.openai_sdk_check import check_with_sdk
from tests.support.stream_validator import check
from tests.support.tables import table

PLACE = {"item_id": "ws_theirs", "output_index": 7}
SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "rain"},
}
CODE = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "status": "completed",
    "code": "1+1",
    "container_id": "cntr_1",
    "outputs": None,
}
MCP = {
    "type": "mcp_call",
    "id": "mcp_1",
    "status": "completed",
    "name": "ask",
    "server_label": "wiki",
    "arguments": '{"q":1}',
}
SHELL = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "call_1",
    "status": "completed",
    "action": {"commands": ["ls"], "timeout_ms": None, "max_output_length": None},
}

VENDOR = {"type": "vendor_call", "id": "vc_1", "status": "completed"}


def start(item: Document, number: int = 0) -> RawItemStarted:
    return RawItemStarted(number, {**item, "status": "in_progress"})


def progress(name: str, number: int = 0, **fields: Any) -> RawItemEvent:
    return RawItemEvent(number, f"response.{name}", {**PLACE, **fields})


def stages(*names: str, tool: str = "web_search_call", number: int = 0) -> list[Delta]:
    return [progress(f"{tool}.{name}", number) for name in names]


def events_of(*deltas: Delta) -> list[Document]:
    events = run([*deltas, Finish("stop")])
    check(events)
    check_with_sdk(events)
    return events


def item_events(*deltas: Delta) -> list[Document]:
    return [event for event in events_of(*deltas) if "output_index" in event]


def kinds(events: list[Document]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def started_machine() -> ResponseMachine:
    subject = machine()
    subject.start()
    return subject


def test_progress_is_sent_at_once_with_the_place_of_our_item() -> None:
    subject = started_machine()
    subject.feed(Text("Let me look."))
    added = documents(subject.feed(start(SEARCH)))[-1]
    assert added["item"] == SEARCH | {"status": "in_progress"}
    [event] = documents(subject.feed(progress("web_search_call.in_progress", note="theirs")))
    assert event == {
        "type": "response.web_search_call.in_progress",
        "sequence_number": 0,
        "item_id": "ws_1",
        "output_index": 1,
        "note": "theirs",
    }
    [done] = documents(subject.feed(RawItem(SEARCH, 0)))[-1:]
    assert (done["type"], done["item"]) == ("response.output_item.done", SEARCH)


def test_every_stage_is_passed_on_in_order() -> None:
    names = ("in_progress", "searching", "completed")
    events = item_events(start(SEARCH), *stages(*names), RawItem(SEARCH, 0))
    assert kinds(events)[1:-1] == [f"web_search_call.{name}" for name in names]


@table(
    ("sent", "expected"),
    [
        (("searching",), ("in_progress", "searching", "completed")),
        (("in_progress", "in_progress", "completed"), ("in_progress", "completed")),
        (("completed", "searching"), ("in_progress", "completed")),
        ((), ()),
    ],
)
def test_stages_that_are_missing_or_repeated_are_put_right(
    sent: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    events = item_events(start(SEARCH), *stages(*sent), RawItem(SEARCH, 0))
    assert kinds(events)[1:-1] == [f"web_search_call.{name}" for name in expected]


def test_a_failed_mcp_call_without_a_last_stage_has_failed() -> None:
    failed = MCP | {"status": "failed", "error": None}
    events = item_events(start(MCP), *stages("in_progress", tool="mcp_call"), RawItem(failed, 0))
    assert kinds(events)[-2] == "mcp_call.failed"


def test_an_event_that_is_no_stage_is_passed_on_unchanged() -> None:
    code = [progress("code_interpreter_call_code.delta", delta=piece) for piece in ("1+", "1")]
    whole = progress("code_interpreter_call_code.done", code="1+1")
    events = item_events(start(CODE | {"code": ""}), *code, whole, RawItem(CODE, 0))
    assert [event.get("delta", event.get("code")) for event in events[1:-1]] == ["1+", "1", "1+1"]


@table(
    "name",
    ["web_search_call.in_progress", "mcp_call_arguments.delta", "code_interpreter_call_code.delta"],
)
def test_progress_of_another_tool_than_that_of_the_item_is_dropped(name: str) -> None:
    item = {**VENDOR, "type": "web_searc\ufffdh_call"}
    events = run([start(item), progress(name, delta="1"), RawItem(item, 0), Finish("stop")])
    check(events)
    assert kinds(events)[2:-1] == ["output_item.added", "output_item.done"]


def test_progress_of_a_tool_that_nobody_knows_is_passed_on() -> None:
    sent = RawItemEvent(0, "response.vendor_progress.delta", PLACE)
    events = run([start(VENDOR), sent, RawItem(VENDOR, 0), Finish("stop")])
    [event] = [each for each in events if "item_id" in each]
    assert event == {**event, "type": "response.vendor_progress.delta", "output_index": 0}


def test_the_type_of_an_item_stays_as_it_was_announced() -> None:
    ended = {**SEARCH, "type": "web_searc\ufffdh_call"}
    events = item_events(start(SEARCH), *stages("in_progress"), RawItem(ended, 0))
    assert {event["item"]["type"] for event in events if "item" in event} == {"web_search_call"}


def test_an_event_without_an_item_id_gets_none() -> None:
    fields = {"output_index": 7, "command_index": 0, "command": "ls"}
    command = RawItemEvent(0, "response.shell_call_command.added", fields)
    [event] = item_events(start(SHELL), command, RawItem(SHELL, 0))[1:-1]
    assert event["output_index"] == 0
    assert "item_id" not in event


def test_progress_of_an_item_that_waits_is_sent_when_its_turn_comes() -> None:
    subject = started_machine()
    subject.feed(ToolCall(0, "a", "get_weather", '{"x"'))
    assert subject.feed(start(SEARCH)) == []
    for delta in stages("in_progress", "searching"):
        assert subject.feed(delta) == []
    events = documents(subject.feed(ToolCall(0, arguments=":1}")))
    assert kinds(events)[-3:] == [
        "output_item.added",
        "web_search_call.in_progress",
        "web_search_call.searching",
    ]
    assert {event["output_index"] for event in events[-3:]} == {1}


def test_items_that_run_at_the_same_time_are_sent_one_after_the_other() -> None:
    second = SEARCH | {"id": "ws_2"}
    events = item_events(
        start(SEARCH),
        start(second, 1),
        *stages("in_progress", number=1),
        *stages("in_progress"),
        RawItem(second, 1),
        Text("Rain."),
        RawItem(SEARCH, 0),
    )
    assert [event["output_index"] for event in events] == sorted(
        event["output_index"] for event in events
    )
    assert [event["item"]["id"] for event in events if kinds([event]) == ["output_item.done"]] == [
        "ws_1",
        "ws_2",
        "msg_n1",
    ]


def test_text_after_a_finished_item_goes_on_streaming() -> None:
    subject = started_machine()
    subject.feed(start(SEARCH))
    assert subject.feed(Text("Ra")) == []
    subject.feed(RawItem(SEARCH, 0))
    assert kinds(documents(subject.feed(Text("in.")))) == ["output_text.delta"]


# What identifies an item


def test_the_id_of_an_item_stays_as_it_was_announced() -> None:
    changed = SHELL | {"id": "sh_other", "call_id": "call_other"}
    added, done = item_events(start(SHELL), RawItem(changed, 0))
    assert (done["item"]["id"], done["item"]["call_id"]) == ("sh_1", "call_1")
    assert added["item"]["id"] == "sh_1"


def test_an_id_that_clients_would_not_accept_is_replaced_in_every_event() -> None:
    odd = SEARCH | {"id": "57dd7f2e"}
    events = item_events(start(odd), *stages("in_progress"), RawItem(odd, 0))
    ids = {event.get("item_id") or event["item"]["id"] for event in events}
    assert ids == {"ws_n1"}


def test_a_search_is_announced_with_an_action() -> None:
    bare = {"type": "web_search_call", "id": "ws_1", "status": "in_progress"}
    added, _ = item_events(RawItemStarted(0, bare), RawItem(SEARCH, 0))
    assert added["item"]["action"] == {"type": "search", "query": ""}


# Arguments of an MCP call


def mcp_arguments(*texts: str, whole: str | None) -> list[Delta]:
    pieces = [progress("mcp_call_arguments.delta", delta=text) for text in texts]
    return [*pieces, progress("mcp_call_arguments.done", arguments=whole)]


@table(
    ("sent", "final", "expected"),
    [
        (mcp_arguments('{"q"', ":1}", whole='{"q":1}'), '{"q":1}', '{"q":1}'),
        (mcp_arguments('{"q"', whole='{"q":1}'), '{"q":1}', '{"q":1}'),
        (mcp_arguments('{"q":1}', whole='{"q":2}'), '{"q":2}', '{"q":1}'),
        (mcp_arguments('{"q":1}', whole=None), None, '{"q":1}'),
        (mcp_arguments(whole=None), None, None),
        ([*mcp_arguments(whole="{}"), *mcp_arguments("late", whole="{}")], "{}", "{}"),
        ([progress("mcp_call_arguments.delta", delta=5)], "{}", "{}"),
        ([], '{"q":1}', '{"q":1}'),
    ],
)
def test_the_arguments_of_an_mcp_call_are_the_sum_of_their_deltas(
    sent: list[Delta], final: str | None, expected: str | None
) -> None:
    subject = started_machine()
    deltas = [start(MCP), *sent, RawItem(MCP | {"arguments": final}, 0)]
    events = documents([event for delta in deltas for event in subject.feed(delta)])
    pieces = [each["delta"] for each in events if each["type"].endswith("arguments.delta")]
    dones = [each["arguments"] for each in events if each["type"].endswith("arguments.done")]
    assert events[-1]["item"]["arguments"] == expected
    assert "".join(pieces) == (expected or "")
    assert dones == ([expected] if expected is not None else [])


# Items that are never ended


@table(
    ("item", "status"),
    [(SEARCH, "failed"), (SHELL, "incomplete"), (MCP, "failed"), (VENDOR, "failed")],
)
def test_an_item_that_is_never_ended_did_not_succeed(item: Document, status: str) -> None:
    subject = started_machine()
    subject.feed(start(item))
    terminal = documents(subject.fail(protocol_fault("gone")))[-1]
    assert [each["status"] for each in terminal["response"]["output"]] == [status]


def test_an_item_without_a_status_gets_none_when_it_is_never_ended() -> None:
    request = {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "server_label": "wiki",
        "name": "ask",
        "arguments": "{}",
    }
    [_, done] = item_events(RawItemStarted(0, request))
    assert done["item"] == request


def test_a_list_of_tools_that_is_never_ended_has_failed_and_is_not_an_empty_list() -> None:
    tools = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "wiki", "tools": []}
    events = item_events(
        RawItemStarted(0, tools), *stages("in_progress", tool="mcp_list_tools"), Text("Rain.")
    )
    assert kinds(events)[:4] == [
        "output_item.added",
        "mcp_list_tools.in_progress",
        "mcp_list_tools.failed",
        "output_item.done",
    ]
    error = "The response ended before the server had sent its result."
    assert events[3]["item"] == {**tools, "error": error}


def test_an_mcp_call_that_is_never_ended_has_an_error() -> None:
    begun = {**MCP, "arguments": "", "output": None, "error": None}
    events = item_events(start(begun), *mcp_arguments('{"q":', whole=None), Text("Rain."))
    item = next(each["item"] for each in events if each["type"] == "response.output_item.done")
    assert item["error"] == {
        "type": "mcp_protocol_error",
        "code": -32603,
        "message": "The response ended before the server had sent its result.",
    }
    assert (item["status"], item["output"], item["arguments"]) == ("failed", None, '{"q":')


def test_an_mcp_call_keeps_the_error_that_it_had_when_it_is_never_ended() -> None:
    subject = started_machine()
    subject.feed(start({**MCP, "error": "refused"}))
    terminal = documents(subject.fail(protocol_fault("gone")))[-1]
    assert [each["error"] for each in terminal["response"]["output"]] == ["refused"]


def test_an_unfinished_search_of_a_complete_response_is_failed_and_never_completed() -> None:
    events = item_events(start(SEARCH), *stages("in_progress"), Text("Rain."))
    assert kinds(events)[:3] == [
        "output_item.added",
        "web_search_call.in_progress",
        "output_item.done",
    ]
    assert events[2]["item"]["status"] == "failed"


def test_a_failed_stage_is_passed_on_only_for_tools_that_have_this_event_in_the_api() -> None:
    failed = SEARCH | {"status": "failed"}
    events = item_events(start(SEARCH), *stages("in_progress", "failed"), RawItem(failed, 0))
    assert kinds(events)[1:-1] == ["web_search_call.in_progress"]
    events = item_events(start(MCP), *stages("failed", tool="mcp_call"), RawItem(MCP, 0))
    assert kinds(events)[1:3] == ["mcp_call.in_progress", "mcp_call.failed"]


def test_the_end_of_a_round_ends_the_items_of_that_round() -> None:
    subject = started_machine()
    subject.feed(start(SEARCH))
    subject.feed(Text("Rain."))
    events = documents(subject.end_round())
    assert [each["item"]["type"] for each in events if kinds([each]) == ["output_item.done"]] == [
        "web_search_call",
        "message",
    ]
    subject.next_round()
    assert subject.feed(progress("web_search_call.searching")) == []


def test_the_end_of_an_item_that_was_not_started_is_a_whole_item() -> None:
    added, done = item_events(RawItem(SEARCH, 3))
    assert (added["item"]["status"], done["item"]) == ("in_progress", SEARCH)


# Reasoning without text


def test_empty_reasoning_is_an_item_of_its_own() -> None:
    items = events_of(EmptyReasoning(), EmptyReasoning(), Text("a"))[-1]["response"]["output"]
    assert [(item["type"], item.get("summary")) for item in items] == [
        ("reasoning", []),
        ("reasoning", []),
        ("message", None),
    ]


def test_state_of_empty_reasoning_is_sealed_into_its_item() -> None:
    subject = machine(seal=lambda states, raw: f"{raw}:{[state.value for state in states]}")
    subject.start()
    subject.feed(EmptyReasoning())
    subject.feed(ReasoningState("s", 1, "block"))
    [item] = documents(subject.finish("stop"))[-1]["response"]["output"]
    assert item["encrypted_content"] == ":[1]"


@table(
    ("sent", "status"),
    [
        ("searching", "completed"),
        (None, "completed"),
        ([], "completed"),
        ("failed", "failed"),
        ("cancelled", "failed"),
    ],
)
def test_a_finished_item_has_a_final_status(sent: object, status: str) -> None:
    events = run([RawItem({**SEARCH, "status": sent}), Finish("stop")])
    check(events)
    assert events[-1]["response"]["output"][0]["status"] == status
