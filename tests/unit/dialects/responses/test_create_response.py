"""The initial response of a request, validated with the official client."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from openai.types.responses import Response as OfficialResponse

from antiphon.core.response import UsedSettings, remove_settings
from antiphon.dialects.responses.create_response import create_response
from tests.support.full_request import CHOICES, FULL, TOOLS, Document
from tests.support.request_body import parse_body
from tests.support.tables import table


def echo(**fields: Any) -> Document:
    """The created response as JSON, after the official client has validated it."""
    request = parse_body(json.dumps({"model": "m", "input": "Hello?", **fields}).encode())
    response = create_response(request, response_id="resp_1", created_at=1700000000)
    document: Document = msgspec.json.decode(msgspec.json.encode(response))
    OfficialResponse.model_validate(document)
    return document


def test_a_minimal_request_creates_a_response_of_defaults() -> None:
    assert echo() == {
        "id": "resp_1",
        "object": "response",
        "created_at": 1700000000,
        "completed_at": None,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "model": "m",
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "conversation": None,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "user": None,
        "metadata": {},
    }


def test_every_parameter_of_the_request_is_repeated() -> None:
    document = echo(**FULL)
    same = """
        model background instructions max_output_tokens max_tool_calls parallel_tool_calls
        previous_response_id presence_penalty frequency_penalty prompt_cache_key safety_identifier
        store temperature text tool_choice top_logprobs top_p truncation user metadata
    """.split()
    assert {name: document[name] for name in same} == {name: FULL[name] for name in same}
    assert document["reasoning"] == {"effort": "high", "summary": "concise"}


def test_falsy_values_are_repeated() -> None:
    document = echo(temperature=0, top_p=0, parallel_tool_calls=False, store=False, instructions="")
    assert (document["temperature"], document["top_p"]) == (0.0, 0.0)
    assert (document["parallel_tool_calls"], document["store"]) == (False, False)
    assert document["instructions"] == ""


def test_a_conversation_is_repeated_as_an_object() -> None:
    assert echo(conversation="conv_1")["conversation"] == {"id": "conv_1"}
    assert echo(conversation={"id": "conv_1", "x": 1})["conversation"] == {"id": "conv_1"}


@pytest.mark.parametrize(
    ("requested", "reported"),
    [("auto", "default"), ("default", "default"), ("fast", "priority"), ("flex", "flex")],
)
def test_the_service_tier_is_reported_as_the_api_reports_it(requested: str, reported: str) -> None:
    assert echo(service_tier=requested)["service_tier"] == reported


def test_only_efforts_of_the_api_are_repeated() -> None:
    assert echo(reasoning={"effort": "max"})["reasoning"] == {"effort": "max", "summary": None}
    assert echo(reasoning={"effort": "ultra"})["reasoning"] == {"effort": None, "summary": None}


@table("tool", TOOLS)
def test_a_response_with_any_tool_is_valid(tool: Document) -> None:
    types = [each["type"] for each in echo(tools=[tool])["tools"]]
    assert types == ([] if tool["type"] == "telepathy" else [tool["type"]])


def test_a_function_is_repeated_with_null_for_absent_fields() -> None:
    [tool] = echo(tools=[{"type": "function", "name": "f"}])["tools"]
    assert tool == {
        "type": "function",
        "name": "f",
        "description": None,
        "parameters": None,
        "strict": None,
    }
    given = {
        "type": "function",
        "name": "f",
        "description": "d",
        "parameters": {"authorization": 1},
        "strict": False,
        "defer_loading": True,
    }
    assert echo(tools=[given])["tools"] == [given]


def test_a_namespace_is_repeated_without_tools_of_unknown_types() -> None:
    inner: list[Document] = [{"type": "function", "name": "f"}, {"type": "custom", "name": "c"}]
    namespace = {"type": "namespace", "name": "n", "tools": [*inner, {"type": "telepathy"}]}
    [tool] = echo(tools=[namespace])["tools"]
    assert tool["description"] == ""
    assert [each["name"] for each in tool["tools"]] == ["f", "c"]
    assert tool["tools"][0]["strict"] is None


def test_a_custom_tool_is_repeated_unchanged() -> None:
    custom = {
        "type": "custom",
        "name": "c",
        "format": {"type": "grammar", "syntax": "regex", "definition": "a"},
    }
    assert echo(tools=[custom])["tools"] == [custom]


def test_secrets_of_tools_are_not_repeated() -> None:
    document = echo(tools=TOOLS)
    assert "secret" in json.dumps(TOOLS)
    assert "secret" not in json.dumps(document)
    mcp = next(tool for tool in document["tools"] if tool["type"] == "mcp")
    assert mcp["server_url"] == "https://example.org"


def test_the_query_of_a_servers_address_is_not_repeated() -> None:
    tool = {"type": "mcp", "server_label": "a", "server_url": "https://example.org/?key=secret"}
    [repeated] = echo(tools=[tool])["tools"]
    assert repeated["server_url"] == "https://example.org/?<redacted>"
    [without] = echo(tools=[{**tool, "server_url": None}])["tools"]
    assert without.get("server_url") is None


def test_schemas_of_tools_that_a_client_lists_are_repeated_whole() -> None:
    schema = {"type": "object", "properties": {"headers": {"type": "object"}}}
    listed = {"listed": [{"name": "get", "input_schema": schema}]}
    tool = {"type": "mcp", "server_label": "a", "headers": {"X": "secret"}, "toolset": listed}
    [repeated] = echo(tools=[tool])["tools"]
    assert repeated["toolset"] == listed
    assert "headers" not in repeated


@table("choice", CHOICES)
def test_a_response_with_any_tool_choice_is_valid(choice: Any) -> None:
    repeated = echo(tool_choice=choice)["tool_choice"]
    if choice in ({"type": "web_search"}, {"type": "web_search_2025_08_26"}):
        assert repeated == {"type": "web_search_preview"}
    elif isinstance(choice, dict) and choice.get("mode") == "none":
        assert repeated == "none"
    else:
        assert repeated == choice


def test_creating_a_response_does_not_change_the_request() -> None:
    request = parse_body(json.dumps(FULL).encode())
    create_response(request, response_id="resp_1", created_at=1)
    assert request.raw == FULL


# --- settings that are used -----------------------------------------------------------------------


def report(used: UsedSettings, **fields: Any) -> Document:
    request = parse_body(json.dumps({"model": "m", "input": "Hello?", **fields}).encode())
    response = create_response(request, response_id="resp_1", created_at=1, used=used)
    document: Document = msgspec.json.decode(msgspec.json.encode(response))
    OfficialResponse.model_validate(document)
    return document


def test_responses_of_the_same_settings_differ_in_everything_else() -> None:
    used = UsedSettings(parameters={"temperature": 0.3})
    made = [
        report(used, model="a", metadata={"n": "1"}, instructions="Be brief."),
        report(used, model="b"),
        report(used, model="c", reasoning={"summary": "auto"}),
        report(used, model="d", tools=[{"type": "function", "name": "f"}]),
    ]
    assert [each["temperature"] for each in made] == [0.3] * 4
    assert [each["model"] for each in made] == ["a", "b", "c", "d"]
    assert [each["metadata"] for each in made] == [{"n": "1"}, {}, {}, {}]
    assert [each["instructions"] for each in made] == ["Be brief.", None, None, None]
    assert [each["reasoning"]["summary"] for each in made] == [None, None, "auto", None]
    assert [len(each["tools"]) for each in made] == [0, 0, 0, 1]


def test_settings_are_kept_apart_however_many_there_are() -> None:
    made = [UsedSettings(parameters={"top_p": number / 1000}) for number in range(300)]
    assert [report(used)["top_p"] for used in made] == [number / 1000 for number in range(300)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: UsedSettings(text_format={**SCHEMA, "schema": {"title": text()}}),
        lambda: UsedSettings(parameters={"stop": [text()]}),
        lambda: UsedSettings(parameters={"stop": text()}),
    ],
    ids=["a schema", "a list", "a text"],
)
def test_large_settings_of_clients_are_not_kept(make: Callable[[], UsedSettings]) -> None:
    tracemalloc.start()
    try:
        for _ in range(20):
            report(make())
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


SCHEMA: Document = {"type": "json_schema", "name": "n"}


def text() -> str:
    return "x" * 200_000


def test_a_setting_that_is_not_used_has_the_default_of_the_api() -> None:
    document = report(UsedSettings(), temperature=0.3, truncation="auto", service_tier="flex")
    assert (document["temperature"], document["truncation"]) == (1.0, "disabled")
    assert document["service_tier"] == "default"


@pytest.mark.parametrize("choice", ["auto", "none", {"type": "function", "name": "f"}])
def test_a_tool_choice_that_is_sent_is_reported_as_it_is(choice: Any) -> None:
    forces_call = isinstance(choice, dict)
    document = report(UsedSettings(forces_call=forces_call), tool_choice=choice)
    assert document["tool_choice"] == choice


def test_an_obligation_to_call_that_is_not_sent_is_not_reported() -> None:
    named = {"type": "function", "name": "f"}
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [named]}
    expected = {"type": "allowed_tools", "mode": "auto", "tools": [named]}
    assert report(UsedSettings(), tool_choice="required")["tool_choice"] == "auto"
    assert report(UsedSettings(), tool_choice=allowed)["tool_choice"] == expected
    assert report(UsedSettings(), tool_choice=named)["tool_choice"] == expected


def test_tools_that_cannot_be_called_are_not_listed() -> None:
    function, mcp = {"type": "function", "name": "f"}, {"type": "mcp", "server_label": "s"}
    group = {"type": "namespace", "name": "n", "description": "", "tools": [function]}
    used = UsedSettings(unused=[mcp, function])
    document = report(used, tools=[function, mcp, group])
    assert [(tool["type"], tool["tools"]) for tool in document["tools"]] == [("namespace", [])]


def test_the_work_is_linear_in_the_tools_that_cannot_be_called() -> None:
    tools = [{"type": "mcp", "server_label": f"server {number}"} for number in range(15_000)]
    began = time.process_time()
    assert report(UsedSettings(unused=tools), tools=tools)["tools"] == []
    assert time.process_time() - began < 1  # were it quadratic, several seconds


def test_refused_parameters_are_removed_by_the_names_of_the_provider() -> None:
    used = UsedSettings(parameters={"top_p": 0.5, "max_output_tokens": 9}, effort="low")
    assert remove_settings(used, ["topP"]).parameters == {"max_output_tokens": 9}
    assert remove_settings(used, ["max_completion_tokens"]).parameters == {"top_p": 0.5}
    assert remove_settings(used, ["reasoning_effort"]).effort is None
    assert remove_settings(used, ["seed"]) == used
