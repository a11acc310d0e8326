"""All tools of a request: names, duplicates, and tools in items of the input."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from antiphon.core.capabilities import Capabilities
from antiphon.core.history.steps import MessageStep, TextPart, ToolCallStep
from antiphon.core.plan.hosted_tools import HostedToolPolicy
from antiphon.core.plan.plan import Notes
from antiphon.core.plan.tool_registry import ToolRegistry
from antiphon.core.tools.identity import Grammar
from antiphon.core.tools.naming import hashed_name, provider_name
from antiphon.errors import InvalidRequest
from tests.support.tables import table

VALID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def function(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, **fields}


def namespace(name: str, *tools: dict[str, Any], description: str = "") -> dict[str, Any]:
    return {"type": "namespace", "name": name, "description": description, "tools": list(tools)}


class FilledRegistry(ToolRegistry):
    """A registry with the tools of a request and of items, and what was noted about them."""

    def __init__(self, tools: Sequence[dict[str, Any]], items: Sequence[dict[str, Any]]) -> None:
        self.notes: Notes = []
        can = Capabilities(web_search="native")
        super().__init__(can, self.notes, HostedToolPolicy("ignore"))
        self.add_request_tools(tools)
        self.add_input_tools(items)


def registry(*tools: dict[str, Any], items: list[dict[str, Any]] | None = None) -> FilledRegistry:
    return FilledRegistry(tools, items or [])


def found(*tools: Any) -> dict[str, Any]:
    return {"type": "tool_search_output", "call_id": "call_1", "tools": list(tools)}


def additional(*tools: Any) -> dict[str, Any]:
    return {"type": "additional_tools", "role": "developer", "tools": list(tools)}


def codes(filled: FilledRegistry) -> list[str]:
    return [f"{each.code} {each.param}" for each in filled.notes]


# --- names ----------------------------------------------------------------------------------------


def test_a_valid_name_is_unchanged() -> None:
    assert provider_name("get-weather_2") == "get-weather_2"
    assert provider_name("echo_text", "mcp__echo") == "mcp__echo__echo_text"


@table(
    ("name", "space"),
    [
        ("a.b", None),
        ("wetter für morgen", None),
        ("工具", None),
        ("", None),
        ("x" * 65, None),
        ("x" * 40, "y" * 40),
        ("tool", "my server"),
        ("\ud800", None),
    ],
)
def test_any_other_name_is_cleaned_cut_and_marked(name: str, space: str | None) -> None:
    given = provider_name(name, space)
    assert VALID.fullmatch(given)
    assert re.search(r"_[0-9a-f]{8}$", given)


def test_names_that_look_alike_when_cleaned_stay_apart() -> None:
    names = [provider_name(name) for name in ("a.b", "a:b", "a_b", "x" * 65, "x" * 66)]
    assert len(set(names)) == 5


def test_a_name_does_not_depend_on_other_tools() -> None:
    alone = registry(function("a.b")).names
    among = registry(function("a:b"), function("a_b"), function("a.b")).names
    assert among[(None, "a.b")] == alone[(None, "a.b")]


def test_a_tool_that_comes_later_does_not_take_a_name_away() -> None:
    first = namespace("a", function("b__c"))
    names = registry(first, namespace("a__b", function("c")), function("a__b__c")).names
    assert names[("a", "b__c")] == "a__b__c"
    assert names[("a__b", "c")] == hashed_name("c", "a__b")
    assert names[(None, "a__b__c")] == hashed_name("a__b__c")
    assert len(set(names.values())) == 3


def test_two_tools_that_cannot_be_told_apart_are_an_error() -> None:
    with pytest.raises(InvalidRequest) as caught:
        registry(function("a__b"), function(hashed_name("b", "a")), namespace("a", function("b")))
    assert caught.value.param == "tools[2].tools[0].name"


# --- duplicates -----------------------------------------------------------------------------------


def test_the_same_tool_twice_is_one_tool() -> None:
    filled = registry(function("now", strict=True), function("now", strict=True))
    assert list(filled.offers) == [(None, "now")]


@table(
    "other",
    [
        function("now", description="d"),
        {"type": "custom", "name": "now"},
        function("now", strict=False),
        function("now", parameters={"type": "object", "required": ["x"]}),
    ],
)
def test_two_different_tools_of_one_name_are_an_error(other: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        registry(function("now", strict=True), other)
    assert caught.value.param == "tools[1].name"


def test_a_name_may_appear_in_several_namespaces() -> None:
    filled = registry(function("read"), namespace("a", function("read")))
    assert filled.names == {(None, "read"): "read", ("a", "read"): "a__read"}


def test_a_namespace_declared_twice_is_one_namespace() -> None:
    filled = registry(
        namespace("a", function("x"), description="first"),
        namespace("a", function("x"), function("y"), description="second"),
    )
    assert list(filled.offers) == [("a", "x"), ("a", "y")]
    assert filled.groups == {"a": "first"}


def test_a_hosted_tool_declared_twice_is_one_tool() -> None:
    search = {"type": "web_search"}
    picture = {"type": "image_generation"}
    filled = registry(search, search, picture, picture)
    assert [offer.handling for offer in filled.hosted] == ["native", "ignored"]
    assert codes(filled) == ["tool.ignored tools[2]"]


def test_a_clients_function_called_web_search_is_just_a_function() -> None:
    filled = registry({"type": "web_search"}, function("web_search"))
    assert list(filled.offers) == [(None, "web_search")]
    assert [offer.handling for offer in filled.hosted] == ["native"]


@table(
    ("broken", "param"),
    [
        ({"type": "namespace", "tools": []}, "tools[0].name"),
        ({"type": "namespace", "name": "a", "tools": None}, "tools[0].tools"),
        (namespace("a", function("")), "tools[0].tools[0].name"),
    ],
)
def test_a_namespace_that_cannot_be_read_names_the_field(
    broken: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        registry(broken)
    assert caught.value.param == param


def test_a_namespace_in_a_namespace_is_left_out() -> None:
    assert codes(registry(namespace("a", namespace("b")))) == ["tool.ignored tools[0].tools[0]"]


# --- tools in items of the input ------------------------------------------------------------------


def test_tools_in_items_join_those_of_the_request_in_order() -> None:
    items = [
        additional(namespace("functions", {"type": "custom", "name": "exec"}, function("wait"))),
        {"type": "message", "role": "user", "content": "hello", "tools": [function("no")]},
        found(namespace("mcp__echo", function("echo_text", defer_loading=True))),
    ]
    filled = registry(function("now"), items=items)
    assert list(filled.names.values()) == [
        "now",
        "functions__exec",
        "functions__wait",
        "mcp__echo__echo_text",
    ]
    assert filled.offers[("functions", "exec")].type == "custom"
    assert codes(filled) == []


def test_a_tool_found_again_is_the_same_tool() -> None:
    filled = registry(items=[found(function("now")), found(function("now"), function("then"))])
    assert list(filled.names.values()) == ["now", "then"]
    assert codes(filled) == []


def test_of_two_declarations_in_a_thread_the_later_counts() -> None:
    items = [found(function("a", description="old"), function("b")), additional(function("a"))]
    filled = registry(items=items)
    assert list(filled.offers) == [(None, "a"), (None, "b")]
    assert filled.offers[(None, "a")].description is None
    assert codes(filled) == ["tool.redeclared input[1].tools[0]"]


def test_the_requests_own_declaration_counts_more_than_an_items() -> None:
    filled = registry(function("a", description="own"), items=[additional(function("a"))])
    assert filled.offers[(None, "a")].description == "own"
    assert codes(filled) == ["tool.redeclared input[0].tools[0]"]


@table(
    ("broken", "param"),
    [
        ("junk", "input[0].tools[0].type"),
        (function(""), "input[0].tools[0].name"),
        ({"type": "namespace"}, "input[0].tools[0].name"),
        (namespace("a", function("")), "input[0].tools[0].tools[0].name"),
    ],
)
def test_an_invalid_tool_in_an_item_does_not_affect_others(broken: Any, param: str) -> None:
    filled = registry(items=[found(broken, namespace("a", function("x")))])
    assert list(filled.offers) == [("a", "x")]
    assert codes(filled) == [f"tool.ignored {param}"]


def test_an_invalid_tool_in_a_namespace_does_not_affect_its_siblings() -> None:
    filled = registry(items=[found(namespace("a", function(""), function("x")))])
    assert list(filled.offers) == [("a", "x")]


@table("tools", [None, "none", {}])
def test_an_item_without_a_list_of_tools_brings_none(tools: Any) -> None:
    assert registry(items=[{"type": "additional_tools", "tools": tools}]).all_offers() == []


# --- calls of earlier turns -----------------------------------------------------------------------


def call(name: str, space: str | None = None) -> ToolCallStep:
    return ToolCallStep("call_1", name, "{}", space)


def test_calls_are_found_under_the_names_of_their_tools() -> None:
    filled = registry(function("now"), namespace("a", function("now")))
    steps = (call("now"), MessageStep("user", (TextPart("hi"),)), call("now", "a"))
    assert filled.resolve_calls(steps) == steps
    assert len(filled.identities()) == 2


def test_a_call_without_its_namespace_belongs_to_the_first_tool_of_that_name() -> None:
    filled = registry(namespace("functions", function("exec")), namespace("z", function("exec")))
    assert filled.resolve_calls([call("exec")]) == (call("exec", "functions"),)


def test_a_call_of_a_removed_tool_keeps_its_name() -> None:
    then = registry(namespace("a", function("b.c"))).names[("a", "b.c")]
    filled = registry(function("now"))
    filled.resolve_calls([call("b.c", "a"), call("b.c", "a")])
    identity = filled.identities().by_requested_name("b.c", "a")
    assert identity is not None
    assert (identity.provider_name, identity.requested_type) == (then, "function")


def test_a_call_for_which_no_name_is_free_is_left_without_one() -> None:
    filled = registry(function("a__b"), function(hashed_name("b", "a")))
    filled.resolve_calls([call("b", "a")])
    assert filled.identities().by_requested_name("b", "a") is None


def test_an_identity_has_the_clients_name_and_type() -> None:
    identity = (
        registry(namespace("a", {"type": "custom", "name": "b"}))
        .identities()
        .by_provider_name("a__b")
    )
    assert identity is not None
    assert (identity.requested_name, identity.namespace) == ("b", "a")
    assert identity.requested_type == "custom"


def test_an_identity_knows_the_grammar_of_its_tool() -> None:
    form = {"type": "grammar", "syntax": "regex", "definition": "a+"}
    tools = registry({"type": "custom", "name": "a", "format": form}, function("b")).identities()
    grammars = [identity.grammar for name in tools if (identity := tools.by_provider_name(name))]
    assert grammars == [Grammar("regex", "a+"), None]


def test_the_number_of_grammars_in_a_request_is_limited() -> None:
    def custom(number: int, definition: str) -> dict[str, Any]:
        form = {"type": "grammar", "syntax": "regex", "definition": definition}
        return {"type": "custom", "name": f"t{number}", "format": form}

    assert len(registry(*(custom(number, "a+") for number in range(64))).offers) == 64
    with pytest.raises(InvalidRequest, match="different grammars") as raised:
        registry(*(custom(number, f"a{number}") for number in range(64)))
    assert raised.value.param == "tools[32].format"
