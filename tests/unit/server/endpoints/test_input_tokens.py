"""POST /v1/responses/input_tokens: counted, or estimated and marked as such."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from antiphon.server.endpoints.responses import InputTokenCount
from antiphon.server.http import HTTPResponse
from tests.support.applications import (
    OpenApplication,
    document_of,
    error_of,
    open_application,
)

PATH = "/v1/responses/input_tokens"


async def count(opened: OpenApplication, **request: Any) -> HTTPResponse:
    return await opened.request("POST", PATH, json.dumps(request).encode())


async def test_a_model_without_a_counter_gets_an_estimate_that_is_marked() -> None:
    async with open_application() as opened:
        response = await count(opened, model="echo/echo", input="x" * 400)
    assert document_of(response) == {
        "object": "response.input_tokens",
        "input_tokens": 100,
        "estimated": True,
    }
    assert response.headers["antiphon-diagnostics"] == "1; codes=usage.estimated:input_tokens"


def test_a_count_of_the_provider_is_not_marked() -> None:
    document = msgspec.json.encode(InputTokenCount(input_tokens=7))
    assert document == b'{"object":"response.input_tokens","input_tokens":7}'


async def test_earlier_turns_instructions_and_tools_are_counted() -> None:
    tool = {"type": "function", "name": "look", "parameters": {"type": "object"}}
    async with open_application() as opened:
        first = document_of(await opened.create(input="x" * 400))
        response = await count(
            opened,
            model="echo/echo",
            input="y" * 40,
            instructions="z" * 40,
            tools=[tool],
            previous_response_id=first["id"],
        )
    # two turns of 400 bytes, 40 + 40 bytes, and the tool
    assert document_of(response)["input_tokens"] == (880 + len('look{"type":"object"}') + 3) // 4


async def test_instructions_or_tools_are_counted_without_input() -> None:
    tool = {"type": "function", "name": "look", "parameters": {"type": "object"}}
    async with open_application() as opened:
        instructions = await count(opened, model="echo/echo", instructions="x" * 400)
        tools = await count(opened, model="echo/echo", tools=[tool])
        refused = await opened.create(input=None, instructions="x")
    assert document_of(instructions)["input_tokens"] == 100
    assert document_of(tools)["input_tokens"] > 0
    assert (refused.status, error_of(refused)["param"]) == (400, "input")


async def test_nothing_is_generated_or_stored() -> None:
    async with open_application() as opened:
        await count(opened, model="echo/error-500", input="Hello")
        assert not opened.engine.active
        assert opened.log == []


async def test_an_invalid_request_is_a_400_that_names_the_field() -> None:
    async with open_application() as opened:
        for request, param in (
            ({"model": "echo/echo"}, "input"),
            ({"input": "Hello"}, "model"),
            ({"model": "echo/echo", "input": [{"type": "message"}]}, "input[0].role"),
        ):
            response = await count(opened, **request)
            assert (response.status, error_of(response)["param"]) == (400, param)
        response = await count(opened, model="echo/none", input="Hello")
        assert (response.status, error_of(response)["code"]) == (404, "model_not_found")
