"""The estimate of input tokens at the start of a stream."""

from __future__ import annotations

from typing import Any

from antiphon.core.request import Request
from antiphon.core.stream.usage import estimate_tokens
from antiphon.dialects.anthropic.estimate import estimate_input


def request(*items: dict[str, Any], **fields: Any) -> Request:
    return Request(raw={}, model="m", input=items, **fields)


def test_text_calls_and_results_count() -> None:
    items = (
        {"role": "user", "content": [{"type": "input_text", "text": "x" * 400}]},
        {"type": "function_call", "name": "f" * 10, "arguments": "x" * 90},
        {"type": "function_call_output", "output": "x" * 100},
        {"type": "function_call_output", "output": [{"type": "input_text", "text": "x" * 200}]},
        {
            "type": "reasoning",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "x" * 200}],
        },
    )
    assert estimate_input(request(*items)) == estimate_tokens(1000)


def test_media_count_nothing_and_tools_count() -> None:
    image = {"role": "user", "content": [{"type": "input_image", "image_url": "data:" + "x" * 900}]}
    assert estimate_input(request(image)) == estimate_tokens(0)
    tools = ({"type": "function", "name": "f"},)
    assert estimate_input(request(image, tools=tools)) == estimate_tokens(32)
