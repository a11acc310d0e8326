"""Planning of MCP servers: their tools become functions, their history calls of them."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.capabilities import Capabilities
from antiphon.core.filters.filter import FollowUp
from antiphon.core.history.capsule import Unopened
from antiphon.core.history.steps import (
    ImagePart,
    MessageStep,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.mcp.items import approval_request_item, call_item, list_item
from antiphon.core.mcp.toolset import McpPlan
from antiphon.core.mcp.values import McpResult, McpTool, McpToolList
from antiphon.core.plan.declare_mcp import add_servers
from antiphon.core.plan.hosted_tools import HostedToolPolicy
from antiphon.core.plan.next_round import FinishedRound, can_take_over, plan_next_round
from antiphon.core.plan.plan import Plan
from antiphon.core.plan.planner import ModelTarget, PlanInputs, Planner
from antiphon.core.plan.tool_registry import ToolRegistry
from antiphon.core.request import Request
from antiphon.core.tools.declaration import ToolChoice
from antiphon.errors import InvalidRequest
from tests.support.mcp.value_servers import ValueRules
from tests.support.plans import make_plan
from tests.support.tables import table

Document = dict[str, Any]
MANAGED = HostedToolPolicy(mcp=ValueRules())
USER: Document = {"type": "message", "role": "user", "content": "Hello?"}
CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}
READ: Document = {"type": "function", "name": "read", "parameters": {"type": "object"}}


def server(label: str = "sky", **fields: Any) -> Document:
    return {"type": "mcp", "server_label": label, "require_approval": "never", **fields}


def listing(*names: str, label: str = "sky", schema: Document | None = None) -> Document:
    tools = tuple(
        McpTool(name=name, description=f"Does {name}.", input_schema=schema or {}) for name in names
    )
    return list_item("mcpl_1", label, McpToolList(tools=tools))


def plan(
    *items: Document,
    tools: tuple[Document, ...] = (server(),),
    policy: HostedToolPolicy = MANAGED,
    capabilities: Capabilities | None = None,
    **request: Any,
) -> Plan:
    return make_plan(
        Request(raw={}, model="m", input=(USER, *items), tools=tools, **request),
        capabilities=capabilities or Capabilities(),
        hosted_tools=policy,
    )


def mcp_of(found: Plan) -> McpPlan:
    assert found.mcp is not None
    return found.mcp


def declared(found: Plan) -> list[str]:
    return [each.name for each in found.declarations]


def calls(steps: tuple[Step, ...]) -> list[tuple[str, ...]]:
    """Calls and results of a history, in short."""
    short: list[tuple[str, ...]] = []
    for step in steps:
        if isinstance(step, ToolCallStep):
            short.append(("call", step.call_id, f"{step.namespace}.{step.name}"))
        elif isinstance(step, ToolResultStep):
            [part] = step.parts
            assert isinstance(part, TextPart)
            short.append(("result", step.call_id, part.text))
    return short


# --- declaration ----------------------------------------------------------------------------------


def test_a_request_without_servers_has_no_plan_for_them() -> None:
    assert plan(tools=()).mcp is None
    assert plan(tools=(READ,)).mcp is None
    registry = ToolRegistry(Capabilities(), [])
    assert add_servers(registry, [], Capabilities(), MANAGED, []) is None


def test_a_server_that_the_thread_does_not_list_has_to_be_asked() -> None:
    found = plan(tools=(READ, server()))
    assert [each.label for each in mcp_of(found).unlisted] == ["sky"]
    assert mcp_of(found).needs_opening
    assert declared(found) == ["read"]
    assert found.diagnostics == ()
    assert found.used.unused == ()


def test_listed_tools_are_functions() -> None:
    found = plan(listing("weather"), tools=(server(server_description="The sky."),))
    [declaration] = found.declarations
    assert declaration.name == "sky__weather"
    assert declaration.description == "Does weather.\n\nAbout all sky tools: The sky."
    assert declaration.parameters == {"type": "object", "properties": {}}
    assert not mcp_of(found).needs_opening
    offer = mcp_of(found).offers["sky__weather"]
    assert (offer.server.label, offer.tool, offer.needs_approval) == ("sky", "weather", False)
    assert found.diagnostics == ()


def test_two_servers_may_have_a_tool_of_the_same_name() -> None:
    items = (listing("weather"), listing("weather", label="sea"))
    found = plan(*items, tools=(server(), server("sea")))
    assert declared(found) == ["sky__weather", "sea__weather"]
    offers = mcp_of(found).offers
    assert [offers[name].server.label for name in declared(found)] == ["sky", "sea"]


def test_the_clients_own_tools_keep_their_names() -> None:
    own = {**READ, "name": "sky__weather"}
    found = plan(listing("weather"), tools=(server(), own))
    first, second = declared(found)
    assert first == "sky__weather"
    assert second.startswith("sky__weather_")
    assert list(mcp_of(found).offers) == [second]


def test_a_name_that_no_provider_accepts_is_replaced() -> None:
    found = plan(
        listing("what is the weather? " * 9, label="an odd label"), tools=(server("an odd label"),)
    )
    [name] = declared(found)
    assert len(name) <= 64
    assert name.replace("_", "").isalnum()


def test_only_allowed_tools_are_offered() -> None:
    found = plan(listing("weather", "storm"), tools=(server(allowed_tools=["storm"]),))
    assert declared(found) == ["sky__storm"]


def test_approval_is_decided_for_each_tool() -> None:
    rule = {"never": {"tool_names": ["weather"]}}
    found = plan(listing("weather", "storm"), tools=(server(require_approval=rule),))
    needed = {offer.tool: offer.needs_approval for offer in mcp_of(found).offers.values()}
    assert needed == {"weather": False, "storm": True}


def test_a_schema_is_opened_for_a_provider_that_rejects_closed_ones() -> None:
    found = plan(listing("weather", schema=CLOSED), capabilities=Capabilities(closed_objects=False))
    assert found.declarations[0].parameters == {"type": "object", "properties": {}}


def test_the_limit_of_calls_is_that_of_the_request() -> None:
    assert mcp_of(plan(listing("weather"), max_tool_calls=3)).max_calls == 3
    assert mcp_of(plan(listing("weather"))).max_calls is None


def test_a_label_names_one_server() -> None:
    with pytest.raises(InvalidRequest, match="Two MCP servers have the label 'sky'") as error:
        plan(tools=(server(), server()))
    assert error.value.param == "tools[1].server_label"


# --- who runs them --------------------------------------------------------------------------------


def test_a_provider_that_runs_servers_itself_does() -> None:
    native = Capabilities(hosted_tools=frozenset({"mcp"}))
    found = plan(listing("weather"), capabilities=native)
    assert found.mcp is None
    assert found.native_tools == (server(),)


def test_a_gateway_without_servers_refuses_them() -> None:
    with pytest.raises(InvalidRequest, match=r"see \[mcp\]"):
        plan(policy=HostedToolPolicy())


@table("field", ["connector_id", "tunnel_id"])
def test_a_server_behind_a_connector_is_refused(field: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be run"):
        plan(tools=(server(**{field: "connector_gmail"}),))


def test_a_server_in_a_namespace_or_the_input_is_none() -> None:
    namespace = {"type": "namespace", "name": "n", "tools": [server()]}
    added = {"type": "additional_tools", "tools": [server()]}
    assert plan(tools=(namespace,)).mcp is None
    assert plan(added, tools=()).mcp is None


def test_a_search_of_the_provider_is_dropped_beside_tools_of_servers_too() -> None:
    capabilities = Capabilities(web_search="native", search_beside_tools=False)
    policy = HostedToolPolicy("ignore", mcp=ValueRules())
    tools: tuple[Document, ...] = (server(), {"type": "web_search"})
    assert plan(tools=tools, policy=policy, capabilities=capabilities).native_tools != ()
    found = plan(listing("weather"), tools=tools, policy=policy, capabilities=capabilities)
    assert found.native_tools == ()
    assert declared(found) == ["sky__weather"]


def test_a_server_that_the_operator_does_not_allow_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="cannot be called") as error:
        plan(tools=(READ, server("refused")))
    assert error.value.param == "tools[1].server_label"
    with pytest.raises(InvalidRequest) as error:
        plan(tools=(server("refused", server_url="https://a.example"),))
    assert error.value.param == "tools[0].server_url"
    more = {"url_at": "mcp_servers.0.url"}
    with pytest.raises(InvalidRequest) as error:
        plan(tools=(server("refused", server_url="https://a.example", toolset=more),))
    assert error.value.param == "mcp_servers.0.url"


OWN: Document = {**server(), "extra": {"format": "messages", "members": {"name": "sky"}}}


def test_a_provider_of_the_clients_format_gets_the_clients_own_servers() -> None:
    same = Capabilities(client_blocks="messages")
    found = plan(tools=(OWN,), capabilities=same, tool_choice="required")
    assert found.mcp is None
    assert (found.native_tools, found.diagnostics) == ((OWN,), ())
    assert found.tool_choice == ToolChoice("required")


def test_other_tools_need_no_approvals_of_the_history() -> None:
    function = {"type": "function", "name": "now", "parameters": {}}
    call = {"type": "function_call", "call_id": "c", "name": "now", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "12:00"}
    found = plan(call, output, tools=(function,))
    assert (found.mcp, declared(found)) == (None, ["now"])


def test_servers_of_another_format_are_called_for_any_other_provider() -> None:
    assert mcp_of(plan(tools=(OWN,))).needs_opening


def test_servers_of_another_format_are_never_refused_for_want_of_a_client() -> None:
    found = plan(tools=(OWN,), policy=HostedToolPolicy())
    assert [each.code for each in found.diagnostics] == ["tool.ignored"]


def test_a_server_that_is_not_allowed_may_be_left_out() -> None:
    policy = HostedToolPolicy("ignore", mcp=ValueRules())
    found = plan(listing("weather"), tools=(server("refused"), server()), policy=policy)
    assert declared(found) == ["sky__weather"]
    assert [each.code for each in found.diagnostics] == ["tool.ignored"]
    assert found.used.unused == (server("refused"),)


TOOLSET: Document = {"type": "mcp_toolset", "mcp_server_name": "sky"}


def own(*names: str, members: Document = TOOLSET, **more: Any) -> Document:
    """A server that a client of another format declares among its tools."""
    allowed: Document = {"allowed_tools": list(names)} if names else {}
    extra = {"format": "messages", "members": members}
    return {**server(**allowed), "extra": extra, **({"toolset": more} if more else {})}


def test_a_provider_of_the_clients_format_gets_the_clients_declaration() -> None:
    same = Capabilities(client_blocks="messages")
    found = plan(tools=(own(disabled=["tide"], deferred=True),), capabilities=same)
    assert found.mcp is None
    assert [tool["extra"]["members"] for tool in found.native_tools] == [TOOLSET]
    assert found.diagnostics == ()


def test_disabled_tools_are_not_offered() -> None:
    found = plan(listing("weather", "tide"), tools=(own(disabled=["tide"]),))
    assert declared(found) == ["sky__weather"]


def test_a_server_whose_tools_are_all_disabled_is_not_asked() -> None:
    found = plan(tools=(own(off=True),))
    assert (mcp_of(plan(tools=(own(),))).needs_opening, found.mcp) == (True, None)


def test_a_list_of_the_request_is_used_instead_of_that_of_the_thread() -> None:
    tide = {"name": "tide", "description": "Ebb or flow.", "input_schema": {"type": "object"}}
    found = plan(listing("weather"), tools=(own(listed=[tide, {"description": "No name."}]),))
    assert declared(found) == ["sky__tide"]
    assert not mcp_of(found).needs_opening


def test_tools_that_should_be_deferred_are_reported() -> None:
    for tool in (own(deferred=True), server(defer_loading=True)):
        [note] = plan(listing("weather"), tools=(tool,)).diagnostics
        assert (note.code, note.param) == ("tool.degraded", "tools[0].defer_loading")
        assert "its tools are declared immediately" in note.message


@table("more", [{"disabled": 1}, {"disabled": [{}]}, {"listed": "x"}, "x", None])
def test_what_is_no_toolset_restricts_nothing(more: Any) -> None:
    found = plan(listing("weather"), tools=(server(toolset=more),))
    assert mcp_of(found).offers.keys() <= {"sky__weather"}


NATIVE = Capabilities(hosted_tools=frozenset({"mcp"}), model_name="up/m")


def test_a_provider_that_runs_servers_itself_gets_only_what_it_knows() -> None:
    tool = {**own("weather", deferred=True, listed=[]), "cache_control": {"type": "ephemeral"}}
    found = plan(tools=(tool,), capabilities=NATIVE)
    assert found.native_tools == (server(allowed_tools=["weather"]),)
    assert [each.param for each in found.diagnostics] == ["tools[0].defer_loading"]


def test_a_provider_that_runs_servers_itself_cannot_be_told_what_is_disabled() -> None:
    with pytest.raises(InvalidRequest, match="but not of disabled ones") as error:
        plan(tools=(own(disabled=["tide"]),), capabilities=NATIVE)
    assert (error.value.param, error.value.code) == ("tools[0]", "unsupported_parameter")
    policy = HostedToolPolicy("ignore", mcp=ValueRules())
    found = plan(tools=(own(disabled=["tide"]),), capabilities=NATIVE, policy=policy)
    assert found.native_tools == ()
    assert [each.code for each in found.diagnostics] == ["tool.ignored"]


def test_a_breakpoint_of_the_prompt_cache_is_behind_the_last_tool_of_a_server() -> None:
    tool = {**own(), "cache_control": {"type": "ephemeral"}}
    found = plan(listing("weather", "tide"), tools=(tool,))
    assert [each.cache is not None for each in found.declarations] == [False, True]
    assert plan(listing(), tools=(tool,)).declarations == ()


# --- tool_choice ----------------------------------------------------------------------------------

CHOICE: Document = {"type": "mcp", "server_label": "sky"}


def test_a_choice_may_name_a_server_before_its_tools_are_known() -> None:
    found = plan(tools=(READ, server()), tool_choice=CHOICE)
    assert found.used.forces_call


def test_a_choice_of_a_server_requires_a_call_of_its_tools() -> None:
    found = plan(listing("weather", "storm"), tools=(READ, server()), tool_choice=CHOICE)
    assert declared(found) == ["sky__weather", "sky__storm"]
    assert found.tool_choice == ToolChoice("required")


def test_a_choice_may_name_one_tool_of_a_server() -> None:
    choice = {**CHOICE, "name": "storm"}
    found = plan(listing("weather", "storm"), tool_choice=choice)
    assert found.tool_choice == ToolChoice("function", "sky__storm")


def test_a_choice_of_a_tool_that_the_server_does_not_have_is_an_error() -> None:
    with pytest.raises(InvalidRequest, match="names a tool that `tools` does not have"):
        plan(listing("weather"), tool_choice={**CHOICE, "name": "storm"})


def test_tools_that_the_choice_does_not_allow_are_never_called() -> None:
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{**CHOICE, "name": "storm"}]}
    found = plan(listing("weather", "storm"), tool_choice=allowed)
    assert list(mcp_of(found).offers) == ["sky__storm"]
    none = plan(listing("weather"), tool_choice="none")
    assert mcp_of(none).offers == {}
    assert declared(none) == ["sky__weather"]


# --- history --------------------------------------------------------------------------------------


def made(item_id: str, approval: str | None = None) -> Document:
    result = McpResult(text=f"result of {item_id}")
    return call_item(
        item_id, "sky", "weather", approval_request_id=approval, arguments="{}", result=result
    )


REQUEST = approval_request_item("mcpr_1", "sky", "weather", "{}")


def decided(*, approve: bool, **fields: Any) -> Document:
    response = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1"}
    return {**response, "approve": approve, **fields}


def test_calls_of_earlier_turns_are_calls_of_functions() -> None:
    found = plan(listing("weather"), made("mcp_1"), USER)
    assert calls(found.history) == [
        ("call", "mcp_1", "sky.weather"),
        ("result", "mcp_1", "result of mcp_1"),
    ]
    assert found.diagnostics == ()


def test_calls_one_after_the_other_are_parallel() -> None:
    found = plan(listing("weather"), made("mcp_1"), made("mcp_2"), USER, made("mcp_3"))
    assert [each[:2] for each in calls(found.history)] == [
        ("call", "mcp_1"),
        ("call", "mcp_2"),
        ("result", "mcp_1"),
        ("result", "mcp_2"),
        ("call", "mcp_3"),
        ("result", "mcp_3"),
    ]


def test_calls_of_the_client_beside_them_are_parallel_too() -> None:
    own = [
        {"type": "function_call", "call_id": call_id, "name": "read", "arguments": "{}"}
        for call_id in ("call_1", "call_2")
    ]
    results = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": "x"} for call in own
    ]
    found = plan(listing("weather"), made("mcp_1"), *own, *results, tools=(server(), READ))
    assert [each[0] for each in calls(found.history)] == ["call"] * 3 + ["result"] * 3


def test_an_approved_call_is_wanted_and_not_in_the_history_yet() -> None:
    found = plan(listing("weather"), REQUEST, decided(approve=True))
    [approved] = mcp_of(found).approved
    assert (approved.request_id, approved.tool) == ("mcpr_1", "weather")
    assert mcp_of(found).needs_opening
    assert calls(found.history) == []


def test_an_approved_call_that_was_made_is_one_call() -> None:
    found = plan(listing("weather"), REQUEST, decided(approve=True), made("mcp_1", "mcpr_1"))
    assert [each[0] for each in calls(found.history)] == ["call", "result"]
    assert mcp_of(found).approved == ()
    assert mcp_of(found).calls_made == 1


def test_a_call_that_was_not_approved_has_that_as_its_result() -> None:
    found = plan(listing("weather"), REQUEST, decided(approve=False, reason="Too slow."))
    assert calls(found.history) == [
        ("call", "mcpr_1", "sky.weather"),
        ("result", "mcpr_1", "The user did not approve this call. Reason: Too slow."),
    ]
    silent = plan(listing("weather"), REQUEST, decided(approve=False))
    assert calls(silent.history)[1][2] == "The user did not approve this call."


def test_a_call_that_nobody_decided_about_has_no_result() -> None:
    found = plan(listing("weather"), REQUEST, USER)
    assert [each.code for each in found.diagnostics] == ["history.call.unanswered"]
    assert calls(found.history)[0] == ("call", "mcpr_1", "sky.weather")


def test_without_its_server_the_history_is_read_as_before() -> None:
    found = plan(listing("weather"), made("mcp_1"), REQUEST, decided(approve=True), tools=())
    assert {each.code for each in found.diagnostics} == {
        "history.item.ignored",
        "history.item.degraded",
    }


def test_the_error_of_a_tool_is_its_result() -> None:
    failed = call_item(
        "mcp_1", "sky", "weather", arguments="{}", result=McpResult(text="No.", is_error=True)
    )
    assert calls(plan(listing("weather"), failed).history)[1][2] == "error: No."


def block_of(kind: str, instead: Any) -> Document:
    item: Document = {"type": "client_block", "format": "messages", "role": "assistant"}
    return {**item, "block": {"type": kind}, "instead": instead}


def test_blocks_of_another_format_are_the_calls_that_they_stand_for() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "weather", "namespace": "sky"}
    result = {"type": "function_call_output", "call_id": "c", "output": "Sunny."}
    blocks = (block_of("use", call), block_of("result", result))
    assert calls(plan(*blocks).history) == [
        ("call", "c", "sky.weather"),
        ("result", "c", "Sunny."),
    ]
    same = plan(*blocks, capabilities=Capabilities(client_blocks="messages"))
    assert calls(same.history) == []
    odd = plan(block_of("use", {"type": "message"}), block_of("use", None))
    assert [each.code for each in odd.diagnostics] == ["history.part.ignored"] * 2


def test_blocks_of_parallel_calls_are_parallel() -> None:
    pairs = []
    for call_id in ("c", "d"):
        call = {"type": "function_call", "call_id": call_id, "name": "weather", "namespace": "sky"}
        result = {"type": "function_call_output", "call_id": call_id, "output": "Sunny."}
        pairs += [block_of("use", call), block_of("result", result)]
    assert [each[:2] for each in calls(plan(*pairs).history)] == [
        ("call", "c"),
        ("call", "d"),
        ("result", "c"),
        ("result", "d"),
    ]


def test_the_block_of_a_list_is_the_list() -> None:
    block = block_of("listing", listing("weather"))
    found = plan(block)
    assert (declared(found), found.diagnostics) == (["sky__weather"], ())
    assert calls(found.history) == []
    [note] = plan(block, tools=()).diagnostics
    assert (note.code, note.subject) == ("history.item.ignored", "client_block")


# --- after the servers were asked -----------------------------------------------------------------


def test_the_request_is_planned_again_with_the_outcome() -> None:
    request = Request(
        raw={}, model="m", input=(USER, REQUEST, decided(approve=True)), tools=(server(),)
    )
    target = ModelTarget("p", "m")
    planner = Planner(request, PlanInputs(hosted_tools=MANAGED))
    assert mcp_of(planner.plan(target)).needs_opening
    again = planner.continue_with([listing("weather"), made("mcp_1", "mcpr_1")]).plan(target)
    assert not mcp_of(again).needs_opening
    assert declared(again) == ["sky__weather"]
    assert [each[:2] for each in calls(again.history)] == [("call", "mcp_1"), ("result", "mcp_1")]


def test_images_of_approved_calls_are_for_models_that_take_them() -> None:
    request = Request(raw={}, model="m", input=(USER,), tools=(server(),))
    planner = Planner(request, PlanInputs(hosted_tools=MANAGED))
    image = MessageStep("user", (ImagePart("data:image/png;base64,AA=="),))
    again = planner.continue_with([listing("weather"), made("mcp_1", "mcpr_1")], [image])
    blind = ModelTarget("p", "blind", Capabilities(inputs=frozenset({"text"})))
    sighted = ModelTarget("p", "sighted", Capabilities(inputs=frozenset({"text", "image"})))
    assert again.plan(sighted).history[-1] == image
    assert image not in again.plan(blind).history


def test_the_next_round_has_the_calls_of_the_last() -> None:
    begun = plan(listing("weather"))
    finished = FinishedRound((made("mcp_1"), made("mcp_2")), FollowUp(steps=()))
    following = plan_next_round(begun, finished, issuer="", unseal=lambda capsule: Unopened.FOREIGN)
    assert [each[:2] for each in calls(following.history)] == [
        ("call", "mcp_1"),
        ("call", "mcp_2"),
        ("result", "mcp_1"),
        ("result", "mcp_2"),
    ]


def test_a_target_that_calls_servers_itself_cannot_take_over() -> None:
    managed = plan(listing("weather"))
    native = plan(listing("weather"), capabilities=Capabilities(hosted_tools=frozenset({"mcp"})))
    assert can_take_over(managed, begun=managed)
    assert not can_take_over(native, begun=managed)


def test_a_fallback_is_skipped_if_it_cannot_serve_the_request_or_calls_servers_itself() -> None:
    first = ModelTarget("p", "first")
    other = ModelTarget("p", "other")
    small = ModelTarget("p", "small", Capabilities(max_tools=1))
    native = ModelTarget("p", "native", Capabilities(hosted_tools=frozenset({"mcp"})))
    tools = (server(), READ, {**READ, "name": "write"})
    planner = Planner(
        Request(raw={}, model="m", input=(USER,), tools=tools), PlanInputs(hosted_tools=MANAGED)
    )
    planned = planner.plan_all((first, small, native, other))
    assert planned.served == (first, other)
    assert planned.first_plan is planner.plan(first)
    assert planned.skipped == [
        (small, "it cannot serve this request: tools (None)"),
        (
            native,
            "the gateway calls MCP servers for one of the two models, and the provider for the"
            " other",
        ),
    ]
