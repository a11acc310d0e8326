"""Tool declarations, the tool identity map, and limits of the provider."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.capabilities import Capabilities, StrictLimits
from antiphon.core.history.steps import ToolCallStep
from antiphon.core.items import CacheBreakpoint
from antiphon.core.plan.declare_tools import DeclaredTools, declare_tools
from antiphon.core.plan.hosted_tools import HostedToolPolicy
from antiphon.core.plan.plan import Notes
from antiphon.core.tools.declaration import ToolChoice
from antiphon.errors import InvalidRequest
from tests.support.plans import noted
from tests.support.tables import table

NOW: dict[str, Any] = {"type": "function", "name": "now", "strict": True}
NOTE: dict[str, Any] = {"type": "custom", "name": "note"}
SEARCH: dict[str, Any] = {"type": "web_search", "external_web_access": True}


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name}


def namespace(name: str, *tools: dict[str, Any], description: str = "") -> dict[str, Any]:
    return {"type": "namespace", "name": name, "description": description, "tools": list(tools)}


def found(*names: str) -> dict[str, Any]:
    return {"type": "tool_search_output", "tools": [function(name) for name in names]}


def declared(
    *tools: dict[str, Any],
    choice: str | dict[str, Any] = "auto",
    items: tuple[dict[str, Any], ...] = (),
    called: tuple[ToolCallStep, ...] = (),
    notes: Notes | None = None,
    **capabilities: Any,
) -> DeclaredTools:
    can = Capabilities(**capabilities)
    return declare_tools(tools, choice, items, called, can, [] if notes is None else notes)


def names(result: DeclaredTools) -> list[str]:
    return [declaration.name for declaration in result.declarations]


def codes(notes: Notes) -> list[str]:
    return [f"{each.code}:{each.subject}" for each in notes]


def test_tools_are_declared_in_order_under_their_provider_names() -> None:
    notes: Notes = []
    result = declared(NOW, namespace("ns", NOTE), SEARCH, web_search="native", notes=notes)
    assert names(result) == ["now", "ns__note"]
    assert result.native_tools == (SEARCH,)
    assert result.declarations[0].strict is True
    assert result.declarations[0].parameters == {"type": "object", "properties": {}}
    assert codes(notes) == []


def test_no_tools_are_no_tools() -> None:
    notes: Notes = []
    result = declared(tools=False, notes=notes)
    assert (result.declarations, result.native_tools, codes(notes)) == ((), (), [])
    assert (len(result.identities), result.tool_choice) == (0, ToolChoice())


def test_a_namespaced_call_comes_back_with_its_namespace() -> None:
    identity = declared(namespace("ns", NOTE)).identities.by_provider_name("ns__note")
    assert identity is not None
    assert (identity.requested_name, identity.namespace) == ("note", "ns")


def test_a_namespace_description_is_declared_once() -> None:
    first = {**function("a"), "description": "Does a."}
    group = namespace("ns", first, function("b"), description="For files.")
    result = declared(NOW, group, namespace("quiet", function("c")))
    assert [each.description for each in result.declarations] == [
        None,
        "Does a.\n\nAbout all ns tools: For files.",
        None,
        None,
    ]


def test_a_namespace_description_is_in_the_first_declared_tool() -> None:
    group = namespace("ns", function("a"), function("b"), description="For files.")
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [function("b")]}
    [only] = declared(group, choice=choice).declarations
    assert (only.name, only.description) == ("ns__b", "About all ns tools: For files.")


@table("choice", ["none", {"type": "allowed_tools", "mode": "auto", "tools": [function("now")]}])
def test_a_tool_that_may_not_be_called_now_keeps_its_name_for_the_history(
    choice: str | dict[str, Any],
) -> None:
    call = ToolCallStep("call_1", "note", "{}", "ns")
    result = declared(
        NOW,
        namespace("ns", NOTE),
        choice=choice,
        called=(call,),
        tool_choice=frozenset({"auto"}),
    )
    assert "ns__note" not in names(result)
    assert result.steps == (call,)
    identity = result.identities.by_requested_name("note", "ns")
    assert identity is not None
    assert identity.provider_name == "ns__note"


def test_tools_found_along_the_way_can_be_called() -> None:
    assert names(declared(NOW, items=(found("later"),))) == ["now", "later"]


def test_a_model_without_tool_support_gets_none_and_one_diagnostic() -> None:
    notes: Notes = []
    result = declared(NOW, NOTE, SEARCH, tools=False, web_search="native", notes=notes)
    assert (result.declarations, result.native_tools) == ((), ())
    assert codes(notes) == ["tool.ignored:all"]
    assert len(result.identities) == 2


def test_a_model_without_tools_cannot_be_required_to_call_one() -> None:
    with pytest.raises(InvalidRequest) as caught:
        declared(NOW, choice="required", tools=False)
    assert caught.value.param == "tool_choice"


# --- limits ---------------------------------------------------------------------------------------


def test_as_many_tools_as_the_model_takes_are_declared() -> None:
    result = declared(NOW, NOTE, SEARCH, web_search="native", max_tools=3)
    assert len(result.declarations) + len(result.native_tools) == 3


def test_more_tools_than_the_model_takes_are_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        declared(NOW, NOTE, SEARCH, web_search="native", max_tools=2)
    assert caught.value.param == "tools"
    assert (
        caught.value.message
        == "At most 2 tools are supported by this model, but the request has 3. Send fewer `tools`."
    )


def test_only_tools_that_may_be_called_count() -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [function("now")]}
    assert names(declared(NOW, NOTE, choice=choice, max_tools=1)) == ["now"]


def test_the_oldest_finds_make_room_so_that_a_thread_can_go_on() -> None:
    items = (found("a", "b"), found("c"))
    notes: Notes = []
    result = declared(NOW, items=items, max_tools=2, notes=notes)
    assert names(result) == ["now", "c"]
    assert codes(notes) == ["tool.ignored:limit"]
    assert len(result.identities) == 4


def test_a_find_that_has_to_be_called_makes_no_room() -> None:
    result = declared(NOW, items=(found("a", "b"),), choice=function("a"), max_tools=2)
    assert names(result) == ["now", "a"]


@table(
    ("strict", "required", "told"),
    [
        ((True, True), ["a"], 0),
        ((False,), ["a"], 0),
        ((True, False), ["a"], 1),
        ((True,), [], 1),  # nothing to insist on
        ((False,), [], 0),
    ],
)
def test_a_strict_tool_beside_a_loose_one_is_told_where_all_have_to_be_strict(
    strict: tuple[bool, ...], required: list[str], told: int
) -> None:
    schema = {"type": "object", "required": required}
    tools = [
        {"type": "function", "name": f"f{place}", "parameters": schema, "strict": each}
        for place, each in enumerate(strict)
    ]
    _, found = noted(declare_tools, tools, "auto", [], [], Capabilities(strict_together=True))
    assert [each.code for each in found] == ["tool.degraded"] * told


def test_no_tool_is_strict_where_the_provider_would_reject_so_many() -> None:
    """camel-ai/camel#4171 and mozilla/bugbug#6129: "Too many strict tools", from Claude."""
    tools = [{**NOW, "name": name} for name in "ab"]
    notes: Notes = []
    limits = StrictLimits(tools=2, optional=1, unions=1)
    plan = declared(*tools, function("c"), notes=notes, strict_limits=limits)
    assert [each.strict for each in plan.declarations] == [True, True, None]
    assert notes == []
    plan = declared(*tools, {**NOW, "name": "c"}, notes=notes, strict_limits=limits)
    assert [each.strict for each in plan.declarations] == [None, None, None]
    assert [(each.code, each.param, each.message) for each in notes] == [
        (
            "tool.degraded",
            "tools",
            "`strict` has no effect: this model enforces the schemas of at most 2 tools, which may"
            " have 1 optional arguments and 1 of several types.",
        )
    ]


