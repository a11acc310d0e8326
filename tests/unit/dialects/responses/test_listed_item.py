"""Items as lists show them: ids, parts and statuses."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.dialects.responses.listed_item import (
    list_item,
    list_items,
    source_of_listed,
    without_blocks,
    without_excluded,
)
from tests.support.tables import table

IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}


@table(
    ("item", "expected"),
    [
        (
            {"role": "user", "content": "Hello?"},
            {
                "type": "message",
                "id": "msg_1",
                "role": "user",
                "status": "completed",
                "content": [{"type": "input_text", "text": "Hello?"}],
            },
        ),
        (
            {"type": "message", "role": "assistant", "content": None, "status": "incomplete"},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "incomplete",
                "content": [{"type": "output_text", "text": "", "annotations": [], "logprobs": []}],
            },
        ),
        (
            {"type": "message", "id": "own", "role": "user", "content": ({"type": "x"},)},
            {
                "type": "message",
                "id": "own",
                "role": "user",
                "status": "completed",
                "content": [{"type": "x"}],
            },
        ),
        (
            {"type": "function_call_output", "call_id": "c", "output": "7"},
            {
                "type": "function_call_output",
                "id": "fco_1",
                "call_id": "c",
                "output": "7",
                "status": "completed",
            },
        ),
        (
            {"type": "function_call_output", "call_id": "c", "output": [IMAGE, "odd"]},
            {
                "type": "function_call_output",
                "id": "fco_1",
                "call_id": "c",
                "output": [{**IMAGE, "detail": "auto"}, "odd"],
                "status": "completed",
            },
        ),
        (
            {"role": "user", "content": [IMAGE, {**IMAGE, "detail": "low"}, {"type": []}]},
            {
                "type": "message",
                "id": "msg_1",
                "role": "user",
                "status": "completed",
                "content": [{**IMAGE, "detail": "auto"}, {**IMAGE, "detail": "low"}, {"type": []}],
            },
        ),
        (
            {"role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [
                    {"type": "output_text", "text": "x", "annotations": [], "logprobs": []}
                ],
            },
        ),
        ({"type": "reasoning"}, {"type": "reasoning", "id": "rs_1", "summary": []}),
        (
            {"type": "tool_search_output", "tools": []},
            {
                "type": "tool_search_output",
                "id": "item_1",
                "tools": [],
                "status": "completed",
                "execution": "client",
            },
        ),
        ({"type": "vendor:thing", "x": 1}, {"type": "vendor:thing", "id": "item_1", "x": 1}),
    ],
)
def test_an_item_is_listed_with_an_id_and_what_its_type_needs(
    item: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert list_item(item, "1") == expected


def test_ids_are_derived_from_the_source_and_differ() -> None:
    items = [{"role": "user", "content": "a"}, {"role": "user", "content": "a"}]
    listed = list_items(items, "resp_ab")
    assert [item["id"] for item in listed] == ["msg_ab0000", "msg_ab0001"]
    assert list_items(items, "resp_ab") == listed
    assert [item["id"] for item in list_items(items, "plain")] == ["msg_plain0000", "msg_plain0001"]
    assert items[0] == {"role": "user", "content": "a"}


def test_the_trigger_of_a_compaction_is_not_listed() -> None:
    items = [{"type": "compaction_trigger"}, {"role": "user", "content": "a"}]
    assert [item["id"] for item in list_items(items, "resp_ab")] == ["msg_ab0001"]


def test_encrypted_reasoning_is_shown_if_it_is_included() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "…"}
    assert without_excluded(item, ["reasoning.encrypted_content"]) == item
    shown = {"type": "reasoning", "id": "rs_1", "summary": []}
    assert without_excluded(item, ["message.output_text.logprobs"]) == shown
    compacted = {"type": "compaction", "id": "cmp_1", "encrypted_content": "…"}
    assert without_excluded(compacted, []) == compacted


def test_an_id_that_a_list_has_made_leads_to_its_response() -> None:
    [item] = list_items([{"role": "user", "content": "Hi"}], "resp_6afb79b3")
    assert source_of_listed(item["id"]) == "resp_6afb79b3"


@pytest.mark.parametrize("id", ["msg_0000", "msg_6afb79b3_", "own", "", "msg_6afb\n0000"])
def test_an_id_that_no_list_has_made_leads_nowhere(id: str) -> None:
    assert source_of_listed(id) is None


def test_a_stored_response_has_no_blocks_of_another_format() -> None:
    part = {"type": "output_text", "text": "a", "annotations": []}
    call = {"type": "function_call", "id": "fc_1"}
    extra = {"extra": {"format": "f", "members": {}}}
    message = {"type": "message", "id": "msg_1", "content": [part]}
    stored = [
        {**message, "content": [{**part, **extra}]},
        {"type": "client_block", "id": "cb_1"},
        {**call, **extra},
    ]
    assert without_blocks({"id": "resp_1", "output": stored, **extra}) == {
        "id": "resp_1",
        "output": [message, call],
    }
