"""Anthropic Messages encoder: a plan becomes a request that the API accepts."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from msgspec import structs

from antiphon.core.history.steps import (
    BlockPlace,
    MessageStep,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.items import CacheBreakpoint, Document
from antiphon.core.plan.plan import Plan
from antiphon.core.request import Thinking
from antiphon.core.structured_output.contract import FormatKind, OutputContract
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.dialects.anthropic.encode import encode
from antiphon.dialects.anthropic.quirks import PLAIN, AnthropicQuirks
from tests.support.dialect_samples.history import message_step
from tests.support.request_validators.anthropic import problems
from tests.support.tables import table

LOOK = ToolDeclaration(name="look", description="Look.", parameters={"type": "object"})
LOOK_BODY = {
    "name": "look",
    "description": "Look.",
    "input_schema": {"type": "object", "properties": {}},
}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "minLength": 1}}}
MARK = {"type": "ephemeral"}


HI = message_step("user", "hi")


def body(*history: Step, quirks: AnthropicQuirks = PLAIN, **fields: Any) -> Document:
    plan = Plan(provider="p", model="m", history=history or (HI,), **fields)
    found = encode(plan, stream=False, quirks=quirks).body
    assert quirks.patch or quirks.sampling == "both" or problems(found) == []
    decoded: Document = json.loads(found)
    return decoded


def test_a_minimal_request_has_a_model_a_limit_and_messages() -> None:
    outbound = encode(Plan(provider="p", model="m", history=(HI,)), stream=False)
    assert outbound.path == "/v1/messages"
    assert outbound.headers == {
        "content-type": "application/json",
        "accept": "application/json",
        "anthropic-version": "2023-06-01",
    }
    assert outbound.body == (
        b'{"model":"m","max_tokens":32000,"cache_control":{"type":"ephemeral"},'
        b'"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}'
    )


def test_a_stream_is_requested() -> None:
    outbound = encode(Plan(provider="p", model="m", history=(HI,)), stream=True)
    assert outbound.headers["accept"] == "text/event-stream"
    assert json.loads(outbound.body)["stream"] is True


def test_the_path_may_contain_the_model_and_differ_for_streams() -> None:
    plan = Plan(provider="p", model="m", history=(HI,))
    quirks = AnthropicQuirks(path="/{model}:raw", stream_path="/{model}:stream")
    assert encode(plan, stream=False, quirks=quirks).path == "/m:raw"
    assert encode(plan, stream=True, quirks=quirks).path == "/m:stream"
    elsewhere = Plan(provider="p", model="../files?a=b#", history=(HI,))
    assert encode(elsewhere, stream=False, quirks=quirks).path == "/..%2Ffiles%3Fa%3Db%23:raw"


def test_a_patch_is_applied_last_and_messages_stay_last() -> None:
    def patch(found: Document, plan: Plan) -> Document:
        found.pop("model")
        return found | {"anthropic_version": f"for {plan.model}"}

    found = body(quirks=AnthropicQuirks(patch=patch))
    assert "model" not in found
    assert [*found][-2:] == ["anthropic_version", "messages"]


@table("user", ["ann@example.com", "name=ann@example.com;x"])
def test_an_email_address_of_a_user_is_sent_as_a_hash(user: str) -> None:
    """BerriAI/litellm#10106: the API refuses it."""
    digest = hashlib.sha256(user.encode()).hexdigest()
    assert body(parameters={"user": user})["metadata"] == {"user_id": digest}
    assert body(parameters={"user": "a@b"})["metadata"] == {"user_id": "a@b"}


def test_parameters_have_the_names_of_the_api() -> None:
    parameters = {
        "max_output_tokens": 100,
        "temperature": 0.5,
        "safety_identifier": "s",
        "user": "u",
        "service_tier": "default",
        "verbosity": "low",
    }
    found = body(parameters=parameters)
    assert found["max_tokens"] == 100
    assert found["temperature"] == 0.5
    assert found["metadata"] == {"user_id": "s"}
    assert found["service_tier"] == "standard_only"
    assert "verbosity" not in found
    assert body(parameters={"user": "u"})["metadata"] == {"user_id": "u"}
    assert "service_tier" not in body(parameters={"service_tier": "flex"})


@pytest.mark.parametrize(
    ("sampling", "sent"),
    [
        ("both", {"temperature": 1, "top_p": 0.5}),
        ("one", {"temperature": 1}),
        ("none", {}),
    ],
)
def test_temperature_and_top_p_are_sent_as_far_as_supported(sampling: Any, sent: Document) -> None:
    parameters = {"temperature": 1.7, "top_p": 0.5}
    found = body(parameters=parameters, quirks=AnthropicQuirks(sampling=sampling))
    assert {name: found[name] for name in ("temperature", "top_p") if name in found} == sent


