"""The client half of Messages."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.client_profile import OTHER
from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.core.stream.usage import estimate_tokens
from antiphon.dialects.anthropic.client import MESSAGES, estimate_input
from antiphon.dialects.client_dialect import ClientDialect, EventBatch, Problem

BODY = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


def test_it_is_a_client_dialect() -> None:
    dialect: ClientDialect = MESSAGES
    assert dialect.name == "messages"


def test_a_body_is_parsed_with_its_headers() -> None:
    request = MESSAGES.parse(BODY, headers={"anthropic-beta": "a"}, is_large=True)
    assert (request.betas, request.is_large) == (("a",), True)
    assert MESSAGES.parse(BODY, is_count=True).betas is None


def test_responses_and_errors_are_rendered() -> None:
    request = MESSAGES.parse(BODY)
    renderer = MESSAGES.renderer(request, OTHER)
    assert renderer.feed(EventBatch(0, [])) == b""
    response = Response(id="resp_1", created_at=0, model="m", status="completed")
    assert json.loads(MESSAGES.whole(response, request, OTHER))["id"] == "msg_1"
    assert MESSAGES.failure(response).status == 502
    assert MESSAGES.error(Problem(status=404, message="m")).status == 404


def test_a_beta_asks_for_the_lists_of_servers() -> None:
    listing = {"type": "mcp_list_tools", "id": "l", "server_label": "sky", "tools": []}
    response = Response(id="resp_1", created_at=0, model="m", status="completed", output=(listing,))
    for beta, shown in (("mcp-client-2026-09-15", 1), ("mcp-client-2025-11-20", 0)):
        request = MESSAGES.parse(BODY, headers={"anthropic-beta": f"a,{beta}"})
        whole = json.loads(MESSAGES.whole(response, request, OTHER))
        assert len(whole["content"]) == shown


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
