"""Before the model is asked: lists of tools, and calls that the client has approved."""

from __future__ import annotations

from antiphon.core.deltas import (
    Delta,
    Failure,
    RawItem,
    RawItemEvent,
    RawItemStarted,
    Text,
)
from antiphon.core.faults.messages import describe
from antiphon.core.filters.filter import FollowUp, RoundWish
from antiphon.core.filters.gateway_call import CallWish
from antiphon.core.history.steps import ImagePart, MessageStep, TextPart
from antiphon.core.mcp.opening import McpOpening
from antiphon.core.mcp.server_calls import ListToolsCall, ToolCallRequest
from antiphon.core.mcp.toolset import ApprovedCall, McpPlan, McpToolset, ToolFilter
from antiphon.core.mcp.values import (
    McpImage,
    McpProblem,
    McpResult,
    McpServer,
    McpTool,
    McpToolList,
)
from tests.support.filters import DrivenFilter
from tests.support.machines import counting_ids

A = McpToolset(server=McpServer(label="a"))
B = McpToolset(server=McpServer(label="b"), allowed=ToolFilter(frozenset({"read"})))
READ = McpToolList(tools=(McpTool(name="read"), McpTool(name="write")))
GO_ON = RoundWish(FollowUp(steps=()), is_required=True)


def approved(
    tool: str = "read", arguments: str = '{"path": "x"}', of: McpToolset = B
) -> ApprovedCall:
    return ApprovedCall(request_id="mcpr_1", toolset=of, tool=tool, arguments=arguments)


def opened(plan: McpPlan) -> DrivenFilter:
    subject = DrivenFilter(McpOpening(plan, counting_ids()))
    subject.open()
    return subject


def shown(deltas: list[Delta]) -> list[str]:
    """The deltas, in short."""
    found: list[str] = []
    for delta in deltas:
        match delta:
            case RawItemStarted(_, document, held):
                assert held
                found.append(f"{document['type']} begins")
            case RawItemEvent(_, name, _):
                found.append(name.removeprefix("response."))
            case RawItem(document, _):
                found.append(f"{document['type']} ends")
            case _:
                found.append(type(delta).__name__)
    return found


def test_servers_are_asked_for_their_tools_one_item_after_the_other() -> None:
    subject = opened(McpPlan(toolsets=(A, B), unlisted=(A, B)))
    assert [call.server.label for call in subject.searches] == ["a", "b"]
    order = [
        "mcp_list_tools begins",
        "mcp_list_tools.in_progress",
        "mcp_list_tools.completed",
        "mcp_list_tools ends",
    ]
    assert shown(subject.settle(READ)) == order
    assert [call.server.label for call in subject.searches] == ["b"]
    assert shown(subject.settle(READ)) == order
    assert subject.wish == GO_ON


def test_tools_that_were_left_out_are_reported() -> None:
    subject = opened(McpPlan(toolsets=(A, B), unlisted=(A, B)))
    subject.settle(McpToolList(left_out=("huge",)))
    subject.settle(McpToolList(left_out=tuple("abcdefg")))
    few, many = subject.take_diagnostics()
    assert few.message.endswith("left out: 'huge'.")
    assert many.message.endswith("'e' and 2 more.")


def test_a_list_that_fails_fails_the_response() -> None:
    subject = opened(McpPlan(toolsets=(A, B), unlisted=(A, B)))
    problem = McpProblem(type="http_error", message="HTTP 401", code=401)
    deltas = subject.settle(McpToolList(problem=problem))
    assert shown(deltas) == [
        "mcp_list_tools begins",
        "mcp_list_tools.in_progress",
        "mcp_list_tools.failed",
        "mcp_list_tools ends",
        "Failure",
    ]
    assert isinstance(deltas[-1], Failure)
    fault = deltas[-1].fault
    assert (fault.code, fault.http_status) == ("mcp_list_failed", 424)
    assert describe(fault).startswith("The MCP server 'a' did not list its tools (HTTP 401).")
    assert subject.wish is None


def test_approved_calls_are_made_when_the_tools_are_known() -> None:
    subject = opened(
        McpPlan(toolsets=(A, B), unlisted=(A,), listed={"b": READ.tools}, approved=(approved(),))
    )
    subject.settle(READ)
    [call] = subject.searches
    assert isinstance(call, ToolCallRequest)
    assert (call.tool, call.values, call.approval_request_id) == ("read", {"path": "x"}, "mcpr_1")
    deltas = subject.settle(McpResult(text="found", left_out=5))
    assert shown(deltas) == [
        "mcp_call begins",
        "mcp_call.in_progress",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "mcp_call ends",
    ]
    assert isinstance(deltas[-1], RawItem)
    assert deltas[-1].document["output"] == "found"
    assert deltas[-1].document["approval_request_id"] == "mcpr_1"
    assert [each.code for each in subject.take_diagnostics()] == ["mcp.result_cut"]
    assert subject.wish == GO_ON


def test_the_images_of_a_result_go_to_the_model_beside_its_item() -> None:
    plan = McpPlan(toolsets=(B,), listed={"b": READ.tools}, approved=(approved(), approved()))
    subject = opened(plan)
    subject.settle(McpResult(images=(McpImage(media_type="image/png", data="AA=="),)))
    subject.settle(McpResult(text="found"))
    images = ImagePart("data:image/png;base64,AA==")
    shown_images = MessageStep("user", (TextPart("[images in the result of read]"), images))
    assert subject.wish == RoundWish(FollowUp(steps=(shown_images,)), is_required=True)


def test_a_call_that_cannot_be_made_has_an_error() -> None:
    calls = (approved("write"), approved("gone"), approved(arguments="[]"), approved())
    subject = DrivenFilter(
        McpOpening(McpPlan(toolsets=(B,), listed={"b": READ.tools}, approved=calls), counting_ids())
    )
    deltas = subject.open()
    items = [delta.document for delta in deltas if isinstance(delta, RawItem)]
    assert [item["status"] for item in items] == ["failed"] * 3
    messages = [item["error"]["message"] for item in items]
    assert messages[0] == messages[1]
    assert "does not allow this tool" in messages[0]
    assert "not a JSON object" in messages[2]
    assert len(subject.searches) == 1


def test_calls_that_are_interrupted_have_failed() -> None:
    listed = ListToolsCall(call_id="mcpl_1", server=A.server, number=-1).fail()
    assert listed.problem is not None
    call = ToolCallRequest(call_id="mcp_1", server=A.server, number=-1, tool="t", arguments="{}")
    assert call.fail().problem is not None


def test_everything_else_passes() -> None:
    assert McpOpening(McpPlan(), counting_ids()).feed(Text("x")) == [Text("x")]


def test_a_call_is_wanted_before_a_round() -> None:
    subject = opened(McpPlan(toolsets=(A,), unlisted=(A,)))
    assert isinstance(subject.wish, CallWish)
