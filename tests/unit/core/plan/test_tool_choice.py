"""`tool_choice`: enforced by the provider, or by declaring fewer tools."""

from __future__ import annotations

import time
from typing import Any

import pytest

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.hosted_tools import HostedToolPolicy
from antiphon.core.plan.plan import Notes
from antiphon.core.plan.tool_choice import Selection, select_tools
from antiphon.core.plan.tool_registry import ToolRegistry
from antiphon.core.tools.declaration import ToolChoice
from antiphon.errors import InvalidRequest
from tests.support.tables import table

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "name": "now"},
    {"type": "custom", "name": "note"},
    {"type": "apply_patch"},
    {
        "type": "namespace",
        "name": "ns",
        "description": "",
        "tools": [{"type": "function", "name": "read"}, {"type": "function", "name": "write"}],
    },
    {"type": "namespace", "name": "other", "tools": [{"type": "function", "name": "write"}]},
    {"type": "web_search"},
    {"type": "mcp", "server_label": "files"},
    {"type": "image_generation"},
]
EVERYTHING = ["now", "note", "apply_patch", "read", "write", "write", "web_search"]
ALL = frozenset({"auto", "none", "required", "function"})


def chosen(
    choice: str | dict[str, Any],
    *,
    tools: list[dict[str, Any]] = TOOLS,
    notes: Notes | None = None,
    **capabilities: Any,
) -> Selection:
    can = Capabilities(**{"web_search": "native", **capabilities})
    registry = ToolRegistry(can, [], HostedToolPolicy("ignore"))
    registry.add_request_tools(tools)
    return select_tools(choice, registry, can, [] if notes is None else notes)


def names(selection: Selection) -> list[str]:
    return [offer.name for offer in selection.offers]


def refused(choice: str | dict[str, Any], **capabilities: Any) -> str:
    with pytest.raises(InvalidRequest) as caught:
        chosen(choice, **capabilities)
    assert (caught.value.param, caught.value.status) == ("tool_choice", 400)
    return caught.value.message


def test_auto_allows_every_callable_tool() -> None:
    notes: Notes = []
    selection = chosen("auto", notes=notes)
    assert (names(selection), selection.choice) == (EVERYTHING, ToolChoice("auto"))
    assert [each.code for each in notes] == []


def test_none_is_sent_where_supported() -> None:
    selection = chosen("none")
    assert (names(selection), selection.choice) == (EVERYTHING, ToolChoice("none"))


@table("tools", [TOOLS, []])
def test_none_declares_no_tools_where_it_is_not_supported(
    tools: list[dict[str, Any]],
) -> None:
    selection = chosen("none", tools=tools, tool_choice=frozenset({"auto"}))
    assert (names(selection), selection.choice) == ([], ToolChoice("auto"))


def test_none_without_tools_is_not_sent() -> None:
    assert chosen("none", tools=[]).choice == ToolChoice("auto")


def test_required_is_sent() -> None:
    notes: Notes = []
    selection = chosen("required", notes=notes)
    assert (names(selection), selection.choice) == (EVERYTHING, ToolChoice("required"))
    assert [each.code for each in notes] == []


def test_required_degrades_to_auto() -> None:
    notes: Notes = []
    selection = chosen("required", tool_choice=frozenset({"auto"}), notes=notes)
    assert (names(selection), selection.choice) == (EVERYTHING, ToolChoice("auto"))
    assert [each.code for each in notes] == ["tool_choice.degraded"]
    assert selection.instruction == "Call at least one of the tools before you answer."


@table("tools", [[], [{"type": "image_generation"}]])
def test_a_required_tool_among_none_is_refused(tools: list[dict[str, Any]]) -> None:
    assert "no tool to call" in refused("required", tools=tools)


# --- one tool -------------------------------------------------------------------------------------

FORCED: list[tuple[dict[str, Any], str, str]] = [
    ({"type": "function", "name": "now"}, "now", "now"),
    ({"type": "custom", "name": "note"}, "note", "note"),
    ({"type": "apply_patch"}, "apply_patch", "apply_patch"),
    ({"type": "function", "name": "read"}, "read", "ns__read"),
    ({"type": "function", "name": "write", "namespace": "other"}, "write", "other__write"),
]


@table(("choice", "name", "told"), FORCED)
def test_a_forced_tool_is_sent_by_name(choice: dict[str, Any], name: str, told: str) -> None:
    notes: Notes = []
    selection = chosen(choice, notes=notes)
    assert selection.choice == ToolChoice("function", told)
    assert names(selection) == EVERYTHING
    assert [each.code for each in notes] == []


