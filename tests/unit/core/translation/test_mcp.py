"""Calls of MCP servers in a translation: before the first request, and between rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.core.client_profile import OTHER
from antiphon.core.deltas import Delta, Finish, Text, ToolCall
from antiphon.core.events import Event
from antiphon.core.faults.fault import timeout_fault
from antiphon.core.mcp.toolset import McpOffer, McpPlan, McpToolset
from antiphon.core.mcp.values import McpProblem, McpResult, McpServer, McpTool, McpToolList
from antiphon.core.plan.plan import Plan
from antiphon.core.response import Response
from antiphon.core.stream.source import Source
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.core.translation.filters import FilterChain, make_filters
from antiphon.core.translation.next_step import Calls, Ended, Round
from antiphon.core.translation.translation import Replanned, Translation, make_translation
from tests.support.machines import (
    NOW,
    Document,
    ScriptedDecoder,
    ScriptedDialect,
    counting_ids,
    documents,
)
from tests.support.stream_validator import check

SKY = McpServer(label="sky")
TOOLSET = McpToolset(server=SKY)
LISTED = McpToolList(tools=(McpTool(name="weather"),))
NAME = "sky__weather"
UNLISTED = McpPlan(toolsets=(TOOLSET,), unlisted=(TOOLSET,))
OFFERED = McpPlan(
    toolsets=(TOOLSET,), offers={NAME: McpOffer(server=SKY, tool="weather", needs_approval=False)}
)
TOOLS = ToolIdentityMap([ToolIdentity(NAME, "weather", "mcp", "sky"), ToolIdentity("own", "own")])
CALL: list[Delta] = [ToolCall(0, "call_1", NAME, "{}"), Finish("tool_calls")]


def plan(mcp: McpPlan, **fields: Any) -> Plan:
    return Plan(provider="p", model="m", mcp=mcp, identities=TOOLS, **fields)


def source(*deltas: Delta) -> Source:
    return Source(ScriptedDialect(ScriptedDecoder([[delta] for delta in deltas])))


def translation_of(mcp: McpPlan, *deltas: Delta, **fields: Any) -> Translation:
    return make_translation(
        plan(mcp, **fields),
        source(*deltas),
        Response(id="resp_1", created_at=NOW, model="m"),
        new_id=counting_ids(),
        now=lambda: NOW,
    )


def read(translation: Translation, number: int) -> list[Event]:
    return [event for _ in range(number) for event in translation.feed(b"x")] + translation.close()


def checked(events: Sequence[Event]) -> list[Document]:
    seen = documents(events)
    check(seen)
    return seen


def replanned() -> Replanned:
    return Replanned(TOOLS, make_filters(plan(OFFERED), OTHER, counting_ids()))


def test_a_response_opens_with_the_list_of_tools() -> None:
    translation = translation_of(UNLISTED)
    assert translation.opens_with_calls
    events = translation.open_calls()
    assert [each["type"] for each in documents(events)] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.mcp_list_tools.in_progress",
    ]
    assert isinstance(translation.next, Calls)
    events += translation.settle_call(LISTED)
    assert isinstance(translation.next, Round)
    assert [item["type"] for item in translation.next.items] == ["mcp_list_tools"]
    assert translation.next.is_required
    translation.begin_round()
    translation.read_from(source(*CALL), replanned())
    events += read(translation, 2)
    events += translation.settle_call(McpResult(text="Sunny."))
    translation.begin_round()
    translation.read_from(source(Text("It is sunny."), Finish("stop")))
    events += read(translation, 2)
    output = checked(events)[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["mcp_list_tools", "mcp_call", "message"]
    assert output[1]["output"] == "Sunny."


def test_tools_that_become_known_later_are_the_clients_too() -> None:
    translation = translation_of(UNLISTED)
    events = translation.open_calls() + translation.settle_call(LISTED)
    translation.begin_round()
    own = source(ToolCall(0, "call_1", "own", "{}"), Finish("tool_calls"))
    translation.read_from(own, replanned())
    events += read(translation, 2)
    assert checked(events)[-1]["response"]["output"][1]["name"] == "own"


def test_a_list_that_fails_ends_the_response() -> None:
    translation = translation_of(UNLISTED)
    events = translation.open_calls()
    problem = McpProblem(type="http_error", message="HTTP 401", code=401)
    events += translation.settle_call(McpToolList(problem=problem))
    seen = checked(events)
    assert [each["type"] for each in seen[-3:]] == [
        "response.mcp_list_tools.failed",
        "response.output_item.done",
        "response.failed",
    ]
    assert seen[-1]["response"]["output"][0]["error"] == "HTTP 401"
    assert isinstance(translation.next, Ended)


def test_a_request_that_cannot_be_served_with_the_tools_fails() -> None:
    translation = translation_of(UNLISTED)
    events = translation.open_calls() + translation.settle_call(LISTED)
    events += translation.fail("At most 1 tool.")
    error = checked(events)[-1]["response"]["error"]
    assert error == {"code": "invalid_prompt", "message": "At most 1 tool."}


def test_a_response_fails_if_no_model_can_be_asked() -> None:
    translation = translation_of(UNLISTED)
    events = translation.open_calls() + translation.settle_call(LISTED)
    translation.begin_round()
    events += translation.give_up_round(timeout_fault("total"))
    assert checked(events)[-1]["response"]["status"] == "failed"


def test_other_filters_want_nothing_before_the_first_request() -> None:
    chain = FilterChain(make_filters(plan(OFFERED), OTHER, counting_ids()), [])
    assert chain.open() == []
    assert not chain.wishes


def test_a_call_stays_open_while_it_is_made() -> None:
    translation = translation_of(OFFERED, *CALL[:1], Text("Wait."), CALL[1])
    assert not translation.opens_with_calls
    events = read(translation, 3)
    assert documents(events)[-1]["type"] == "response.mcp_call_arguments.done"
    events += translation.settle_call(McpResult(text="Sunny."))
    kinds = [each["type"].removeprefix("response.") for each in documents(events)]
    assert kinds[kinds.index("mcp_call.completed") :][:3] == [
        "mcp_call.completed",
        "output_item.done",
        "output_item.added",
    ]
    assert isinstance(translation.next, Round)
    assert [item["type"] for item in translation.next.items] == ["mcp_call", "message"]


def test_a_call_of_a_response_that_fails_has_failed() -> None:
    translation = translation_of(OFFERED, *CALL)
    events = read(translation, 2)
    events += translation.fail(timeout_fault("total"))
    seen = checked(events)
    assert seen[-1]["response"]["output"][0]["status"] == "failed"
    assert "response.mcp_call.failed" in [each["type"] for each in seen]


def test_output_in_a_format_waits_until_no_call_follows() -> None:
    contract = OutputContract(requested="json_object", asked="json_object")
    translation = translation_of(OFFERED, Text("Let me see."), *CALL, contract=contract)
    events = read(translation, 3)
    events += translation.settle_call(McpResult(text="Sunny."))
    translation.begin_round()
    translation.read_from(source(Text('{"sky": "clear"}'), Finish("stop")))
    events += read(translation, 2)
    response = checked(events)[-1]["response"]
    assert response["output"][-1]["content"][0]["text"] == '{"sky": "clear"}'
