"""MCP items of a thread: lists that need not be made again, and approvals."""

from __future__ import annotations

from typing import Any

from antiphon.core.mcp.items import approval_request_item, call_item, list_item
from antiphon.core.mcp.thread import (
    count_opening_calls,
    find_approved,
    find_calls_made,
    find_lists,
    inherit_tools,
)
from antiphon.core.mcp.toolset import read_toolset
from antiphon.core.mcp.values import McpProblem, McpResult, McpTool, McpToolList
from tests.support.mcp.value_servers import ValueRules
from tests.support.tables import table

Document = dict[str, Any]
FILES = read_toolset({"type": "mcp", "server_label": "files"}, ValueRules())
REQUEST = approval_request_item("mcpr_1", "files", "read", '{"path": "a"}')
CALL = call_item("mcp_1", "files", "read", approval_request_id="mcpr_1", result=McpResult(text="b"))
USER: Document = {"type": "message", "role": "user", "content": "Go on."}
REPLY: Document = {"type": "message", "role": "assistant", "content": "Done."}
OUTPUT: Document = {"type": "function_call_output", "call_id": "c", "output": "x"}


def listing(*names: str, label: str = "files") -> Document:
    tools = tuple(McpTool(name=name) for name in names)
    return list_item("mcpl_1", label, McpToolList(tools=tools))


def response_to(request_id: str = "mcpr_1", *, approve: object = True) -> Document:
    return {"type": "mcp_approval_response", "approval_request_id": request_id, "approve": approve}


def test_a_list_may_be_a_block_of_the_clients_format() -> None:
    block = {"type": "client_block", "format": "messages", "instead": listing("read")}
    assert [tool.name for tool in find_lists([USER, block])["files"]] == ["read"]


def approved(*items: Document) -> list[str]:
    return [each.request_id for each in find_approved(items, [FILES])]


def names(items: list[Document]) -> dict[str, list[str]]:
    return {label: [tool.name for tool in tools] for label, tools in find_lists(items).items()}


def test_the_newest_list_of_each_server_counts() -> None:
    items = [listing("old"), listing("b", label="other"), USER, listing("new")]
    assert names(items) == {"files": ["new"], "other": ["b"]}


def test_a_list_that_failed_or_has_no_label_is_none() -> None:
    failed = list_item("mcpl_2", "files", McpToolList(problem=McpProblem(type="x", message="no")))
    assert names([listing("old"), failed]) == {"files": ["old"]}
    assert names([failed, {"type": "mcp_list_tools", "tools": []}]) == {}


def test_an_approved_call_is_made_with_the_arguments_that_were_approved() -> None:
    [call] = find_approved([USER, REQUEST, response_to()], [FILES])
    assert (call.request_id, call.toolset, call.tool) == ("mcpr_1", FILES, "read")
    assert call.arguments == '{"path": "a"}'


def test_a_request_without_name_and_arguments_is_a_call_of_no_tool() -> None:
    bare = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "files"}
    [call] = find_approved([bare, response_to()], [FILES])
    assert (call.tool, call.arguments) == ("", "{}")


def test_an_approval_may_come_with_other_input() -> None:
    assert approved(REQUEST, OUTPUT, response_to(), USER) == ["mcpr_1"]
    assert approved(REQUEST, response_to(), {"role": "user", "content": "x"}) == ["mcpr_1"]


def test_an_approval_counts_once() -> None:
    assert approved(REQUEST, response_to(), response_to()) == ["mcpr_1"]
    assert approved(REQUEST, response_to(), CALL, USER) == []
    assert approved(REQUEST, CALL, response_to()) == []


def test_an_approval_that_the_model_has_replied_to_is_not_used_again() -> None:
    assert approved(REQUEST, response_to(), REPLY, USER) == []
    assert approved(REQUEST, response_to(), {"type": "reasoning"}, USER) == []


@table(
    "items",
    [
        (response_to(),),
        (REQUEST, response_to("mcpr_2")),
        (REQUEST, response_to(approve=False)),
        (REQUEST, response_to(approve="yes")),
        (REQUEST, {"type": "mcp_approval_response", "approve": True}),
        ({**REQUEST, "server_label": "gone"}, response_to()),
        ({**REQUEST, "server_label": None}, response_to()),
    ],
)
def test_without_request_approval_and_server_no_call_is_made(items: tuple[Document, ...]) -> None:
    assert approved(*items) == []


def test_calls_that_were_made_name_their_request() -> None:
    assert find_calls_made([REQUEST, CALL, call_item("mcp_2", "files", "read")]) == {"mcpr_1"}


def test_calls_before_the_model_was_asked_end_the_thread() -> None:
    assert count_opening_calls([CALL, USER, listing("read"), CALL, CALL]) == 2
    assert count_opening_calls([CALL, USER]) == 0
    assert count_opening_calls([]) == 0


# --- tools of a thread ----------------------------------------------------------------------------

READ: Document = {"type": "function", "name": "read"}


def server(label: str = "files", *, is_toolset: bool = False, **members: Any) -> Document:
    """A server as another client format names it."""
    own = {"type": "mcp_toolset"} if is_toolset else {"name": label}
    extra = {"format": "messages", "members": own}
    return {"type": "mcp", "server_label": label, "extra": extra, **members}


def test_a_request_without_tools_has_those_of_the_thread() -> None:
    other = {"type": "mcp", "server_label": "files"}
    assert inherit_tools((), [READ, other]) == (READ, other)
    assert inherit_tools((), ()) == ()


def test_a_request_with_tools_has_its_own() -> None:
    assert inherit_tools((READ,), [server()]) == (READ,)
    assert inherit_tools((READ, server()), [server("other")]) == (READ, server())


def test_servers_of_a_request_stand_beside_the_tools_of_the_thread() -> None:
    assert inherit_tools((server(),), [READ]) == (READ, server())


def test_a_toolset_of_the_thread_has_the_connection_of_the_request() -> None:
    toolset = server(is_toolset=True, toolset={"disabled": ["read"], "url_at": "a"}, server_url="x")
    connection: Document = {"server_url": "https://a/?key", "authorization": "secret"}
    other = server("other", is_toolset=True, server_url="https://b")
    named = server(**connection, toolset={"url_at": "b"})
    [joined, kept] = inherit_tools((named,), [toolset, other])
    assert joined == {**toolset, **connection, "toolset": {"disabled": ["read"], "url_at": "b"}}
    assert kept == other


def test_a_server_without_a_toolset_is_named_anew_or_not_there() -> None:
    restricted = server(allowed_tools=["read"])
    assert inherit_tools((restricted,), [READ, server()]) == (READ, restricted)
    assert inherit_tools((), [READ, server()]) == (READ,)
