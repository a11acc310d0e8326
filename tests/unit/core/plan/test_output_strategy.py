"""Output strategies, for every combination of missing capabilities."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
from msgspec import structs

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.declare_tools import DeclaredTools
from antiphon.core.plan.output_strategy import OutputStrategy, choose_output_strategy
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from tests.support.plans import noted
from tests.support.tables import table

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TRIP = OutputContract(requested="json_schema", name="trip", schema=SCHEMA, strict=True)
JSON = OutputContract(requested="json_object")
OWN = ToolDeclaration(name="look", parameters={"type": "object"})
ALONE = DeclaredTools()
BESIDE = DeclaredTools(
    declarations=(OWN,), identities=ToolIdentityMap([ToolIdentity("look", "look")])
)
SEARCH: dict[str, Any] = {"type": "web_search"}


def can(*formats: str, **abilities: Any) -> Capabilities:
    return Capabilities(formats=frozenset({"text", *formats}), **abilities)


def choosing(*words: str) -> dict[str, Any]:
    return {"tool_choice": frozenset({"auto", *words})}


def choose(
    contract: OutputContract,
    capabilities: Capabilities,
    declared: DeclaredTools = ALONE,
    effort: str | None = None,
) -> OutputStrategy:
    return choose_output_strategy(contract, "text.format", declared, effort, capabilities, [])


def way(
    contract: OutputContract,
    capabilities: Capabilities,
    declared: DeclaredTools = ALONE,
    effort: str | None = None,
) -> str:
    """How it is asked for, in a word or two."""
    asked = choose(contract, capabilities, declared, effort)
    if asked.contract.tool is None:
        assert asked.tools is declared
        return asked.contract.asked
    *others, tool = asked.tools.declarations
    assert tuple(others) == declared.declarations
    assert (asked.contract.asked, tool.name) == ("text", asked.contract.tool)
    choice = asked.tools.tool_choice
    assert choice.name == (tool.name if choice.mode == "function" else None)
    return f"tool {choice.mode}"


@table(
    ("contract", "capabilities", "expected"),
    [
        (OutputContract(), can(), "text"),
        (OutputContract(), Capabilities(formats=frozenset()), "text"),
        (TRIP, can("json_schema", "json_object"), "json_schema"),
        (TRIP, can("json_object"), "tool function"),
        (TRIP, can(), "tool function"),
        (TRIP, can(**choosing("required")), "tool required"),
        (TRIP, can("json_object", **choosing()), "json_object"),
        (TRIP, can(**choosing()), "text"),
        (TRIP, can("json_object", tools=False), "json_object"),
        (TRIP, can(tools=False), "text"),
        (TRIP, can(max_tools=0), "text"),
        (JSON, can("json_object"), "json_object"),
        (JSON, can("json_schema"), "text"),
        (JSON, can(), "text"),
    ],
)
def test_the_best_supported_strategy_is_chosen(
    contract: OutputContract, capabilities: Capabilities, expected: str
) -> None:
    assert way(contract, capabilities) == expected


@table(
    ("capabilities", "expected"),
    [
        (can("json_schema"), "json_schema"),
        (can("json_schema", "json_object", formats_beside_tools=False), "tool required"),
        (can("json_object"), "tool required"),
        (can("json_object", **choosing("function")), "json_object"),
        (can("json_object", formats_beside_tools=False, **choosing("function")), "text"),
        (can(max_tools=2), "tool required"),
        (can(max_tools=1), "text"),
    ],
)
def test_tools_of_the_client_stay_callable(capabilities: Capabilities, expected: str) -> None:
    assert way(TRIP, capabilities, BESIDE) == expected


@table("choice", [ToolChoice("none"), ToolChoice("required"), ToolChoice("function", "look")])
def test_the_clients_tool_choice_rules_out_an_answer_tool(choice: ToolChoice) -> None:
    declared = structs.replace(BESIDE, tool_choice=choice)
    assert way(TRIP, can("json_object"), declared) == "json_object"
    assert way(TRIP, can("json_schema"), declared) == "json_schema"


def test_tools_that_the_provider_runs_itself_could_be_called_instead() -> None:
    assert way(TRIP, can("json_object"), DeclaredTools(native_tools=(SEARCH,))) == "json_object"


@table(
    ("effort", "thinks_by_default", "expected"),
    [
        ("high", False, "json_object"),
        (None, True, "json_object"),
        (None, False, "tool function"),
        ("off", True, "tool function"),
    ],
)
def test_no_answer_tool_is_used_where_it_would_disable_thinking(
    effort: str | None, thinks_by_default: bool, expected: str
) -> None:
    thinker = can(
        "json_object",
        efforts={"none": "off", "high": "high"},
        thinks_by_default=thinks_by_default,
        forced_choice_stops_thinking=True,
    )
    assert way(TRIP, thinker, effort=effort) == expected
    careless = structs.replace(thinker, forced_choice_stops_thinking=False)
    assert way(TRIP, careless, effort=effort) == "tool function"


def told(
    contract: OutputContract, capabilities: Capabilities, declared: DeclaredTools = ALONE
) -> str:
    param = "input[3].text.format"
    _, [diagnostic] = noted(choose_output_strategy, contract, param, declared, None, capabilities)
    assert (diagnostic.code, diagnostic.param, diagnostic.subject) == (
        "format.degraded",
        "input[3].text.format.type",
        "text.format.type",
    )
    return diagnostic.message


def test_every_weaker_strategy_is_reported_with_its_reason() -> None:
    for native, tools, capabilities in (
        (TRIP, ALONE, can("json_schema")),
        (OutputContract(), BESIDE, can()),
    ):
        asked = (native, "text.format", tools, None, capabilities)
        assert noted(choose_output_strategy, *asked)[1] == []
    assert "must call an answer tool" in told(TRIP, can())
    assert "JSON mode" in told(TRIP, can("json_object", tools=False))
    assert "(tools are not supported)" in told(TRIP, can(tools=False))
    assert "answer tool" not in told(JSON, can())
    chosen = structs.replace(BESIDE, tool_choice=ToolChoice("none"))
    assert "its own `tool_choice`" in told(TRIP, can(), chosen)
    assert "too many" in told(TRIP, can(max_tools=0))
    assert "cannot be forced" in told(TRIP, can(**choosing()))
    assert "disables thinking" in told(TRIP, can(forced_choice_stops_thinking=True))
    assert "own tools" in told(TRIP, can(), DeclaredTools(native_tools=(SEARCH,)))


# --- the tool -------------------------------------------------------------------------------------


def answer_tool(contract: OutputContract, **abilities: Any) -> ToolDeclaration:
    return choose(contract, can(**abilities), BESIDE).tools.declarations[-1]


def test_the_answer_tool_has_the_schema_and_a_name_of_its_own() -> None:
    tool = answer_tool(structs.replace(TRIP, description="Where to go."))
    assert (tool.name, tool.parameters, tool.strict) == ("answer_trip", SCHEMA, True)
    assert "(Where to go.)" in str(tool.description)
    assert answer_tool(structs.replace(TRIP, name="")).name == "answer"
    odd = answer_tool(structs.replace(TRIP, name="größe " * 20)).name
    assert len(odd) <= 64
    assert odd.isascii()


@table("strict", [None, False, True])
def test_the_tool_is_strict_where_the_format_is_and_the_provider_can_be(
    strict: bool | None,
) -> None:
    loose = structs.replace(TRIP, strict=strict)
    assert answer_tool(loose).strict is (True if strict else None)
    assert answer_tool(loose, strict_tools=False).strict is None


@table("strict", [None, True])
def test_the_answer_tool_is_strict_only_if_all_other_tools_are(
    strict: bool | None,
) -> None:
    others = structs.replace(BESIDE, declarations=(structs.replace(OWN, strict=strict),))
    asked = choose(structs.replace(TRIP, strict=None), can(strict_together=True), others)
    assert asked.tools.declarations[-1].strict is strict
    alone = choose(TRIP, can(strict_together=True))
    assert alone.tools.declarations[-1].strict is True


def test_the_answer_tool_has_open_objects_where_closed_ones_are_rejected() -> None:
    open_objects = {name: value for name, value in SCHEMA.items() if name != "additionalProperties"}
    assert answer_tool(TRIP, closed_objects=False).parameters == open_objects


def test_the_name_of_a_tool_of_the_client_is_not_taken() -> None:
    def named(*names: str) -> str | None:
        identities = ToolIdentityMap(ToolIdentity(name, name) for name in names)
        declared = DeclaredTools(declarations=(OWN,), identities=identities)
        return choose(TRIP, can(), declared).contract.tool

    assert named("look") == "answer_trip"
    marked = named("answer_trip")
    assert marked is not None
    assert marked.startswith("answer_trip_")
    assert named("answer_trip", marked) is None


# --- schemas of other types -----------------------------------------------------------------------

TREE = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}],
    "$defs": {"node": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
}


@table(
    ("schema", "good", "bad"),
    [
        ({"type": "array", "items": {"type": "integer"}}, [1, 2], ["a"]),
        ({"type": ["object", "null"]}, None, 1),
        ({"enum": ["a", "b"]}, "a", "c"),
        ({}, 1, ...),
        (TREE, [[], [[]]], 3),
    ],
)
def test_a_schema_that_is_not_an_object_is_wrapped_in_one(schema: Any, good: Any, bad: Any) -> None:
    contract = structs.replace(TRIP, schema=schema)
    asked = choose(contract, can())
    assert asked.contract.wrapped
    assert asked.contract.schema == schema
    wrapper = asked.tools.declarations[-1].parameters
    assert wrapper is not None
    assert (wrapper["type"], wrapper["required"]) == ("object", ["value"])
    check = jsonschema_rs.validator_for(dict(wrapper))
    assert check.is_valid({"value": good})
    assert not check.is_valid({"value": good, "more": 1})
    assert bad is ... or not check.is_valid({"value": bad})


def test_an_object_is_not_wrapped() -> None:
    assert not choose(TRIP, can()).contract.wrapped


@table(
    "schema",
    [
        {"type": "array", "items": {"$ref": "#"}},
        {"anyOf": [{"type": "null"}, {"$ref": "#/anyOf/0"}]},
        {"$id": "urn:x", "type": "array"},
        {"$anchor": "here", "type": "array", "items": {"$ref": "#here"}},
    ],
)
def test_a_schema_with_references_to_its_root_is_not_wrapped(schema: Any) -> None:
    contract = structs.replace(TRIP, schema=schema)
    assert way(contract, can("json_object")) == "json_object"
    assert "cannot be the parameters of a tool" in told(contract, can("json_object"))
