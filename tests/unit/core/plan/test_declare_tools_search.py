"""Hosted web search as a function that the gateway answers: how it is declared and planned."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import structs

from antiphon.core.capabilities import Capabilities
from antiphon.core.history.capsule import Capsule
from antiphon.core.history.steps import ToolCallStep, ToolResultStep
from antiphon.core.plan.plan import Plan
from antiphon.core.tools.declaration import ToolChoice
from antiphon.core.web_search.memory import PastSearch, encode_past_searches
from antiphon.core.web_search.rules import SearchRules
from antiphon.errors import InvalidRequest
from tests.support.plans import make_plan
from tests.support.request_body import parse_body
from tests.support.tables import table

SEARCH: dict[str, Any] = {"type": "web_search"}
NAMESAKE: dict[str, Any] = {"type": "function", "name": "web_search"}
READ: dict[str, Any] = {"type": "function", "name": "read"}


def planned(
    *tools: dict[str, Any], can: dict[str, Any] | None = None, shows: bool = False, **fields: Any
) -> Plan:
    body = {"model": "m", "input": "hello", "tools": list(tools), **fields}
    given = {"web_search": "managed", "web_search_limits": frozenset({"filters"}), **(can or {})}
    capsule = Capsule(
        issuer="kind",
        model="m",
        sealed_at=0,
        states=(
            encode_past_searches(
                [PastSearch(call_id="c", arguments="{}", answer="[1] A\nhttps://a/")]
            ),
        ),
    )
    return make_plan(
        structs.replace(parse_body(msgspec.json.encode(body)), shows_searches=shows),
        [],
        provider="p",
        model="m",
        capabilities=Capabilities(**given),
        unseal=lambda text: capsule,
    )


def names(plan: Plan) -> list[str]:
    return [declaration.name for declaration in plan.declarations]


def codes(plan: Plan) -> list[str]:
    return [f"{each.code}:{each.subject} {each.param}" for each in plan.diagnostics]


def types(plan: Plan, *provider_names: str) -> list[tuple[str, str | None]]:
    found = [plan.identities.by_provider_name(name) for name in provider_names]
    return [(each.requested_type, each.namespace) for each in found if each is not None]


@table(
    "kind",
    ["web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"],
)
def test_every_web_search_tool_is_declared_as_a_function(kind: str) -> None:
    plan = planned({"type": kind}, READ)
    assert names(plan) == ["web_search", "read"]
    assert plan.native_tools == ()
    assert types(plan, "web_search", "read") == [("web_search", ""), ("function", None)]
    assert plan.search == SearchRules()
    assert codes(plan) == []
    [search, _] = plan.declarations
    assert search.parameters is not None
    assert search.parameters["required"] == ["query"]
    assert "[2]" in (search.description or "")


def test_without_a_search_there_are_no_rules() -> None:
    assert planned(READ).search is None


@table(
    ("tools", "expected"),
    [
        ((NAMESAKE, SEARCH), [("function", None), ("web_search", "")]),
        ((SEARCH, NAMESAKE), [("web_search", ""), ("function", None)]),
    ],
)
def test_a_function_named_web_search_is_declared_beside_it(
    tools: tuple[dict[str, Any], ...], expected: list[tuple[str, str | None]]
) -> None:
    plan = planned(*tools)
    first, second = names(plan)
    assert first == "web_search"
    assert second.startswith("web_search_")
    assert types(plan, first, second) == expected


def test_a_call_of_the_function_named_web_search_belongs_to_the_client() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "web_search", "arguments": "{}"}
    plan = planned(SEARCH, input=[call])
    [called] = [step for step in plan.history if isinstance(step, ToolCallStep)]
    assert called.namespace is None
    known = plan.identities.by_requested_name("web_search")
    assert known is not None
    assert known.provider_name.startswith("web_search_")


def test_two_web_search_tools_are_declared_once() -> None:
    assert names(planned(SEARCH, {"type": "web_search_preview"})) == ["web_search"]


def test_two_web_search_tools_with_different_filters_are_an_error() -> None:
    narrow = {**SEARCH, "filters": {"allowed_domains": ["a.example"]}}
    with pytest.raises(InvalidRequest) as caught:
        planned(SEARCH, narrow)
    assert caught.value.param == "tools[1].name"


def test_a_web_search_tool_in_an_input_item_is_declared() -> None:
    item = {"type": "additional_tools", "role": "developer", "tools": [SEARCH]}
    plan = planned(input=[item, {"role": "user", "content": "hello"}])
    assert names(plan) == ["web_search"]
    assert plan.search is not None


@table(
    ("limit", "field"),
    [
        ({"external_web_access": False}, "external_web_access"),
        ({"filters": {"languages": ["de"]}}, "filters.languages"),
    ],
)
def test_a_web_search_tool_with_an_unsupported_filter_is_refused(
    limit: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        planned({**SEARCH, **limit})
    assert caught.value.param == "tools[0].type"
    assert f"`{field}`" in caught.value.message


def test_filters_are_in_the_plan_and_in_the_description() -> None:
    filters = {"allowed_domains": ["a.example"], "blocked_domains": ["b.example"]}
    plan = planned({**SEARCH, "filters": filters, "search_context_size": "high"})
    assert plan.search == SearchRules(allowed=("a.example",), blocked=("b.example",), size="high")
    assert "a.example" in (plan.declarations[0].description or "")
    assert codes(plan) == []


PLACE = {"type": "approximate", "country": "DE"}


@table(
    ("field", "value", "limits", "degraded"),
    [
        ("user_location", PLACE, [], True),
        ("user_location", PLACE, ["user_location"], False),
        ("search_content_types", ["text", "image"], [], True),
        ("search_content_types", ["text"], [], False),
    ],
)
def test_unsupported_search_options_have_a_diagnostic(
    field: str, value: Any, limits: list[str], degraded: bool
) -> None:
    can = {"web_search_limits": frozenset(limits)}
    plan = planned({"type": "web_search_preview", field: value}, can=can)
    expected = [f"tool.degraded:{field} tools[0].{field}"] if degraded else []
    assert (names(plan), codes(plan)) == (["web_search"], expected)


# --- choices --------------------------------------------------------------------------------------


@table("kind", ["web_search", "web_search_preview"])
def test_a_search_can_be_forced(kind: str) -> None:
    plan = planned(READ, SEARCH, tool_choice={"type": kind})
    assert plan.tool_choice == ToolChoice("function", "web_search")
    assert plan.search == SearchRules()


def test_a_forced_function_named_web_search_belongs_to_the_client() -> None:
    choice = {"type": "function", "name": "web_search"}
    plan = planned(SEARCH, NAMESAKE, tool_choice=choice)
    assert plan.tool_choice.name == names(plan)[1]


@table(
    "choice",
    [
        "none",
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "read"}]},
    ],
)
def test_a_web_search_excluded_by_tool_choice_is_not_run(choice: Any) -> None:
    plan = planned(READ, SEARCH, tool_choice=choice)
    assert plan.search == SearchRules(max_calls=0)


def test_a_model_without_tools_has_no_web_search() -> None:
    plan = planned(SEARCH, can={"tools": False})
    assert names(plan) == []
    assert plan.search == SearchRules(max_calls=0)
    assert codes(plan) == ["tool.ignored:all tools"]


# --- the rest of the request ----------------------------------------------------------------------


@table(("choice", "expected"), [("auto", 3), ("none", 0)])
def test_max_tool_calls_limits_the_searches_of_the_gateway(choice: str, expected: int) -> None:
    can = {"parameters": frozenset({"max_tool_calls"})}
    plan = planned(SEARCH, max_tool_calls=3, tool_choice=choice, can=can)
    assert plan.search == SearchRules(max_calls=expected)
    assert (plan.parameters, codes(plan)) == ({}, [])


def test_sources_can_be_included_where_the_gateway_searches() -> None:
    include = ["web_search_call.action.sources"]
    plan = planned(SEARCH, include=include)
    assert plan.search == SearchRules(include_sources=True)
    assert codes(plan) == []
    assert codes(planned(READ, include=include)) == [
        "include.ignored:web_search_call.action.sources include"
    ]


def test_a_format_that_shows_searches_has_sources_and_titles_without_asking_for_them() -> None:
    plan = planned(SEARCH, shows=True)
    assert plan.search == SearchRules(include_sources=True, include_titles=True)
    assert codes(plan) == []
    sources = "web_search_call.action.sources"
    for can in (frozenset({sources}), frozenset[str]()):
        native = planned(SEARCH, shows=True, can={"web_search": "native", "include": can})
        assert (native.include, codes(native)) == (tuple(can), [])


@table("tools", [(SEARCH,), (READ,), ()])
def test_a_search_of_an_earlier_turn_is_history_whatever_tools_are_declared(
    tools: tuple[dict[str, Any], ...],
) -> None:
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "message", "role": "assistant", "content": "So."},
        {"type": "message", "role": "user", "content": "And?"},
    ]
    plan = planned(*tools, input=items)
    called, answered, *_ = plan.history
    assert isinstance(called, ToolCallStep)
    assert isinstance(answered, ToolResultStep)
    identity = plan.identities.by_requested_name(called.name, called.namespace)
    assert identity is not None
    assert identity.provider_name == "web_search"
