"""Frames that the gateway sends: events of a response, error envelopes, and refused steering."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from antiphon.dialects.client_dialect import Problem
from antiphon.dialects.responses.client import RESPONSES
from antiphon.errors import InvalidRequest
from antiphon.server.websocket.client_frames import SteerFrame


def encode_fields(stream_id: str | None, headers: Mapping[str, str]) -> bytes:
    """Encode the fields added to an event: its lane, and what HTTP has in the headers."""
    fields = {"stream_id": stream_id, "headers": headers}
    encoded = msgspec.json.encode({name: value for name, value in fields.items() if value})
    return b"}" if encoded == b"{}" else b"," + encoded[1:]


def with_fields(event: bytes, fields: bytes) -> bytes:
    """Return the JSON of an event with further fields, which `encode_fields` has made."""
    return event[:-1] + fields


def error_frame(problem: Problem, request_id: str, stream_id: str | None = None) -> bytes:
    """The envelope of an error, with what `POST /v1/responses` would have in its body and headers.

    The headers are given twice: clients look for them in the error, or beside it."""
    reply = RESPONSES.error(problem)
    headers = {**reply.headers, "x-request-id": request_id}
    del headers["content-type"]
    error = msgspec.json.decode(reply.body)["error"]
    error = {**error, "code": error["code"] or error["type"], "headers": headers}
    envelope: dict[str, Any] = {
        "type": "error",
        "status": reply.status,
        "error": error,
        "headers": headers,
    }
    if stream_id is not None:
        envelope["stream_id"] = stream_id
    return msgspec.json.encode(envelope)


def steer_failed_frame(steer: SteerFrame, stream_id: str | None) -> bytes:
    """The response to `response.steer`, with the input as it was sent."""
    error = _steering_error(steer)
    frame: dict[str, Any] = {
        "type": "response.steer.failed",
        "sequence_number": 0,
        "error": {"type": error.kind, "code": error.code, "message": error.message},
        "steer": {"previous_response_id": steer.response_id, "input": steer.input},
    }
    if stream_id is not None:
        frame["stream_id"] = stream_id
    return msgspec.json.encode(frame)


def _steering_error(steer: SteerFrame) -> InvalidRequest:
    """Why input is refused: no provider can change a response that it has begun."""
    if not isinstance(steer.response_id, str) or not steer.input:
        return InvalidRequest(
            "`response.steer` requires `previous_response_id` and `input`.", code="invalid_input"
        )
    return InvalidRequest(
        "Steering is not supported: wait for the end of the response, and continue it with"
        " `response.create`.",
        code="steering_not_supported",
    )
