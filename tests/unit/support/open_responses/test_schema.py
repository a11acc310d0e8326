"""The schema of Open Responses rejects what the public suite rejects."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.support.applications import document_of, open_application
from tests.support.open_responses.schema import check_compaction, check_event, check_response
from tests.support.tables import table

MESSAGE: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}],
}
USAGE = {
    "input_tokens": 1,
    "output_tokens": 1,
    "total_tokens": 2,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}
COMPACTED: dict[str, Any] = {
    "id": "resp_1",
    "object": "response.compaction",
    "created_at": 1,
    "output": [{"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}],
    "usage": USAGE,
}


async def response() -> dict[str, Any]:
    async with open_application() as opened:
        document: dict[str, Any] = document_of(await opened.create())
    return document


async def test_a_response_of_the_gateway_is_valid() -> None:
    assert check_response(await response()).status == "completed"


@table(
    "change",
    [
        {"temperature": None},
        {"service_tier": None},
        {"top_logprobs": None},
        {"created_at": 1.5},
        {"reasoning": {"effort": None}},
        {"reasoning": {"effort": "minimal", "summary": None}},
        {"tools": [{"type": "web_search"}]},
        {"text": {"format": {"type": "text"}, "verbosity": None}},
        {"usage": {**USAGE, "input_tokens": -1}},
        {"output": [MESSAGE | {"phase": None}]},
        {"output": [MESSAGE | {"content": [{"type": "output_text", "text": "Hi"}]}]},
        {"output": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}]},
        {"output": [{"type": "reasoning", "id": "rs_1", "summary": [], "content": None}]},
        {"output": [{"type": "web_search_call", "id": "ws_1", "status": "completed"}]},
    ],
    ids=json.dumps,
)
async def test_a_response_that_the_suite_rejects_is_rejected(change: dict[str, Any]) -> None:
    valid = await response()
    with pytest.raises(msgspec.ValidationError):
        check_response(valid | change)


async def test_every_field_is_required() -> None:
    valid = await response()
    for name in [*check_response(valid).__struct_fields__]:
        with pytest.raises(msgspec.ValidationError):
            check_response({key: value for key, value in valid.items() if key != name})


@table(
    "event",
    [
        {"type": "keepalive", "sequence_number": 1},
        {"type": "response.reasoning_text.delta", "sequence_number": 1, "delta": "x"},
        {"type": "response.output_text.delta", "sequence_number": 1, "delta": "x"},
        {"type": "response.created", "sequence_number": 0, "response": {}},
        {"type": "error", "sequence_number": 1, "message": "flat"},
        {"type": "response.output_item.done", "sequence_number": 1, "output_index": 0},
        {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE},
    ],
    ids=json.dumps,
)
def test_an_event_that_the_suite_rejects_is_rejected(event: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        check_event(event)


def test_a_compaction_has_its_own_shape() -> None:
    assert check_compaction(COMPACTED).id == "resp_1"
    with pytest.raises(msgspec.ValidationError):
        check_compaction(COMPACTED | {"object": "response"})
