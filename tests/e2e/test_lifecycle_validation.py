"""Requests that cannot mean anything are a 400 that names the field; a history is never stuck."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.applications import document_of, error_of, open_application

ORPHAN = {"type": "function_call_output", "call_id": "call_unknown", "output": "1"}
USER = {"role": "user", "content": "Hello"}


@pytest.mark.parametrize(
    ("request_fields", "param", "code"),
    [
        ({"input": []}, "input", "missing_required_parameter"),
        ({"input": None}, "input", "missing_required_parameter"),
        ({"tools": [{"type": "telepathy"}]}, "tools[0].type", "unsupported_parameter"),
        ({"tools": [{"type": "file_search"}]}, "tools[0].vector_store_ids", None),
        ({"input": [{"type": "item_reference", "id": "msg_unknown"}]}, "input[0].id", None),
        ({"input": [{"id": "msg_unknown"}]}, "input[0].id", None),
        (
            {"previous_response_id": "resp_unknown"},
            "previous_response_id",
            "previous_response_not_found",
        ),
        (
            {"previous_response_id": "resp_1", "conversation": "conv_1"},
            "previous_response_id",
            "mutually_exclusive_parameters",
        ),
        ({"background": True, "store": False}, "background", None),
        ({"metadata": {"k": "v" * 513}}, "metadata.k", "string_above_max_length"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata", "object_above_max_properties"),
        ({"max_tool_calls": 0}, "max_tool_calls", "integer_below_min_value"),
        ({"truncation": "some"}, "truncation", "invalid_value"),
        ({"include": ["everything"]}, "include[0]", "invalid_value"),
        (
            {"stream_options": {"include_obfuscation": "no"}},
            "stream_options.include_obfuscation",
            "invalid_type",
        ),
    ],
    ids=str,
)
async def test_an_invalid_request_is_a_400_that_names_the_field(
    request_fields: dict[str, Any], param: str, code: str | None
) -> None:
    async with open_application() as opened:
        response = await opened.create(**request_fields)
        error = error_of(response)
    assert (response.status, error["param"]) == (400, param)
    assert code is None or error["code"] == code


@pytest.mark.parametrize("stream", [False, True])
async def test_an_output_without_its_call_in_a_stored_thread_is_a_400(stream: bool) -> None:
    async with open_application() as opened:
        first = document_of(await opened.create())
        fields = {"previous_response_id": first["id"], "stream": stream}
        response = await opened.create(input=[USER, ORPHAN], **fields)
        assert (response.status, error_of(response)["param"]) == (400, "input[1].call_id")


async def test_the_same_output_in_a_whole_history_is_text_with_a_diagnostic() -> None:
    async with open_application() as opened:
        response = await opened.create(input=[USER, ORPHAN])
    assert response.status == 200
    assert "history.answer.orphaned" in response.headers["antiphon-diagnostics"]


async def test_labels_of_the_client_are_repeated() -> None:
    labels: dict[str, Any] = {
        "metadata": {"team": "a"},
        "prompt_cache_key": "thread-1",
        "safety_identifier": "user-1",
        "max_tool_calls": 3,
        "truncation": "auto",
    }
    async with open_application() as opened:
        response = await opened.create(**labels)
        document = document_of(response)
    assert {name: document[name] for name in labels} == labels
    assert "antiphon-diagnostics" not in response.headers
