"""Validation of `tools` and `tool_choice`: known fields are checked, unknown types pass."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.request import Request
from antiphon.dialects.responses.parse_tools import TOOLS as KNOWN
from antiphon.errors import InvalidRequest
from tests.support.full_request import CHOICES, TOOLS, Document
from tests.support.request_body import parse_body
from tests.support.tables import table


def parse(**fields: Any) -> Request:
    return parse_body(json.dumps({"model": "m", "input": "Hello?", **fields}).encode())


def refused(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    return caught.value


@table("tool", TOOLS)
def test_every_tool_of_the_api_is_kept_unchanged(tool: Document) -> None:
    assert parse(tools=[tool]).tools == (tool,)


def test_these_tests_cover_every_tool_type() -> None:
    assert {tool["type"] for tool in TOOLS} == {*KNOWN, "telepathy"}


NAMELESS: Document = {"type": "function"}
LOCATED: Document = {"type": "web_search_preview", "user_location": {"city": "Ulm"}}


@table(
    ("tool", "param"),
    [
        (None, ""),
        ("web_search", ""),
        ({}, ".type"),
        ({"type": 5}, ".type"),
        (NAMELESS, ".name"),
        ({"type": "function", "name": ""}, ".name"),
        ({"type": "function", "name": None}, ".name"),
        ({"type": "function", "function": {"name": "f"}}, ".name"),
        ({"type": "function", "name": "f", "parameters": []}, ".parameters"),
        ({"type": "function", "name": "f", "strict": "yes"}, ".strict"),
        ({"type": "function", "name": "f", "description": 1}, ".description"),
        ({"type": "function", "name": "f", "allowed_callers": ["x"]}, ".allowed_callers[0]"),
        ({"type": "custom"}, ".name"),
        ({"type": "custom", "name": "c", "format": "text"}, ".format"),
        ({"type": "custom", "name": "c", "format": {}}, ".format.type"),
        ({"type": "custom", "name": "c", "format": {"type": "json"}}, ".format.type"),
        ({"type": "custom", "name": "c", "format": {"type": "grammar"}}, ".format.syntax"),
        (
            {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "ebnf"}},
            ".format.syntax",
        ),
        (
            {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark"}},
            ".format.definition",
        ),
        ({"type": "namespace", "tools": []}, ".name"),
        ({"type": "namespace", "name": "n"}, ".tools"),
        ({"type": "namespace", "name": "n", "tools": {}}, ".tools"),
        ({"type": "namespace", "name": "n", "tools": [{}]}, ".tools[0].type"),
        ({"type": "namespace", "name": "n", "tools": [NAMELESS]}, ".tools[0].name"),
        ({"type": "mcp"}, ".server_label"),
        ({"type": "mcp", "server_label": "s", "headers": {"a": 1}}, ".headers.a"),
        ({"type": "mcp", "server_label": "s", "allowed_tools": "all"}, ".allowed_tools"),
        ({"type": "mcp", "server_label": "s", "require_approval": "yes"}, ".require_approval"),
        ({"type": "file_search"}, ".vector_store_ids"),
        ({"type": "file_search", "vector_store_ids": [1]}, ".vector_store_ids[0]"),
        (
            {"type": "file_search", "vector_store_ids": [], "max_num_results": 51},
            ".max_num_results",
        ),
        (
            {
                "type": "file_search",
                "vector_store_ids": [],
                "filters": {"type": "eq", "key": "k", "value": {}},
            },
            ".filters.value",
        ),
        ({"type": "web_search", "search_context_size": "huge"}, ".search_context_size"),
        ({"type": "web_search", "filters": {"allowed_domains": "a"}}, ".filters.allowed_domains"),
        (LOCATED, ".user_location.type"),
        ({"type": "code_interpreter"}, ".container"),
        ({"type": "code_interpreter", "container": 1}, ".container"),
        ({"type": "image_generation", "partial_images": 4}, ".partial_images"),
        ({"type": "computer_use_preview"}, ".display_width"),
        ({"type": "shell", "environment": {"type": "moon"}}, ".environment.type"),
    ],
)
def test_a_malformed_tool_is_rejected_with_its_path(tool: Any, param: str) -> None:
    error = refused(tools=[{"type": "local_shell"}, tool])
    assert error.param == f"tools[1]{param}"
    assert f"'{error.param}'" in error.message


def test_a_function_of_chat_completions_is_rejected_with_the_place_of_its_name() -> None:
    error = refused(tools=[{"type": "function", "function": {"name": "f"}}])
    assert error.message == (
        "'tools[0].name' is required beside 'type': only Chat Completions nests it in 'function'."
    )


@table("choice", CHOICES)
def test_every_tool_choice_of_the_api_is_kept_unchanged(choice: Any) -> None:
    assert parse(tool_choice=choice).tool_choice == choice


@table(
    ("choice", "param", "code"),
    [
        ([], "", "invalid_type"),
        ("any", "", "invalid_value"),
        ({}, ".type", "missing_required_parameter"),
        ({"type": None}, ".type", "invalid_type"),
        ({"type": "telepathy"}, ".type", "invalid_value"),
        ({"type": "function"}, ".name", "missing_required_parameter"),
        ({"type": "function", "name": ""}, ".name", "invalid_value"),
        ({"type": "function", "function": {"name": "f"}}, ".name", "missing_required_parameter"),
        ({"type": "custom", "name": 1}, ".name", "invalid_type"),
        ({"type": "mcp"}, ".server_label", "missing_required_parameter"),
        ({"type": "allowed_tools", "tools": []}, ".mode", "missing_required_parameter"),
        ({"type": "allowed_tools", "mode": "some", "tools": []}, ".mode", "invalid_value"),
        ({"type": "allowed_tools", "mode": "auto"}, ".tools", "missing_required_parameter"),
        ({"type": "allowed_tools", "mode": "auto", "tools": ["f"]}, ".tools[0]", "invalid_type"),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [NAMELESS]},
            ".tools[0].name",
            "missing_required_parameter",
        ),
    ],
)
def test_a_malformed_tool_choice_is_rejected_with_its_path(
    choice: Any, param: str, code: str
) -> None:
    error = refused(tool_choice=choice)
    assert (error.param, error.wire_code) == (f"tool_choice{param}", code)


def test_the_message_about_an_unknown_tool_choice_lists_the_known_ones() -> None:
    message = refused(tool_choice={"type": "functions"}).message
    assert "'allowed_tools'" in message
    assert message.endswith("Did you mean 'function'?")