@table(
    ("tools", "beside", "kept"),
    [
        (("web_search", "function"), False, (1, 0)),
        (("web_search", "function"), True, (1, 1)),
        (("web_search",), False, (0, 1)),
        (("function",), False, (1, 0)),
    ],
)
def test_native_search_is_dropped_beside_functions_where_both_are_rejected(
    tools: tuple[str, ...], beside: bool, kept: tuple[int, int]
) -> None:
    given = [{"type": kind, **({"name": "f"} if kind == "function" else {})} for kind in tools]
    can = Capabilities(web_search="native", search_beside_tools=beside)
    ignore = HostedToolPolicy("ignore")
    declared, found = noted(declare_tools, given, "auto", [], [], can, policy=ignore)
    assert (len(declared.declarations), len(declared.native_tools)) == kept
    lost = sum(kept) < len(tools)
    assert [each.code for each in found] == ["tool.ignored"] * lost


def test_native_search_beside_functions_is_refused_where_both_are_rejected() -> None:
    given = [{"type": "web_search"}, {"type": "function", "name": "f"}]
    can = Capabilities(web_search="native", search_beside_tools=False)
    with pytest.raises(InvalidRequest) as caught:
        declare_tools(given, "auto", [], [], can, [])
    assert "together with functions" in caught.value.message
    assert caught.value.param == "tools"


