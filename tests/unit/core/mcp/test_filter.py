"""Tools of MCP servers: which calls pass, which are made, and what the client sees of them."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.deltas import (
    Delta,
    Finish,
    RawItem,
    RawItemEvent,
    RawItemStarted,
    Text,
    ToolCall,
    ToolEnd,
)
from antiphon.core.history.steps import ImagePart, MessageStep, ToolCallStep, ToolResultStep
from antiphon.core.mcp.filter import McpFilter
from antiphon.core.mcp.toolset import McpOffer, McpPlan
from antiphon.core.mcp.values import McpImage, McpResult, McpServer
from antiphon.core.tools.declaration import ToolChoice
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from tests.support.filters import DrivenFilter
from tests.support.machines import counting_ids

SKY = McpServer(label="sky")
WEATHER = "sky__weather"
SECRET = "sky__secret"
OFFERS = {
    WEATHER: McpOffer(server=SKY, tool="weather", needs_approval=False),
    SECRET: McpOffer(server=SKY, tool="secret"),
}
TOOLS = ToolIdentityMap(
    [
        ToolIdentity(WEATHER, "weather", "mcp", "sky"),
        ToolIdentity(SECRET, "secret", "mcp", "sky"),
        ToolIdentity("sky", "sky"),
    ]
)
DONE = Finish("tool_calls")
FOUND = McpResult(text="Sunny.")


def make_filter(choice: ToolChoice | None = None, **plan: Any) -> DrivenFilter:
    return DrivenFilter(
        McpFilter(
            McpPlan(offers=OFFERS, **plan),
            tools=TOOLS,
            choice=choice or ToolChoice(),
            new_id=counting_ids(),
        )
    )


def call(index: int = 0, name: str = WEATHER, arguments: str = '{"city": "Ulm"}') -> ToolCall:
    return ToolCall(index, f"call_{index}", name, arguments)


def run_round(subject: DrivenFilter, *deltas: Delta, final: bool = True) -> list[Delta]:
    return [*(out for delta in deltas for out in subject.feed(delta)), *subject.close(final=final)]


def settle_all(subject: DrivenFilter, result: McpResult = FOUND) -> list[Delta]:
    deltas: list[Delta] = []
    while subject.searches:
        deltas += subject.settle(result)
    return deltas


def shown(deltas: list[Delta]) -> list[str]:
    found: list[str] = []
    for delta in deltas:
        match delta:
            case RawItemStarted(_, document, held):
                assert held
                found.append(f"{document['type']} begins")
            case RawItemEvent(_, name, fields):
                found.append(f"{name.removeprefix('response.')} {fields.get('delta', '')}".strip())
            case RawItem(document, _):
                found.append(f"{document['type']} ends")
            case _:
                found.append(type(delta).__name__)
    return found


# --- one round ------------------------------------------------------------------------------------


def test_other_deltas_pass_unchanged() -> None:
    subject = make_filter()
    deltas: list[Delta] = [Text("hi"), call(name="sky"), ToolCall(0, arguments=" "), ToolEnd(0)]
    assert run_round(subject, *deltas, DONE) == [*deltas, DONE]
    assert subject.wish is None


def test_a_call_of_a_server_is_an_item_whose_arguments_are_streamed() -> None:
    subject = make_filter()
    pieces: list[Delta] = [
        ToolCall(0, "call_1", WEATHER),
        ToolCall(0, arguments='{"city":'),
        ToolCall(0, arguments=' "Ulm"}'),
        ToolEnd(0),
    ]
    assert shown(run_round(subject, *pieces, DONE)) == [
        "mcp_call begins",
        "mcp_call.in_progress",
        'mcp_call_arguments.delta {"city":',
        'mcp_call_arguments.delta  "Ulm"}',
        "Finish",
        "mcp_call_arguments.done",
    ]
    [request] = subject.searches
    assert (request.tool, request.values) == ("weather", {"city": "Ulm"})
    deltas = settle_all(subject)
    assert shown(deltas) == ["mcp_call.completed", "mcp_call ends"]
    assert isinstance(deltas[-1], RawItem)
    assert deltas[-1].document["output"] == "Sunny."
    assert subject.follow_up is not None
    assert subject.follow_up.steps == ()  # the item has it all


def test_a_name_in_pieces_waits_until_it_is_known_whose_it_is() -> None:
    subject = make_filter()
    assert subject.feed(ToolCall(0, "call_1", "sky__wea")) == []
    assert subject.feed(ToolEnd(9)) == [ToolEnd(9)]
    assert shown(subject.feed(ToolCall(0, name="ther"))) == [
        "mcp_call begins",
        "mcp_call.in_progress",
    ]


def test_a_name_that_never_completes_is_the_clients_call() -> None:
    subject = make_filter()
    piece = ToolCall(0, "call_1", "sky__wea")
    assert run_round(subject, piece, ToolEnd(0), DONE) == [DONE, piece, ToolEnd(0)]
    assert subject.wish is None


def test_a_call_without_arguments_has_an_empty_object() -> None:
    subject = make_filter()
    run_round(subject, ToolCall(0, "call_1", WEATHER), DONE)
    [request] = subject.searches
    assert (request.arguments, request.values) == ("{}", {})


def test_arguments_that_are_no_object_never_reach_the_server() -> None:
    subject = make_filter()
    deltas = run_round(subject, call(arguments="[1]"), DONE)
    assert shown(deltas)[-2:] == ["mcp_call.failed", "mcp_call ends"]
    assert subject.searches == ()
    assert subject.follow_up is not None


def test_parallel_calls_are_made_together() -> None:
    subject = make_filter()
    run_round(subject, call(0), call(1), DONE)
    assert len(subject.searches) == 2
    assert len({request.call_id for request in subject.searches}) == 2
    assert shown(settle_all(subject)) == ["mcp_call.completed", "mcp_call ends"] * 2


def test_the_error_of_a_tool_is_a_result() -> None:
    subject = make_filter()
    run_round(subject, call(), DONE)
    deltas = settle_all(subject, McpResult(text="No such city.", is_error=True))
    assert shown(deltas) == ["mcp_call.failed", "mcp_call ends"]
    assert subject.follow_up is not None


def test_a_round_that_was_cut_off_makes_no_calls() -> None:
    subject = make_filter()
    run_round(subject, call(), Finish("length"))
    assert subject.wish is None


def test_calls_are_dropped_if_there_is_no_further_round() -> None:
    subject = make_filter()
    run_round(subject, call(), DONE)
    assert subject.give_up() == []


def test_pieces_of_the_clients_call_need_not_be_fed() -> None:
    subject = McpFilter(
        McpPlan(offers=OFFERS), tools=TOOLS, choice=ToolChoice(), new_id=counting_ids()
    )
    assert subject.passes(Text("x"))
    subject.feed(call(name="sky"))
    assert subject.passes(ToolCall(0))
    subject.feed(call(1))
    assert not subject.passes(ToolCall(1))


# --- approval -------------------------------------------------------------------------------------


def test_a_call_that_needs_approval_is_a_request_and_ends_the_response() -> None:
    subject = make_filter()
    pieces: list[Delta] = [
        ToolCall(0, "call_1", SECRET, '{"a"'),
        ToolCall(0, arguments=": 1}"),
        DONE,
    ]
    deltas = run_round(subject, *pieces)
    assert shown(deltas) == ["Finish", "mcp_approval_request ends"]
    assert isinstance(deltas[-1], RawItem)
    assert deltas[-1].document["arguments"] == '{"a": 1}'
    assert subject.wish is None


def test_other_calls_beside_a_request_for_approval_are_made() -> None:
    subject = make_filter()
    run_round(subject, call(0, SECRET), call(1), DONE)
    assert len(subject.searches) == 1
    settle_all(subject)
    assert subject.wish is None


# --- calls of the client --------------------------------------------------------------------------


def test_beside_a_call_of_the_client_there_is_no_further_round() -> None:
    subject = make_filter()
    run_round(subject, call(0), call(1, "sky"), DONE)
    settle_all(subject)
    assert subject.wish is None


def test_a_further_round_that_another_filter_wants_has_the_results() -> None:
    subject = make_filter()
    run_round(subject, call(0), call(1, "sky"), DONE, final=False)
    settle_all(subject)
    assert subject.follow_up is not None


# --- limits ---------------------------------------------------------------------------------------


def answers(subject: DrivenFilter) -> list[str]:
    assert subject.follow_up is not None
    return [
        part.text
        for step in subject.follow_up.steps
        if isinstance(step, ToolResultStep)
        for part in step.parts
        if not isinstance(part, ImagePart) and hasattr(part, "text")
    ]


def test_a_call_beyond_the_limit_is_answered_and_not_made() -> None:
    subject = make_filter(max_calls=1)
    deltas = run_round(subject, call(0), call(1), ToolCall(2, None, WEATHER, "["), DONE)
    assert shown(deltas).count("mcp_call begins") == 1
    settle_all(subject)
    assert subject.follow_up is not None
    calls = [step for step in subject.follow_up.steps if isinstance(step, ToolCallStep)]
    assert [step.arguments for step in calls] == ['{"city": "Ulm"}', '{"_malformed":"["}']
    assert all(step.call_id for step in calls)
    assert all("limit of tool calls" in text for text in answers(subject))
    assert [each.code for each in subject.take_diagnostics()] == ["mcp.limited"]


def test_calls_that_were_made_before_the_model_was_asked_count() -> None:
    subject = make_filter(max_calls=1, calls_made=1)
    assert shown(run_round(subject, call(), DONE)) == ["Finish"]
    assert len(answers(subject)) == 1


def choice_after_a_call(subject: DrivenFilter) -> ToolChoice | None:
    run_round(subject, call(), DONE)
    assert subject.follow_up is not None
    return subject.follow_up.tool_choice


def test_a_model_that_goes_on_calling_is_stopped() -> None:
    subject = make_filter(max_calls=0)
    assert choice_after_a_call(subject) is None
    assert choice_after_a_call(subject) == ToolChoice("none")
    run_round(subject, call(), DONE)
    assert subject.wish is None


@pytest.mark.parametrize("mode", ["required", "function"])
def test_a_call_is_forced_once(mode: Any) -> None:
    subject = make_filter(ToolChoice(mode, WEATHER))
    run_round(subject, call(), DONE)
    settle_all(subject)
    assert subject.follow_up is not None
    assert subject.follow_up.tool_choice == ToolChoice("auto")


# --- results --------------------------------------------------------------------------------------

IMAGE = McpResult(text="A map.", images=(McpImage(media_type="image/png", data="AA=="),))


def test_images_of_a_result_are_shown_to_a_model_that_takes_them() -> None:
    subject = make_filter(takes_images=True)
    run_round(subject, call(), DONE)
    settle_all(subject, IMAGE)
    assert subject.follow_up is not None
    [step] = subject.follow_up.steps
    assert isinstance(step, MessageStep)
    assert step.role == "user"
    assert step.parts[1] == ImagePart("data:image/png;base64,AA==")


def test_images_of_a_result_are_left_out_for_any_other_model() -> None:
    subject = make_filter()
    run_round(subject, call(), DONE)
    settle_all(subject, IMAGE)
    assert subject.follow_up is not None
    assert subject.follow_up.steps == ()


def test_a_result_that_was_cut_is_reported() -> None:
    subject = make_filter()
    run_round(subject, call(), DONE)
    settle_all(subject, McpResult(text="long", left_out=7))
    [diagnostic] = subject.take_diagnostics()
    assert diagnostic.code == "mcp.result_cut"
    assert "'weather'" in diagnostic.message