@pytest.mark.parametrize(("top_p", "sent"), [(0.5, None), (0.97, 0.97), (None, None)])
def test_with_thinking_only_a_high_top_p_is_sent(top_p: float | None, sent: float | None) -> None:
    found = body(parameters={"temperature": 0.5, "top_p": top_p}, effort="low")
    assert "temperature" not in found
    assert found.get("top_p") == sent


def test_top_p_is_sent_without_a_temperature() -> None:
    assert body(parameters={"top_p": 0.5})["top_p"] == 0.5


# --- thinking -------------------------------------------------------------------------------------

ADAPTIVE = AnthropicQuirks(thinking="adaptive", display="summarized")


def test_an_effort_is_a_budget() -> None:
    assert body(effort="8192")["thinking"] == {"type": "enabled", "budget_tokens": 8192}
    assert body(effort="odd")["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    shown = AnthropicQuirks(display="omitted")
    assert body(effort="5000", quirks=shown)["thinking"] == {
        "type": "enabled",
        "budget_tokens": 5000,
        "display": "omitted",
    }


@pytest.mark.parametrize(
    ("limit", "thinking"),
    [
        (5000, {"type": "enabled", "budget_tokens": 3976}),
        (2048, {"type": "enabled", "budget_tokens": 1024}),
        (2047, {"type": "disabled"}),
    ],
)
def test_a_budget_leaves_room_for_the_answer(limit: int, thinking: Document) -> None:
    found = body(effort="16384", parameters={"max_output_tokens": limit})
    assert found["thinking"] == thinking


def test_effort_is_a_level_for_adaptive_thinking() -> None:
    found = body(effort="xhigh", quirks=ADAPTIVE)
    assert found["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert found["output_config"] == {"effort": "xhigh"}


def test_thinking_is_left_out_without_an_effort() -> None:
    for quirks in (PLAIN, ADAPTIVE, AnthropicQuirks(thinking="none")):
        found = body(quirks=quirks)
        assert "thinking" not in found
        assert "output_config" not in found
    assert "thinking" not in body(effort="high", quirks=AnthropicQuirks(thinking="none"))


def test_effort_none_disables_thinking() -> None:
    for quirks in (PLAIN, ADAPTIVE):
        found = body(effort="none", quirks=quirks)
        assert found["thinking"] == {"type": "disabled"}
        assert "output_config" not in found


@pytest.mark.parametrize("quirks", [PLAIN, ADAPTIVE])
@pytest.mark.parametrize("choice", [ToolChoice("required"), ToolChoice("function", "look")])
def test_a_forced_call_disables_thinking(quirks: AnthropicQuirks, choice: ToolChoice) -> None:
    found = body(effort="high", declarations=(LOOK,), tool_choice=choice, quirks=quirks)
    assert found["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (ToolChoice(), None),
        (ToolChoice("none"), {"type": "none"}),
        (ToolChoice("required"), {"type": "any"}),
        (ToolChoice("function", "look"), {"type": "tool", "name": "look"}),
    ],
)
def test_tool_choice_has_the_values_of_the_api(choice: ToolChoice, sent: Document | None) -> None:
    found = body(declarations=(LOOK,), tool_choice=choice)
    assert found["tools"] == [LOOK_BODY]
    assert found.get("tool_choice") == sent


@pytest.mark.parametrize("mode", ["auto", "required", "none"])
def test_single_calls_are_requested_by_tool_choice(mode: Any) -> None:
    parameters = {"parallel_tool_calls": False}
    found = body(declarations=(LOOK,), tool_choice=ToolChoice(mode), parameters=parameters)
    assert found["tool_choice"].get("disable_parallel_tool_use", False) is (mode != "none")
    assert "tool_choice" not in body(parameters=parameters)


def test_the_schema_of_a_strict_tool_has_only_supported_keywords() -> None:
    """experientiallabs/experiential#804: the API refuses the others, but only of strict tools."""
    nested = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}}
    schema = {"type": "object", "properties": {"a": nested}, "required": ["a"]}
    [tool] = body(declarations=(ToolDeclaration(name="f", parameters=schema, strict=True),))[
        "tools"
    ]
    closed = {"additionalProperties": False}
    limited = {"type": "integer", "description": '{"maximum":9}'}
    assert tool["input_schema"] == {
        "type": "object",
        "properties": {"a": {"type": "object", "properties": {"n": limited}, **closed}},
        "required": ["a"],
        **closed,
    }
    [tool] = body(declarations=(ToolDeclaration(name="f", parameters=schema),))["tools"]
    assert tool["input_schema"] == schema


