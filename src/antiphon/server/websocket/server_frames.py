"""Frames that the gateway sends: events of a response, error envelopes, and refused steering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from antiphon.errors import InvalidRequest
from antiphon.server.http import HTTPResponse
from antiphon.server.websocket.client_frames import SteerFrame

_DATA = b"\ndata: "
_ENDINGS = (b"event: response.completed\n", b"event: response.incomplete\n")
_FAILED = b"event: response.failed\n"
_FORWARDED_HEADERS = ("retry-after", "retry-after-ms", "antiphon-diagnostics", "x-request-id")


class EventFrame(msgspec.Struct, frozen=True):
    """One event of a response as JSON."""

    data: bytes
    is_terminal: bool
    is_failure: bool

    def with_fields(self, fields: bytes) -> bytes:
        """The JSON of the event with further fields, which `encode_fields` has made."""
        return self.data[:-1] + fields


def encode_fields(stream_id: str | None, headers: Mapping[str, str]) -> bytes:
    """Encode what is added to an event: its lane, and what HTTP has in the headers."""
    fields = {"stream_id": stream_id, "headers": headers}
    encoded = msgspec.json.encode({name: value for name, value in fields.items() if value})
    return b"}" if encoded == b"{}" else b"," + encoded[1:]


def read_events(frames: bytes) -> Iterator[EventFrame]:
    """Read the events out of encoded server-sent events."""
    for frame in frames.split(b"\n\n")[:-1]:
        data = frame[frame.index(_DATA) + len(_DATA) :]
        failed = frame.startswith(_FAILED)
        yield EventFrame(data, failed or frame.startswith(_ENDINGS), failed)


def error_frame(response: HTTPResponse, stream_id: str | None = None) -> bytes:
    """The envelope of an error that `POST /v1/responses` would have answered with `response`.

    Its headers are given twice: clients look for them in the error, or beside it."""
    assert isinstance(response.body, bytes)
    headers = {
        name: response.headers[name] for name in _FORWARDED_HEADERS if name in response.headers
    }
    error = msgspec.json.decode(response.body)["error"]
    error = {**error, "code": error["code"] or error["type"], "headers": headers}
    envelope: dict[str, Any] = {
        "type": "error",
        "status": response.status,
        "error": error,
        "headers": headers,
    }
    if stream_id is not None:
        envelope["stream_id"] = stream_id
    return msgspec.json.encode(envelope)


def steer_failed_frame(steer: SteerFrame, stream_id: str | None) -> bytes:
    """The answer to `response.steer`, with the input as it was sent."""
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
    """Why input is refused: no provider can change an answer that it has begun."""
    if not isinstance(steer.response_id, str) or not steer.input:
        return InvalidRequest(
            "`response.steer` requires `previous_response_id` and `input`.", code="invalid_input"
        )
    return InvalidRequest(
        "Steering is not supported: wait for the end of the response, and continue it with"
        " `response.create`.",
        code="steering_not_supported",
    )