@table(("choice", "name", "told"), FORCED)
@table(("taken", "mode"), [("required", "required"), ("none", "auto")])
def test_a_forced_tool_is_the_only_one_declared_where_it_cannot_be_named(
    choice: dict[str, Any], name: str, told: str, taken: str, mode: str
) -> None:
    notes: Notes = []
    selection = chosen(choice, tool_choice=frozenset({"auto", taken}), notes=notes)
    assert selection.choice.mode == mode
    assert names(selection) == [name]
    assert [each.code for each in notes] == ["tool_choice.degraded"]
    instruction = f"Call the tool {told!r} before you answer." if mode == "auto" else None
    assert selection.instruction == instruction


@table("kind", ["web_search", "web_search_preview"])
def test_a_forced_native_search_is_the_only_tool(kind: str) -> None:
    notes: Notes = []
    selection = chosen({"type": kind}, notes=notes)
    assert (names(selection), selection.choice) == (["web_search"], ToolChoice("required"))
    assert [each.code for each in notes] == ["tool_choice.degraded"]


@table(
    "choice",
    [
        {"type": "function", "name": "never"},
        {"type": "function", "name": "note"},
        {"type": "function"},
        {"type": "function", "name": "now", "namespace": "ns"},
        {"type": "mcp", "server_label": "files"},
        {"type": "mcp", "server_label": "other"},
        {"type": "image_generation"},
        {"type": "shell"},
        {"type": "teleport"},
        {"type": "image_generation", "name": ["a", "b"]},
        {"type": ["function"], "name": {}},
        {},
    ],
)
def test_a_choice_of_something_that_cannot_be_called_is_refused(choice: dict[str, Any]) -> None:
    assert "names a tool that" in refused(choice)


def test_a_choice_that_could_mean_two_tools_is_refused() -> None:
    assert "Several namespaces" in refused({"type": "function", "name": "write"})


# --- allowed tools --------------------------------------------------------------------------------


def allowed(*tools: Any, mode: str = "auto") -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": list(tools)}


NOW, NOTE = {"type": "function", "name": "now"}, {"type": "custom", "name": "note"}


def test_only_the_allowed_tools_are_left_in_declared_order() -> None:
    selection = chosen(allowed({"type": "web_search"}, NOTE, NOW))
    assert names(selection) == ["now", "note", "web_search"]
    assert selection.choice == ToolChoice("auto")


def test_a_namespace_can_be_allowed_as_a_whole() -> None:
    assert names(chosen(allowed({"type": "namespace", "name": "ns"}))) == ["read", "write"]


@table(("mode", "told"), [("auto", "auto"), ("required", "required")])
def test_the_mode_holds_among_the_allowed(mode: str, told: str) -> None:
    assert chosen(allowed(NOW, mode=mode)).choice.mode == told


def test_a_required_one_of_the_allowed_degrades_but_the_others_stay_out() -> None:
    notes: Notes = []
    selection = chosen(allowed(NOW, mode="required"), tool_choice=frozenset({"auto"}), notes=notes)
    assert (names(selection), selection.choice.mode) == (["now"], "auto")
    assert [each.code for each in notes] == ["tool_choice.degraded"]


def test_none_of_the_allowed_is_none() -> None:
    assert chosen(allowed(NOW, mode="none")).choice == ToolChoice("none")
    assert names(chosen(allowed(NOW, mode="none"), tool_choice=frozenset({"auto"}))) == []


def test_an_allowed_tool_that_is_ignored_makes_no_error() -> None:
    selection = chosen(allowed(NOW, {"type": "mcp", "server_label": "files"}))
    assert names(selection) == ["now"]


@table("tools", [[], None])
def test_an_empty_list_allows_nothing(tools: Any) -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": tools}
    assert names(chosen(choice)) == []


def test_a_required_tool_among_those_left_out_is_refused() -> None:
    assert "no tool to call" in refused(allowed({"type": "image_generation"}, mode="required"))


@table(
    "entry",
    [
        {"type": "function", "name": "never"},
        {"type": "mcp", "server_label": "x"},
        "now",
        {"type": "namespace"},
        {"type": "shell"},
    ],
)
def test_an_allowed_tool_that_was_never_declared_is_refused(entry: Any) -> None:
    assert "allows a tool that" in refused(allowed(NOW, entry))


def test_the_work_is_linear_in_the_tools_that_are_allowed() -> None:
    functions = [{"type": "function", "name": f"f{number}"} for number in range(5000)]
    searches = [{"type": "web_search", "number": number} for number in range(5000)]
    began = time.process_time()
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": functions}
    assert len(chosen(allowed, tools=[*functions, *searches]).offers) == 5000
    assert time.process_time() - began < 5  # were it quadratic, half a minute


def test_tools_are_not_named_over_and_over() -> None:
    searches = [{"type": "web_search", "number": number} for number in range(2000)]
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}] * 600}
    with pytest.raises(InvalidRequest, match="too many tools"):
        chosen(allowed, tools=searches)


def test_a_name_that_is_no_string_names_no_tool() -> None:
    entry = {"type": "function", "name": ["now"]}
    assert "does not have" in refused({"type": "allowed_tools", "mode": "auto", "tools": [entry]})