def test_a_tool_may_lack_a_description_and_be_strict() -> None:
    [tool] = body(declarations=(ToolDeclaration(name="look", strict=True),))["tools"]
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    assert tool == {"name": "look", "input_schema": schema, "strict": True}
    [tool] = body(declarations=(ToolDeclaration(name="look", strict=False),))["tools"]
    assert "strict" not in tool


def test_native_search_has_the_clients_filters() -> None:
    plain: Document = {"type": "web_search", "filters": {}, "user_location": None}
    location = {"type": "approximate", "city": "Bern", "region": None}
    limited = plain | {"filters": {"allowed_domains": ["x.test"]}, "user_location": location}
    expected = {"type": "web_search_20250305", "name": "web_search"}
    assert body(native_tools=(plain,))["tools"] == [expected]
    assert body(native_tools=(limited,), declarations=(LOOK,))["tools"] == [
        LOOK_BODY,
        expected
        | {
            "allowed_domains": ["x.test"],
            "user_location": {"type": "approximate", "city": "Bern"},
        },
    ]


def test_tools_have_the_order_of_a_client_of_the_same_format() -> None:
    """The prompt begins with them: another order is another prefix of the cache."""
    see = ToolDeclaration(name="see", parameters={"type": "object"})
    tools: Document = {
        "declarations": (LOOK, see),
        "native_tools": ({"type": "web_search"},),
        "native_places": (1,),
    }
    found = body(**tools)["tools"]
    assert [tool["name"] for tool in found] == ["look", "see", "web_search"]
    placed = body(**tools, parameters={"prompt_caching": "client"})["tools"]
    assert [tool["name"] for tool in placed] == ["look", "web_search", "see"]


def test_native_search_has_the_limit_of_tool_calls() -> None:
    found = body(native_tools=({"type": "web_search"},), parameters={"max_tool_calls": 3})
    assert found["tools"] == [{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}]
    assert "max_tool_calls" not in found


def test_tools_called_earlier_are_declared_with_choice_none() -> None:
    calls = (
        ToolCallStep("a", "look", "{}"),
        ToolCallStep("b", "look", "{}"),
        ToolCallStep("c", "hear", "{}"),
    )
    answers = [ToolResultStep(call.call_id, (TextPart("1"),), call.name) for call in calls]
    found = body(HI, *calls, *answers)
    assert [tool["name"] for tool in found["tools"]] == ["look", "hear"]
    assert found["tool_choice"] == {"type": "none"}
    apart = {"type": "mcp", "extra": {"format": "messages", "members": {"name": "sky"}}}
    found = body(HI, *calls, *answers, native_tools=(apart,))  # tools of servers may be called
    assert [tool["name"] for tool in found["tools"]] == ["look", "hear"]
    assert "tool_choice" not in found


def contract(requested: FormatKind, asked: FormatKind) -> OutputContract:
    schema = SCHEMA if requested == "json_schema" else None
    return OutputContract(requested=requested, asked=asked, name="place", schema=schema)


def test_structured_output_is_requested_natively_where_supported() -> None:
    quirks = AnthropicQuirks(native_format=True, thinking="adaptive")
    found = body(contract=contract("json_schema", "json_schema"), quirks=quirks, effort="low")
    city = {"type": "string", "description": '{"minLength":1}'}
    schema = {"type": "object", "properties": {"city": city}, "additionalProperties": False}
    form = {"type": "json_schema", "schema": schema}
    assert found["output_config"] == {"effort": "low", "format": form}
    assert "system" not in found


@pytest.mark.parametrize(
    ("requested", "asked"),
    [("json_schema", "json_schema"), ("json_schema", "text"), ("json_object", "json_object")],
)
def test_structured_output_is_otherwise_an_instruction(
    requested: FormatKind, asked: FormatKind
) -> None:
    found = body(
        message_step("system", "b"), HI, instructions="a", contract=contract(requested, asked)
    )
    assert "output_config" not in found
    texts = [block["text"] for block in found["system"]]
    assert texts == ["a", "b", contract(requested, "text").instruction()]


