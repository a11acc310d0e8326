"""Reading of client frames: types, lanes, and the request inside."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.errors import InvalidRequest
from antiphon.server.websocket.client_frames import (
    CreateFrame,
    SteerFrame,
    binary_frame_error,
    read_frame,
    read_stream_id,
)
from tests.support.tables import table


def read_create(**fields: Any) -> CreateFrame:
    frame = read_frame({"type": "response.create", **fields})
    assert isinstance(frame, CreateFrame)
    return frame


def test_a_request_loses_the_fields_of_the_connection_and_is_streamed() -> None:
    frame = read_create(model="m", stream=False, stream_id="a", generate=True, background=False)
    assert frame.stream_id == "a"
    assert frame.body == {"model": "m", "stream": True}


@table(("value", "generates"), [(None, True), (True, True), (False, False)])
def test_output_is_generated_unless_the_frame_says_otherwise(
    value: bool | None, generates: bool
) -> None:
    assert read_create(generate=value).read_generate() is generates


def test_generate_must_be_a_boolean() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_create(generate="no").read_generate()
    assert caught.value.param == "generate"


def test_background_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_create(background=True).check()
    assert (caught.value.param, caught.value.code) == ("background", "unsupported_parameter")


@table(("value", "parent"), [("resp_1", "resp_1"), (None, None), (7, None)])
def test_the_parent_is_the_previous_response(value: Any, parent: str | None) -> None:
    assert read_create(previous_response_id=value).parent_id == parent


def test_steering_is_read() -> None:
    frame = read_frame({"type": "response.steer", "previous_response_id": "r", "input": "x"})
    assert frame == SteerFrame(response_id="r", input="x")


@table(
    ("document", "code"),
    [({}, "missing_required_parameter"), ({"type": "response.cancel"}, "invalid_value")],
)
def test_an_unknown_frame_is_refused(document: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_frame(document)
    assert (caught.value.param, caught.value.code) == ("type", code)


@table("stream_id", ["a", "A.b_c-9", "x" * 256])
def test_a_lane_has_a_name(stream_id: str) -> None:
    assert read_stream_id({"stream_id": stream_id}) == stream_id


@table("stream_id", ["", "a b", "ä", "x" * 257, 1, ["a"], "a\n"])
def test_other_names_are_refused(stream_id: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_stream_id({"stream_id": stream_id})
    assert (caught.value.param, caught.value.code) == ("stream_id", "invalid_stream_id")


def test_a_binary_frame_is_an_invalid_request() -> None:
    assert binary_frame_error().status == 400
