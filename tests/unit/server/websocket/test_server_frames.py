"""Frames of the gateway: events with the fields of their lane, and errors."""

from __future__ import annotations

import json
from typing import Any

from antiphon.dialects.client_dialect import Problem
from antiphon.server.websocket.client_frames import SteerFrame
from antiphon.server.websocket.server_frames import (
    encode_fields,
    error_frame,
    steer_failed_frame,
    with_fields,
)
from tests.support.tables import table


@table(
    ("stream_id", "headers", "added"),
    [
        (None, {}, {}),
        ("a", {}, {"stream_id": "a"}),
        ("a", {"x": "1"}, {"stream_id": "a", "headers": {"x": "1"}}),
        (None, {"x": "1"}, {"headers": {"x": "1"}}),
    ],
)
def test_fields_are_added_to_an_event(
    stream_id: str | None, headers: dict[str, str], added: dict[str, Any]
) -> None:
    event = b'{"type":"response.created","sequence_number":0}'
    message = json.loads(with_fields(event, encode_fields(stream_id, headers)))
    assert message == {"type": "response.created", "sequence_number": 0, **added}


def test_an_error_has_the_status_and_the_headers_that_http_would_have() -> None:
    problem = Problem(
        status=429,
        message="Slow down.",
        kind="rate_limit_error",
        code="slow",
        param="p",
        headers={"retry-after": "3"},
    )
    envelope = json.loads(error_frame(problem, "req_1", "lane"))
    headers = {"retry-after": "3", "x-request-id": "req_1"}
    assert envelope == {
        "type": "error",
        "status": 429,
        "error": {
            "type": "rate_limit_error",
            "code": "slow",
            "message": "Slow down.",
            "param": "p",
            "headers": headers,
        },
        "headers": headers,
        "stream_id": "lane",
    }


def test_an_error_always_has_a_code_and_on_the_default_lane_no_name() -> None:
    envelope = json.loads(error_frame(Problem(status=400, message="No."), "req_1"))
    assert envelope["error"]["code"] == "invalid_request_error"
    assert "stream_id" not in envelope


def test_steering_is_returned_as_it_was_sent() -> None:
    frame = json.loads(steer_failed_frame(SteerFrame(response_id="r", input="left"), "lane"))
    assert frame["type"] == "response.steer.failed"
    assert frame["error"]["code"] == "steering_not_supported"
    assert frame["steer"] == {"previous_response_id": "r", "input": "left"}
    assert frame["stream_id"] == "lane"


@table("steer", [SteerFrame(response_id=None, input="x"), SteerFrame(response_id="r", input=[])])
def test_steering_without_a_response_or_input_is_invalid(steer: SteerFrame) -> None:
    frame = json.loads(steer_failed_frame(steer, None))
    assert frame["error"]["code"] == "invalid_input"
    assert "stream_id" not in frame