def test_tools_that_cannot_be_called_are_listed_as_unused() -> None:
    mcp, search = {"type": "mcp", "server_label": "s"}, {"type": "web_search"}
    ignore = HostedToolPolicy("ignore")
    can = Capabilities(web_search="native", search_beside_tools=False)
    unused = declare_tools([NOW, mcp, search], "auto", [], [], can, [], ignore).unused
    assert list(unused) == [mcp, search]
    assert list(declared(NOW, tools=False).unused) == [NOW]
    assert declared(NOW).unused == ()


# --- deferred tools that the client searches ------------------------------------------------------


def deferred(name: str, number: int) -> dict[str, Any]:
    return {**function(name), "defer_loading": True, "found": number}


def test_a_deferred_tool_is_declared_once_a_result_refers_to_it() -> None:
    notes: Notes = []
    tools = (deferred("b", 2), function("c"), deferred("a", 1), deferred("placeholder", 0))
    result = declared(*tools, notes=notes)
    assert names(result) == ["c", "a", "b"]  # those found last come last: the prefix stays
    assert notes == []
    assert not any(declaration.deferred for declaration in result.declarations)


def test_a_provider_that_defers_tools_gets_all_of_them_in_their_order() -> None:
    notes: Notes = []
    tools = (deferred("b", 2), function("c"), deferred("a", 0))
    result = declared(*tools, deferred_tools=True, notes=notes)
    assert names(result) == ["b", "c", "a"]
    assert [declaration.deferred for declaration in result.declarations] == [True, False, True]
    assert notes == []


def test_a_deferred_tool_that_the_client_does_not_search_is_declared_at_once() -> None:
    notes: Notes = []
    result = declared({**function("a"), "defer_loading": True}, notes=notes)
    assert names(result) == ["a"]
    assert codes(notes) == ["tool.degraded:defer_loading"]


# --- members of the client's own format -----------------------------------------------------------

WHOLE = {"extra": {"format": "messages", "members": {"type": "web_search_20250305"}}}


def test_a_declaration_keeps_breakpoints_and_members_for_a_provider_of_the_format() -> None:
    extra = {"format": "messages", "members": {"input_examples": []}}
    tool = {**function("a"), "cache_control": {"type": "ephemeral"}, "extra": extra}
    [declaration] = declared(tool, client_blocks="messages").declarations
    assert (declaration.cache, declaration.extra) == (CacheBreakpoint(), {"input_examples": []})
    assert declared(tool).declarations[0].extra is None


def test_a_native_tool_keeps_its_members_for_a_provider_of_the_format_only() -> None:
    tool = {"type": "web_search", **WHOLE}
    native = declared(tool, web_search="native", client_blocks="messages")
    assert native.native_tools == (tool,)
    assert declared(tool, web_search="native").native_tools == ({"type": "web_search"},)


def test_a_native_tool_has_its_place_among_all_tools() -> None:
    search = {"type": "web_search"}
    tools = (function("a"), search, function("b"))
    found = declared(*tools, web_search="native")
    assert (names(found), found.native_places) == (["a", "b"], (1,))
    assert declared(search, *tools[:1], web_search="native").native_places == (0,)
