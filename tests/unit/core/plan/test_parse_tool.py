"""Parsing of one tool: its declaration, and why it is ignored."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import msgspec
import pytest

from antiphon.core.capabilities import Capabilities
from antiphon.core.diagnostic import Decision
from antiphon.core.items import FunctionCall
from antiphon.core.plan.hosted_tools import family
from antiphon.core.plan.parse_tool import ToolOffer, parse_tool
from antiphon.core.tools.identity import ToolIdentity
from antiphon.core.tools.restore import ProviderCall, restore_tool_call
from antiphon.errors import InvalidRequest
from tests.support.plans import noted
from tests.support.tables import table

WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": True,
}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
PATCH = {"type": "custom", "name": "patch", "description": "Edits files.", "format": GRAMMAR}


def read(tool: object, **capabilities: Any) -> tuple[ToolOffer, list[str]]:
    offer, diagnostics = noted(parse_tool, tool, "tools[0]", Capabilities(**capabilities))
    return offer, [f"{each.code}:{each.subject} {each.param}" for each in diagnostics]


def reason(tool: dict[str, Any], **capabilities: Any) -> str:
    offer, [diagnostic] = noted(parse_tool, tool, "tools[0]", Capabilities(**capabilities))
    assert (offer.handling, diagnostic.code) == ("ignored", "tool.ignored")
    assert (diagnostic.decision, diagnostic.param) == (Decision.IGNORED, "tools[0]")
    return diagnostic.message


# --- functions ------------------------------------------------------------------------------------


def test_a_function_is_declared_as_it_is() -> None:
    offer, diagnostics = read(WEATHER)
    assert (offer.name, offer.description, offer.strict) == ("weather", "Tells the weather.", True)
    assert offer.parameters == WEATHER["parameters"]
    assert (offer.handling, diagnostics) == ("declared", [])


@table("parameters", [{}, {"parameters": None}, {"parameters": {}}])
def test_a_function_without_parameters_takes_an_empty_object(parameters: dict[str, Any]) -> None:
    offer, _ = read({"type": "function", "name": "now", **parameters})
    assert offer.parameters == {"type": "object", "properties": {}}
    assert (offer.description, offer.strict) == (None, None)


def test_strict_is_reported_where_schemas_are_not_enforced() -> None:
    offer, diagnostics = read(WEATHER, strict_tools=False)
    assert offer.strict is None
    assert diagnostics == ["tool.degraded:strict tools[0].strict"]


@table("strict", [False, None])
def test_a_schema_that_is_not_strict_makes_no_diagnostic(strict: bool | None) -> None:
    offer, diagnostics = read({**WEATHER, "strict": strict}, strict_tools=False)
    assert (offer.strict, diagnostics) == (None, [])


def test_closed_objects_are_opened_with_a_diagnostic_where_rejected() -> None:
    inner = {"type": "object", "additionalProperties": False, "required": ["a"]}
    schema = {**inner, "properties": {"a": {"anyOf": [inner, {"type": "null"}]}}}
    open_inner = {"type": "object", "required": ["a"]}
    offer, diagnostics = read({**WEATHER, "parameters": schema}, closed_objects=False)
    assert offer.parameters == {
        **open_inner,
        "properties": {"a": {"anyOf": [open_inner, {"type": "null"}]}},
    }
    assert diagnostics == ["tool.degraded:parameters tools[0].parameters"]


def test_open_objects_make_no_diagnostic() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    offer, diagnostics = read({**WEATHER, "parameters": schema}, closed_objects=False)
    assert (offer.parameters, diagnostics) == (schema, [])


def test_the_schema_of_a_custom_tool_is_opened_without_a_diagnostic() -> None:
    offer, diagnostics = read({"type": "custom", "name": "exec"}, closed_objects=False)
    assert "additionalProperties" not in (offer.parameters or {})
    assert diagnostics == []


@table("field", [{"async": True}, {"defer_loading": True}, {"output_schema": {"type": "object"}}])
def test_a_field_without_effect_is_reported(field: dict[str, Any]) -> None:
    [name] = field
    assert read(WEATHER | field)[1] == [f"tool.degraded:{name} tools[0].{name}"]


def test_a_deferred_tool_that_a_search_found_is_no_longer_deferred() -> None:
    tool = {**WEATHER, "defer_loading": True}
    _, diagnostics = noted(parse_tool, tool, "input[0].tools[0]", Capabilities(), origin="search")
    assert diagnostics == []


@table(
    ("tool", "param"),
    [
        ("weather", "tools[0].type"),
        ({"name": "weather"}, "tools[0].type"),
        ({"type": "function"}, "tools[0].name"),
        ({"type": "function", "name": ""}, "tools[0].name"),
        ({"type": "custom", "name": 7}, "tools[0].name"),
        ({**WEATHER, "description": 7}, "tools[0].description"),
        ({**WEATHER, "parameters": "none"}, "tools[0].parameters"),
        ({**PATCH, "format": {**GRAMMAR, "definition": None}}, "tools[0].format.definition"),
        ({**PATCH, "format": {"type": "grammar"}}, "tools[0].format.syntax"),
    ],
)
def test_an_invalid_tool_is_an_error_that_names_the_field(tool: object, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(tool)
    assert caught.value.param == param


# --- other tools that the client runs -------------------------------------------------------------


def test_a_custom_tool_becomes_a_function_with_one_string() -> None:
    offer, diagnostics = read({"type": "custom", "name": "note", "format": {"type": "text"}})
    assert offer.parameters is not None
    assert offer.parameters["required"] == ["input"]
    assert offer.parameters["properties"]["input"]["type"] == "string"
    assert "`input`" in str(offer.description)
    assert diagnostics == []


def test_a_grammar_is_part_of_the_description() -> None:
    offer, diagnostics = read(PATCH)
    assert offer.description is not None
    assert offer.description.startswith("Edits files.")
    assert "lark" in offer.description
    assert offer.description.endswith("start: /.+/")
    assert diagnostics == []


@table("form", [{**GRAMMAR, "definition": "start: missing"}, {**GRAMMAR, "syntax": "ebnf"}])
def test_a_grammar_that_does_not_compile_is_reported(form: dict[str, str]) -> None:
    _, diagnostics = read({**PATCH, "format": form})
    assert diagnostics == ["tool.degraded:format tools[0].format"]


ARGUMENTS: dict[str, dict[str, Any]] = {
    "shell": {"commands": ["ls"], "timeout_ms": 9, "max_output_length": 99},
    "local_shell": {
        "command": ["ls", "-l"],
        "working_directory": "src",
        "timeout_ms": 9,
        "env": {"A": "b"},
        "user": "me",
    },
    "apply_patch": {"operation": {"type": "update_file", "path": "a", "diff": "+b"}},
    "tool_search": {"query": "echo", "limit": 3},
}


@table("kind", ARGUMENTS)
def test_calls_of_built_in_tools_are_restored_to_their_type(kind: str) -> None:
    offer, diagnostics = read({"type": kind, "execution": "client"})
    assert (offer.name, offer.type, diagnostics) == (kind, kind, [])
    jsonschema_rs.validate(dict(offer.parameters or {}), ARGUMENTS[kind])
    call = ProviderCall(
        "fc_1", "call_1", kind, msgspec.json.encode(ARGUMENTS[kind]).decode(), "completed"
    )
    item = restore_tool_call(ToolIdentity(kind, kind, offer.tool_type), call)
    assert not isinstance(item, FunctionCall)
    assert msgspec.to_builtins(item)["type"] == f"{kind}_call"


@table("kind", ARGUMENTS)
def test_schemas_of_built_in_tools_require_the_necessary_arguments(kind: str) -> None:
    offer, _ = read({"type": kind, "execution": "client"})
    assert not jsonschema_rs.is_valid(dict(offer.parameters or {}), {})


def test_a_tool_search_keeps_its_own_description_and_schema() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    tool = {"type": "tool_search", "execution": "client", "description": "d", "parameters": schema}
    offer, _ = read(tool)
    assert (offer.description, offer.parameters) == ("d", schema)


def test_a_shell_without_an_environment_is_the_clients_own() -> None:
    assert read({"type": "shell", "environment": {"type": "local"}})[0].handling == "declared"
    assert read({"type": "shell", "environment": None})[0].handling == "declared"


# --- ignored tools --------------------------------------------------------------------------------


@table(
    "kind",
    """
    image_generation code_interpreter file_search mcp computer computer_use_preview
    programmatic_tool_calling teleport
    """.split(),
)
def test_a_hosted_tool_is_ignored_with_a_diagnostic(kind: str) -> None:
    assert kind in reason({"type": kind})


def test_an_ignored_tool_is_reported_by_the_clients_name() -> None:
    assert "'files'" in reason({"type": "mcp", "server_label": "files"})


def test_a_sandboxed_shell_never_becomes_the_clients_own_machine() -> None:
    assert "container" in reason({"type": "shell", "environment": {"type": "container_auto"}})


@table("callers", [[], ["programmatic"]])
def test_a_tool_that_only_programs_may_call_is_not_given_to_the_model(callers: list[str]) -> None:
    assert "programs" in reason({**WEATHER, "allowed_callers": callers})
    assert read({**WEATHER, "allowed_callers": ["direct", *callers]})[0].handling == "declared"


@table("execution", [{}, {"execution": "server"}])
def test_a_tool_search_by_the_server_is_ignored(execution: dict[str, str]) -> None:
    assert "does not search tools" in reason({"type": "tool_search", **execution})


@table("kind", ["web_search", "shell", "namespace"])
def test_a_namespace_holds_functions_and_custom_tools_only(kind: str) -> None:
    capabilities = Capabilities(web_search="refuse")
    offer, [diagnostic] = noted(
        parse_tool, {"type": kind}, "tools[0]", capabilities, namespace="ns"
    )
    assert (offer.handling, offer.namespace) == ("ignored", "ns")
    assert "namespace" in diagnostic.message


# --- web search -----------------------------------------------------------------------------------

SEARCHES = [
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
]


@table("kind", SEARCHES)
def test_web_search_goes_where_the_configuration_says(kind: str) -> None:
    tool = {"type": kind, "external_web_access": True, "search_context_size": "medium"}
    offer, diagnostics = read(tool, web_search="native")
    assert (offer.handling, offer.document, diagnostics) == ("native", tool, [])
    assert "web search is not supported" in reason(tool, web_search="ignore")
    assert "web search is not supported" in reason(tool, web_search="none")
    assert "web search" in (read(tool, web_search="none")[0].unavailable or "")
    with pytest.raises(InvalidRequest) as caught:
        read(tool, web_search="refuse")
    assert (caught.value.param, caught.value.status) == ("tools[0].type", 400)


RESTRICTIONS: list[dict[str, Any]] = [
    {"external_web_access": False},
    {"indexed_web_access": False},
    {"filters": {"allowed_domains": ["example.org"]}},
    {"filters": ["example.org"]},
]


@table("limit", RESTRICTIONS)
def test_a_search_with_an_unsupported_restriction_is_ignored(limit: dict[str, Any]) -> None:
    [name] = limit
    assert f"`{name}" in reason({"type": "web_search", **limit}, web_search="native")


@table("limit", RESTRICTIONS)
def test_a_search_with_a_supported_restriction_is_sent_to_the_provider(
    limit: dict[str, Any],
) -> None:
    offer, _ = read(
        {"type": "web_search", **limit}, web_search="native", web_search_limits=frozenset(limit)
    )
    assert offer.handling == "native"


def test_a_search_may_support_only_some_filters() -> None:
    can: dict[str, Any] = {
        "web_search": "native",
        "web_search_limits": frozenset({"filters.allowed_domains"}),
    }
    allowed = {"type": "web_search", "filters": {"allowed_domains": ["a.test"]}}
    assert read(allowed, **can)[0].handling == "native"
    blocked = {"type": "web_search", "filters": {"blocked_domains": ["a.test"]}}
    assert "`filters.blocked_domains`" in reason(blocked, **can)


def test_fields_that_a_search_ignores_are_reported() -> None:
    hints: dict[str, Any] = {
        "search_content_types": ["text", "image"],
        "search_context_size": "high",
        "user_location": {"type": "approximate", "city": "Bern"},
    }
    tool = {"type": "web_search", **hints}
    offer, told = read(tool, web_search="native")
    assert offer.handling == "native"
    assert told == [f"tool.degraded:{name} tools[0].{name}" for name in hints]
    heeded = frozenset("search_content_types search_context_size.high user_location".split())
    assert read(tool, web_search="native", web_search_limits=heeded)[1] == []
    small = {**tool, "search_context_size": "low"}
    [told] = read(small, web_search="native", web_search_limits=heeded)[1:]
    assert told == ["tool.degraded:search_context_size tools[0].search_context_size"]


@table(
    "limit",
    [{"filters": None}, {"filters": {"allowed_domains": None}}, {"external_web_access": None}],
)
def test_an_empty_restriction_restricts_nothing(limit: dict[str, Any]) -> None:
    assert read({"type": "web_search", **limit}, web_search="native")[0].handling == "native"


def test_dated_types_are_one_family() -> None:
    assert {family(kind) for kind in SEARCHES} == {"web_search"}
    assert family("computer_use_preview") == family("computer")
    assert family("function") == "function"


def test_a_provider_of_the_clients_format_gets_tools_of_an_unknown_type() -> None:
    tool = {"type": "advisor_20260301", "extra": {"format": "f", "members": {"type": "advisor"}}}
    offer, diagnostics = read(tool, client_blocks="f")
    assert (offer.handling, diagnostics) == ("native", [])
    assert "unknown" in reason(tool, client_blocks="g")
    declared, _ = read({**WEATHER, "extra": tool["extra"]}, client_blocks="f")
    assert declared.handling == "declared"
