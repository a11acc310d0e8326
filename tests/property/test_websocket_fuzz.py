"""Any frame on a WebSocket gets an answer, and the connection goes on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.test_request import json_values
from tests.support.applications import open_application
from tests.support.web_sockets import connected, create_frame

FIELDS = """
    type stream_id generate background stream previous_response_id model input tools store metadata
    stream_options instructions include
""".split()
CHANGED = st.dictionaries(st.sampled_from(FIELDS), json_values).map(
    lambda changes: json.dumps({**create_frame(), **changes}).encode()
)
FRAMES = st.one_of(
    st.binary(max_size=50), json_values.map(lambda value: json.dumps(value).encode()), CHANGED
)


async def play(frames: list[bytes]) -> list[list[dict[str, Any]]]:
    async with open_application() as opened, connected(opened) as socket:
        answers = [await socket.turn(frame) for frame in frames]
        answers.append(await socket.turn(create_frame("still there")))
    return answers


@settings(max_examples=20)
@given(st.lists(FRAMES, min_size=1, max_size=4))
def test_any_frame_is_answered(frames: list[bytes]) -> None:
    *answers, last = asyncio.run(play(frames))
    for answer in answers:
        assert answer[-1].get("status", 400) < 500, answer[-1]
        assert [frame["type"] for frame in answer].count("error") <= 1
    assert last[-1]["response"]["output_text"] == "still there"
