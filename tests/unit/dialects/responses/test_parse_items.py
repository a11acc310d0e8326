"""Validation of input items and their content parts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.request import Request
from antiphon.errors import InvalidRequest
from tests.support.full_request import ITEMS, PARTS, Document
from tests.support.request_body import parse_body
from tests.support.tables import table


def parse(*items: Any) -> Request:
    return parse_body(json.dumps({"model": "m", "input": items}).encode())


def refused(*items: Any) -> tuple[str | None, str | None]:
    with pytest.raises(InvalidRequest) as caught:
        parse(*items)
    return caught.value.param, caught.value.wire_code


@table("item", ITEMS)
def test_every_item_of_the_api_is_kept_unchanged(item: Document) -> None:
    assert parse(item).input == (item,)


@table("part", PARTS)
def test_every_part_is_accepted_in_a_message_and_in_a_tool_output(part: Document) -> None:
    message = {"role": "user", "content": [part]}
    output = {"type": "function_call_output", "call_id": "c", "output": [part]}
    assert parse(message, output).input == (message, output)


def test_unknown_fields_of_an_item_are_kept() -> None:
    item = {"role": "user", "content": "x", "internal_metadata": {"turn": 1}}
    assert parse(item).input == (item,)


@table(
    ("item", "param", "code"),
    [
        (None, "", "invalid_type"),
        ("hello", "", "invalid_type"),
        ([], "", "invalid_type"),
        ({}, ".type", "missing_required_parameter"),
        ({"content": "hello"}, ".type", "missing_required_parameter"),
        ({"type": 5}, ".type", "invalid_type"),
        ({"id": ""}, ".id", "invalid_value"),
        ({"id": 7}, ".id", "invalid_type"),
        ({"type": "message", "content": ""}, ".role", "missing_required_parameter"),
        ({"role": "tool", "content": ""}, ".role", "invalid_value"),
        ({"role": None, "content": ""}, ".role", "invalid_type"),
        ({"role": "user"}, ".content", "missing_required_parameter"),
        ({"role": "user", "content": {}}, ".content", "invalid_type"),
        ({"role": "user", "content": ["hello"]}, ".content[0]", "invalid_type"),
        ({"role": "user", "content": [PARTS[0], {}]}, ".content[1].type", None),
        ({"role": "user", "content": [{"type": None}]}, ".content[0].type", "invalid_type"),
        ({"role": "assistant", "content": "", "phase": 1}, ".phase", "invalid_type"),
        ({"type": "reasoning", "summary": "hm"}, ".summary", "invalid_type"),
        ({"type": "reasoning", "content": [{"type": "reasoning_text"}]}, ".content[0].text", None),
        ({"type": "reasoning", "encrypted_content": {}}, ".encrypted_content", "invalid_type"),
        ({"type": "compaction"}, ".encrypted_content", "missing_required_parameter"),
        ({"type": "configuration_update", "reasoning": {"effort": 1}}, ".reasoning.effort", None),
        (
            {"type": "configuration_update", "text": {"format": {"type": "json_schema"}}},
            ".text.format.name",
            "missing_required_parameter",
        ),
        ({"type": "additional_tools"}, ".tools", "missing_required_parameter"),
        (
            {"type": "additional_tools", "tools": [{"type": "function"}]},
            ".tools[0].name",
            "missing_required_parameter",
        ),
        ({"type": "tool_search_output", "tools": {}}, ".tools", "invalid_type"),
        ({"type": "mcp_list_tools", "server_label": "s"}, ".tools", None),
        ({"type": "mcp_approval_response", "approval_request_id": "r"}, ".approve", None),
        ({"type": "file_search_call", "queries": "q"}, ".queries", "invalid_type"),
        ({"type": "web_search_call", "action": "search"}, ".action", "invalid_type"),
    ],
)
def test_a_malformed_item_is_rejected_with_its_path(
    item: Any, param: str, code: str | None
) -> None:
    found = refused({"role": "user", "content": "fine"}, item)
    assert found == (f"input[1]{param}", code or found[1])


@table(
    ("part", "param"),
    [
        ({"type": "input_text"}, "text"),
        ({"type": "input_text", "text": None}, "text"),
        ({"type": "output_text", "text": 1}, "text"),
        ({"type": "text"}, "text"),
        ({"type": "refusal"}, "refusal"),
        ({"type": "input_image"}, "image_url"),
        ({"type": "input_image", "image_url": {"url": "u"}}, "image_url"),
        ({"type": "input_image", "image_url": "u", "detail": "huge"}, "detail"),
        ({"type": "input_file"}, "file_data"),
        ({"type": "input_file", "filename": "a.txt"}, "file_data"),
        ({"type": "input_file", "file_id": 1}, "file_id"),
        ({"type": "input_audio"}, "input_audio"),
        ({"type": "input_audio", "input_audio": {"format": "wav"}}, "input_audio.data"),
        ({"type": "input_video"}, "video_url"),
    ],
)
def test_a_malformed_part_is_rejected_with_its_path(part: Document, param: str) -> None:
    assert refused({"role": "user", "content": [part]})[0] == f"input[0].content[0].{param}"
    output = {"type": "function_call_output", "call_id": "c", "output": [part]}
    assert refused(output)[0] == f"input[0].output[0].{param}"


CALLS = {
    "function_call": ("call_id", "name", "arguments"),
    "custom_tool_call": ("call_id", "name", "input"),
    "function_call_output": ("call_id", "output"),
    "custom_tool_call_output": ("call_id", "output"),
    "shell_call": ("call_id", "action"),
    "shell_call_output": ("call_id", "output"),
    "local_shell_call": ("action",),
    "local_shell_call_output": ("output",),
    "apply_patch_call": ("call_id", "operation"),
    "apply_patch_call_output": ("call_id",),
    "computer_call": ("call_id",),
    "computer_call_output": ("call_id", "output"),
    "program": ("call_id",),
    "mcp_call": ("server_label", "name", "arguments"),
    "mcp_approval_request": ("server_label", "name", "arguments"),
}


@table(("kind", "name"), [(kind, name) for kind in CALLS for name in CALLS[kind]])
def test_a_call_or_output_without_a_required_field_is_rejected(kind: str, name: str) -> None:
    whole = next(item for item in ITEMS if item.get("type") == kind)
    without = {key: value for key, value in whole.items() if key != name}
    assert refused(without) == (f"input[0].{name}", "missing_required_parameter")
    assert refused({**whole, name: 5}) == (f"input[0].{name}", "invalid_type")


def test_a_local_shell_output_needs_id_or_call_id() -> None:
    output = {"type": "local_shell_call_output", "output": "done"}
    assert refused(output) == ("input[0].call_id", "missing_required_parameter")
    assert parse({**output, "id": "c"}, {**output, "call_id": "c"}).input


@pytest.mark.parametrize("kind", ["function_call_output", "shell_call_output"])
def test_an_output_may_be_null_or_a_string_but_not_an_object(kind: str) -> None:
    output = {"type": kind, "call_id": "c"}
    assert parse({**output, "output": None}, {**output, "output": ""}).input
    assert refused({**output, "output": {}}) == ("input[0].output", "invalid_type")
