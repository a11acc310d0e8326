"""`stream_options.include_obfuscation`: padding where it is requested, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.applications import open_application, read_stream
from tests.support.gateways import events_of


@pytest.mark.parametrize(
    ("options", "is_padded"),
    [
        ({"stream_options": {"include_obfuscation": True}}, True),
        ({"stream_options": {"include_obfuscation": False}}, False),
        ({"stream_options": {}}, False),
        ({}, False),
    ],
)
async def test_only_deltas_are_padded_and_only_on_request(
    options: dict[str, Any], is_padded: bool
) -> None:
    async with open_application() as opened:
        response = await opened.create(stream=True, input="one two three", **options)
        events = events_of(await read_stream(response))
    padded = [event["type"] for event in events if "obfuscation" in event]
    assert padded == (["response.output_text.delta"] * 3 if is_padded else [])
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "one two three"
