"""Strict structured output through the whole gateway: a valid answer or a failed response."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import ModelConfig
from tests.support.checked_gateway import (
    CheckedGateway,
    Document,
    configured,
    deltas,
    final_response,
    items_of_type,
    text,
)
from tests.support.upstream import DONE, Connection, ReceivedRequest, Script, chunk, usage

SCHEMA: Document = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
STRICT: Document = {
    "format": {"type": "json_schema", "name": "trip", "schema": SCHEMA, "strict": True}
}
TOOL: Document = {"type": "function", "name": "look", "parameters": {"type": "object"}}
ULM = '{"city": "Ulm", "days": 2}'
WRONG = '{"city": "Ulm", "days": "two"}'

NATIVE = ModelConfig()
BY_TOOL = ModelConfig(formats=["text"])
TOLD = ModelConfig(formats=["text", "json_object"], tool_choice=["auto", "none"])

every_way = pytest.mark.parametrize(
    "model", [NATIVE, BY_TOOL, TOLD], ids=["asked natively", "by a tool", "told"]
)
both_forms = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])


def called(name: str, arguments: str, index: int = 0) -> Document:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": f"c{index}", "type": "function", "function": function}


def texts_in_turn(*rounds: str | Document) -> Script:
    """A model that says this to each request, by the answer tool where there is one; a document is
    the message itself. The last one stays."""
    left = list(rounds)

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        content = left.pop(0) if len(left) > 1 else left[0]
        message = content if isinstance(content, dict) else _message(content, request.body)
        finish = "tool_calls" if "tool_calls" in message else "stop"
        if request.body.get("stream"):
            await connection.head()
            for each in (chunk(message), chunk({}, finish), usage(), DONE):
                await connection.send(each)
        else:
            await connection.head(content_type="application/json")
            choice = {"index": 0, "message": message, "finish_reason": finish}
            counts = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
            whole = {"id": "c1", "model": "m", "choices": [choice], "usage": counts}
            await connection.send(json.dumps(whole).encode())
        await connection.end()

    return script


def _message(content: str, body: Document) -> Document:
    names = [tool["function"]["name"] for tool in body.get("tools", [])]
    if "answer_trip" in names:
        return {"tool_calls": [called("answer_trip", content)]}
    return {"content": content}


def strict_gateway(
    tmp_path: Path, model: ModelConfig, *rounds: str | Document
) -> AbstractAsyncContextManager[CheckedGateway]:
    return configured(tmp_path, texts_in_turn(*rounds), models={"*": model})


async def answered(setup: CheckedGateway, *, streamed: bool, **body: Any) -> Document:
    body = {"text": STRICT, **body}
    return final_response(await setup.stream(**body)) if streamed else await setup.whole(**body)


@every_way
@both_forms
async def test_an_answer_that_matches_the_schema_is_unchanged(
    tmp_path: Path, model: ModelConfig, streamed: bool
) -> None:
    async with strict_gateway(tmp_path, model, ULM) as setup:
        response = await answered(setup, streamed=streamed)
        assert (response["status"], text(response)) == ("completed", ULM)
        assert [item["type"] for item in response["output"]] == ["message"]
        assert len(setup.upstream.requests) == 1


@pytest.mark.parametrize("model", [BY_TOOL, TOLD], ids=["by a tool", "told"])
@both_forms
async def test_an_answer_that_violates_the_schema_is_repaired_once(
    tmp_path: Path, model: ModelConfig, streamed: bool
) -> None:
    async with strict_gateway(tmp_path, model, WRONG, ULM) as setup:
        response = await answered(setup, streamed=streamed)
        assert (response["status"], text(response)) == ("completed", ULM)
        assert len(setup.upstream.requests) == 2
        assert '\\"two\\" is not of type' in json.dumps(setup.last_body["messages"])
        assert WRONG in str(setup.last_body["messages"][-2])
        assert response["usage"]["total_tokens"] == 20


@pytest.mark.parametrize("model", [BY_TOOL, TOLD], ids=["by a tool", "told"])
@both_forms
async def test_an_answer_that_stays_invalid_fails(
    tmp_path: Path, model: ModelConfig, streamed: bool
) -> None:
    async with strict_gateway(tmp_path, model, WRONG) as setup:
        response = await answered(setup, streamed=streamed)
        assert (response["status"], response["error"]["code"]) == ("failed", "server_error")
        assert "at days (type)" in response["error"]["message"]
        assert text(response) == WRONG
        assert len(setup.upstream.requests) == 2


@both_forms
async def test_json_in_a_code_fence_is_unwrapped(tmp_path: Path, streamed: bool) -> None:
    async with strict_gateway(tmp_path, NATIVE, f"```json\n{ULM}\n```") as setup:
        response = await answered(setup, streamed=streamed)
        assert (response["status"], text(response)) == ("completed", ULM)
        assert len(setup.upstream.requests) == 1


async def test_structured_output_of_a_supporting_provider_streams(tmp_path: Path) -> None:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        for piece in (ULM[:9], ULM[9:]):
            await connection.send(chunk({"content": piece}))
        for each in (chunk({}, "stop"), usage(), DONE):
            await connection.send(each)
        await connection.end()

    async with configured(tmp_path, script) as setup:
        events = await setup.stream(text=STRICT)
        assert deltas(events, "output_text") == [ULM[:9], ULM[9:]]


@both_forms
async def test_prose_in_place_of_json_is_repaired(tmp_path: Path, streamed: bool) -> None:
    async with strict_gateway(tmp_path, NATIVE, "Two days in Ulm.", ULM) as setup:
        response = await answered(setup, streamed=streamed)
        assert (response["status"], text(response)) == ("completed", ULM)


@both_forms
async def test_tools_of_the_client_stay_callable_beside_the_answer_tool(
    tmp_path: Path, streamed: bool
) -> None:
    looking = {"content": "Let me see.", "tool_calls": [called("look", "{}")]}
    async with strict_gateway(tmp_path, BY_TOOL, looking, ULM) as setup:
        response = await answered(setup, streamed=streamed, tools=[TOOL])
        assert response["status"] == "completed"
        assert {item["type"] for item in response["output"]} == {"message", "function_call"}
        assert setup.last_body["tool_choice"] == "required"
        [call] = [item for item in response["output"] if item["type"] == "function_call"]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "Ulm"}
        following = {"previous_response_id": response["id"], "input": [result], "tools": [TOOL]}
        response = await answered(setup, streamed=streamed, **following)
        assert (response["status"], text(response)) == ("completed", ULM)
        assert [item["type"] for item in response["output"]] == ["message"]


@both_forms
async def test_text_beside_the_answer_tool_is_not_part_of_the_answer(
    tmp_path: Path, streamed: bool
) -> None:
    both = {"content": "Here it is:", "tool_calls": [called("answer_trip", ULM)]}
    async with strict_gateway(tmp_path, BY_TOOL, both) as setup:
        response = await answered(setup, streamed=streamed)
        assert (response["status"], text(response)) == ("completed", ULM)
        [aside] = [item for item in response["output"] if item["type"] == "reasoning"]
        assert [part["text"] for part in aside["summary"]] == ["Here it is:"]


async def test_a_degraded_output_strategy_has_a_diagnostic(tmp_path: Path) -> None:
    async with strict_gateway(tmp_path, BY_TOOL, ULM) as setup:
        _, headers, _ = await setup.post(text=STRICT)
        assert headers["antiphon-diagnostics"] == "1; codes=format.degraded:text.format.type"
        [tool] = setup.last_body["tools"]
        assert tool["function"]["parameters"] == SCHEMA
        assert tool["function"]["strict"] is True
        assert setup.last_body["tool_choice"]["function"]["name"] == "answer_trip"
        assert "response_format" not in setup.last_body


async def test_a_truncated_answer_is_incomplete_and_not_repaired(tmp_path: Path) -> None:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        cut = chunk({"content": ULM[:9]})
        for each in (cut, chunk({}, "length"), usage(), DONE):
            await connection.send(each)
        await connection.end()

    async with configured(tmp_path, script, models={"*": TOLD}) as setup:
        events = await setup.stream(text=STRICT)
        assert final_response(events)["incomplete_details"] == {"reason": "max_output_tokens"}
        assert text(final_response(events)) == ULM[:9]
        assert len(items_of_type(events, "message")) == 1
        assert len(setup.upstream.requests) == 1