def marks(found: Document) -> list[str]:
    """Where the markers stand."""
    places = ["body"] if "cache_control" in found else []
    places += [f"system {n}" for n, b in enumerate(found["system"]) if "cache_control" in b]
    return places + [
        f"{number} {place}"
        for number, message in enumerate(found["messages"])
        for place, block in enumerate(message["content"])
        if block.get("cache_control") == MARK
    ]


THREAD = (
    HI,
    message_step("assistant", "a"),
    message_step("user", "b", "c"),
    message_step("assistant", "d"),
    HI,
)


@pytest.mark.parametrize(
    ("caching", "places"),
    [
        ("automatic", ["body", "system 1"]),
        ("breakpoints", ["system 1", "2 1", "4 0"]),
        ("off", []),
    ],
)
def test_cache_markers_follow_the_caching_quirk(caching: Any, places: list[str]) -> None:
    quirks = AnthropicQuirks(caching=caching)
    found = body(message_step("system", "y"), *THREAD, instructions="x", quirks=quirks)
    assert marks(found) == places


def test_a_short_thread_has_one_breakpoint() -> None:
    found = body(instructions="x", quirks=AnthropicQuirks(caching="breakpoints"))
    assert marks(found) == ["system 0", "0 0"]


# --- parameters of other client formats -----------------------------------------------------------

SAMPLED = {"stop": ("END", "STOP"), "top_k": 40}


def test_stop_sequences_and_top_k_have_their_own_names() -> None:
    found = body(parameters=SAMPLED)
    assert (found["stop_sequences"], found["top_k"]) == (["END", "STOP"], 40)
    assert {"stop_sequences", "top_k"} & body(parameters={"stop": ()}).keys() == set()


def test_top_k_is_left_out_where_sampling_is_refused() -> None:
    assert "top_k" not in body(parameters=SAMPLED, effort="low")
    assert "top_k" not in body(parameters=SAMPLED, quirks=AnthropicQuirks(sampling="none"))


# --- a client of the same format ------------------------------------------------------------------

ADAPTIVE_QUIRKS = AnthropicQuirks(thinking="adaptive", display="summarized")


def test_betas_context_edits_and_unknown_members_are_sent_as_they_came() -> None:
    parameters = {
        "betas": ("a", "b"),
        "context_edits": ({"type": "compact_20260112"},),
        "extra": {"format": "messages", "members": {"container": "c"}},
    }
    outbound = encode(Plan(provider="p", model="m", parameters=parameters), stream=False)
    assert outbound.headers["anthropic-beta"] == "a,b"
    sent = json.loads(outbound.body)
    assert sent["context_management"] == {"edits": [{"type": "compact_20260112"}]}
    assert sent["container"] == "c"


CLEARS = {"type": "clear_thinking_20251015", "keep": "all"}
COMPACTS = {"type": "compact_20260112"}


@table(
    ("fields", "edits"),
    [
        ({"effort": "high"}, [CLEARS, COMPACTS]),
        ({"effort": "none"}, [COMPACTS]),
        (
            {"effort": "high", "tool_choice": ToolChoice("required"), "declarations": (LOOK,)},
            [COMPACTS],
        ),
        ({}, [COMPACTS]),
    ],
)
def test_thinking_is_cleared_only_where_the_model_is_asked_to_think(
    fields: Any, edits: Any
) -> None:
    """can1357/oh-my-pi#2143: the API refuses to clear it while thinking is disabled."""
    parameters = {"context_edits": (CLEARS, COMPACTS)}
    plan = Plan(provider="p", model="m", parameters=parameters, history=(HI,), **fields)
    sent = json.loads(encode(plan, stream=False, quirks=ADAPTIVE_QUIRKS).body)
    assert sent["context_management"] == {"edits": edits}
    plan = structs.replace(plan, parameters={"context_edits": (CLEARS,)}, effort="none")
    assert "context_management" not in json.loads(encode(plan, stream=False).body)


