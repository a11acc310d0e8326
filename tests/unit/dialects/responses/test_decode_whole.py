"""Whole bodies of a Responses upstream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.deltas import (
    Failure,
    Finish,
    ItemEnd,
    Reasoning,
    Start,
    Text,
    ToolCall,
    ToolEnd,
    Usage,
)
from antiphon.dialects.responses.decode import decode
from tests.support.dialect_samples.responses import (
    message,
    reasoning,
)
from tests.support.machines import Document, documents, machine
from tests.support.stream_validator import check
from tests.support.tables import table

CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look"}


def body(**fields: Any) -> bytes:
    return json.dumps({"object": "response", "id": "resp_1", "model": "m", **fields}).encode()


def test_a_whole_response_is_decoded_in_the_order_of_its_items() -> None:
    output = [reasoning(content=[{"text": "hm"}]), CALL | {"arguments": "{}"}, message("a")]
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    assert decode(body(status="completed", output=output, usage=usage)) == [
        Start("m", "resp_1"),
        Reasoning("hm"),
        ToolCall(1, "call_1", "look"),
        ToolCall(1, arguments="{}"),
        ToolEnd(1),
        ItemEnd(),
        Text("a"),
        Usage(1, 2, total_tokens=3),
        Finish("completed"),
    ]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "completed"),
        ({"object": None}, "completed"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "content_filter",
        ),
    ],
)
def test_a_whole_response_gives_its_finish_reason(fields: Document, reason: str) -> None:
    assert decode(body(output=[message("a")], **fields))[-1] == Finish(reason)


@table(
    ("sent", "kind"),
    [
        (body(status="queued", output=[]), "protocol"),
        (body(status="in_progress", output=[]), "protocol"),
        (body(status="failed", output=[], error={"code": "server_error"}), "api_error"),
        (body(object="list", data=[]), "protocol"),
        (body(object="response.compaction", output=[]), "protocol"),
        (b'{"error":{"code":"insufficient_quota","message":"No credit."}}', "billing"),
        (b"[]", "unknown"),
        (b"<html>", "unknown"),
        (b'{"output":', "protocol"),
    ],
)
def test_a_body_that_is_not_a_completed_response_is_a_failure(sent: bytes, kind: str) -> None:
    last = decode(sent)[-1]
    assert isinstance(last, Failure)
    assert last.fault.type == kind


def test_an_unpaired_surrogate_in_a_body_is_replaced() -> None:
    sent = b'{"output":[{"type":"message","content":"a\\ud83d"}]}'
    assert Text("a\N{REPLACEMENT CHARACTER}") in decode(sent)


def test_each_reasoning_item_is_sealed_separately() -> None:
    subject = machine(seal=lambda states, raw: f"{raw}{[state.value['id'] for state in states]}")
    events = subject.start()
    for delta in decode(
        body(
            output=[
                reasoning(id="rs_1", summary=[{"text": "a"}], encrypted_content="x"),
                reasoning(id="rs_2", content=[{"text": "b"}], encrypted_content="y"),
                reasoning(id="rs_3", encrypted_content="z"),
                message("c"),
            ]
        )
    ):
        events += subject.feed(delta)
    streamed = documents(events + subject.finish())
    check(streamed)
    output = streamed[-1]["response"]["output"]
    assert [item.get("encrypted_content") for item in output] == [
        "['rs_1']",
        "b['rs_2']",
        "['rs_3']",
        None,
    ]