@table(
    ("asked", "quirks", "sent"),
    [
        (Thinking(), ADAPTIVE_QUIRKS, None),
        (
            Thinking(mode="adaptive", display="updates"),
            ADAPTIVE_QUIRKS,
            {"type": "adaptive", "display": "updates"},
        ),
        (Thinking(mode="adaptive"), ADAPTIVE_QUIRKS, {"type": "adaptive"}),
        (
            Thinking(mode="enabled", budget_tokens=40_000),
            PLAIN,
            {"type": "enabled", "budget_tokens": 31_999},
        ),
        (
            Thinking(mode="enabled", budget_tokens=500),
            PLAIN,
            {"type": "enabled", "budget_tokens": 1024},
        ),
        # The client took the model for one of another generation: the effort decides.
        (
            Thinking(mode="enabled", budget_tokens=40_000),
            ADAPTIVE_QUIRKS,
            {"type": "adaptive", "display": "summarized"},
        ),
        (Thinking(mode="adaptive"), PLAIN, {"type": "enabled", "budget_tokens": 1024}),
        (Thinking(mode="enabled"), PLAIN, {"type": "enabled", "budget_tokens": 1024}),
    ],
)
def test_thinking_is_as_the_client_asked_for_it_where_the_model_has_that_form(
    asked: Thinking, quirks: AnthropicQuirks, sent: Document | None
) -> None:
    found = body(parameters={"thinking": asked}, effort="high", quirks=quirks)
    assert found.get("thinking") == sent


def test_an_effort_beside_disabled_thinking_is_sent() -> None:
    asked = Thinking(mode="disabled", effort="high")
    found = body(parameters={"thinking": asked}, effort="none", quirks=ADAPTIVE_QUIRKS)
    assert found["thinking"] == {"type": "disabled"}
    assert found["output_config"] == {"effort": "high"}


@pytest.mark.parametrize("caching", ["automatic", "breakpoints"])
def test_no_breakpoints_are_added_to_those_of_the_client(caching: Any) -> None:
    quirks = AnthropicQuirks(caching=caching)
    found = body(parameters={"prompt_caching": "client"}, instructions="Be.", quirks=quirks)
    assert "cache_control" not in json.dumps(found)
    given = {"prompt_caching": "client", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    assert body(parameters=given, quirks=quirks)["cache_control"]["ttl"] == "1h"


def test_system_blocks_of_the_client_keep_their_breakpoints() -> None:
    first = MessageStep("system", (TextPart("a"),), place=BlockPlace(-1, 0))
    cached = TextPart("b", cache=CacheBreakpoint("1h", "global"), extra={"x": 1})
    second = MessageStep("system", (cached, TextPart(" ")), place=BlockPlace(-1, 1))
    plan = Plan(
        provider="p",
        model="m",
        history=(first, second, HI),
        parameters={"prompt_caching": "client"},
    )
    mark = {"type": "ephemeral", "ttl": "1h", "scope": "global"}
    assert json.loads(encode(plan, stream=False).body)["system"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b", "x": 1, "cache_control": mark},
    ]


def test_a_tool_keeps_the_members_of_the_client() -> None:
    tool = ToolDeclaration(
        name="f", deferred=True, cache=CacheBreakpoint(), extra={"input_examples": []}
    )
    bash = {"type": "bash_20250124", "name": "bash"}
    plan = Plan(
        provider="p",
        model="m",
        declarations=(tool, ToolDeclaration(name="bash", extra=bash)),
        native_tools=(
            {"type": "web_search", "extra": {"format": "messages", "members": {"type": "w"}}},
            {"type": "code_execution_20250825", "name": "code_execution"},
        ),
    )
    assert json.loads(encode(plan, stream=False).body)["tools"] == [
        {
            "name": "f",
            "input_schema": {"type": "object", "properties": {}},
            "defer_loading": True,
            "input_examples": [],
            "cache_control": {"type": "ephemeral"},
        },
        bash,
        {"type": "w"},
        {"type": "code_execution_20250825", "name": "code_execution"},
    ]


def test_servers_of_the_client_are_no_tools() -> None:
    apart = {"type": "mcp", "extra": {"format": "messages", "members": {"name": "sky"}}}
    toolset = {"type": "mcp_toolset", "mcp_server_name": "sky"}
    among = {"type": "mcp", "extra": {"format": "messages", "members": toolset}}
    forced = ToolChoice("required")
    servers = {"extra": {"format": "messages", "members": {"mcp_servers": [{"name": "sky"}]}}}
    assert "tools" not in body(native_tools=(apart,), parameters=servers)
    found = body(native_tools=(apart,), tool_choice=forced, parameters=servers)
    assert (found.get("tools"), found["tool_choice"]) == (None, {"type": "any"})
    found = body(native_tools=(among,), tool_choice=forced, parameters=servers)
    assert (found["tools"], found["tool_choice"]) == ([toolset], {"type": "any"})


def test_a_native_search_may_exclude_domains() -> None:
    tool = {"type": "web_search", "filters": {"blocked_domains": ["a.test"]}}
    [search] = body(native_tools=(tool,))["tools"]
    assert search["blocked_domains"] == ["a.test"]
