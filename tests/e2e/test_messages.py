"""Messages by the official `anthropic` client, on a real port."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import pytest

from tests.support.checked_gateway import checked_gateway
from tests.support.gateways import Running, running, settings
from tests.support.upstream import DONE, HELLO_WORLD, chunk, send_frames, send_json, usage

WEATHER: Any = {
    "name": "get_weather",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
CALL = {
    "index": 0,
    "id": "call_up",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
}
CALL_STREAM = (chunk({"tool_calls": [CALL]}), chunk({}, "tool_calls"), usage(), DONE)


@asynccontextmanager
async def messages_client(gateway: Running) -> AsyncIterator[anthropic.AsyncAnthropic]:
    base_url = gateway.base_url.removesuffix("/v1")
    async with anthropic.AsyncAnthropic(
        base_url=base_url, api_key="sk-client", max_retries=0
    ) as client:
        yield client


def ask(text: str = "hi") -> Any:
    return [{"role": "user", "content": text}]


async def test_a_whole_message(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as gateway, messages_client(gateway) as client:
        message = await client.messages.create(
            model="echo/echo", max_tokens=100, messages=ask("Good morning")
        )
    assert (message.type, message.role, message.model) == ("message", "assistant", "echo/echo")
    assert message.content[0].type == "text"
    assert message.content[0].text == "Good morning"
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens > 0
    assert (message._request_id or "").startswith("req_")


async def test_the_stream_helper_reads_text_and_the_end(tmp_path: Path) -> None:
    async with (
        checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup,
        messages_client(setup.gateway) as client,
        client.messages.stream(model="up/m", max_tokens=100, messages=ask()) as stream,
    ):
        texts = [text async for text in stream.text_stream]
        message = await stream.get_final_message()
    assert "".join(texts) == "Hello, world"
    assert (message.stop_reason, message.usage.output_tokens) == ("end_turn", 3)


async def test_a_tool_is_called_and_its_result_goes_back(tmp_path: Path) -> None:
    async with (
        checked_gateway(tmp_path, send_frames(CALL_STREAM)) as setup,
        messages_client(setup.gateway) as client,
    ):
        async with client.messages.stream(
            model="up/m", max_tokens=100, messages=ask("Weather?"), tools=[WEATHER]
        ) as stream:
            message = await stream.get_final_message()
        [block] = [block for block in message.content if block.type == "tool_use"]
        assert (block.name, block.input, message.stop_reason) == (
            "get_weather",
            {"city": "Oslo"},
            "tool_use",
        )
        result: Any = {"type": "tool_result", "tool_use_id": block.id, "content": "warm"}
        thread: Any = [
            *ask("Weather?"),
            {"role": "assistant", "content": [each.model_dump() for each in message.content]},
            {"role": "user", "content": [result]},
        ]
        await client.messages.create(model="up/m", max_tokens=9, messages=thread, tools=[WEATHER])
        sent = setup.upstream.requests[-1].body["messages"]
    assert [each["role"] for each in sent] == ["user", "assistant", "tool"]
    assert json.loads(sent[1]["tool_calls"][0]["function"]["arguments"]) == {"city": "Oslo"}
    assert sent[2]["content"] == "warm"


@pytest.mark.parametrize(
    ("model", "error"),
    [
        ("echo/error-429", anthropic.RateLimitError),
        ("echo/error-400", anthropic.BadRequestError),
        ("echo/nothing", anthropic.NotFoundError),
    ],
)
async def test_a_failure_before_the_first_byte_is_the_exception_of_its_status(
    tmp_path: Path, model: str, error: type[anthropic.APIStatusError]
) -> None:
    async with running(settings(tmp_path)) as gateway, messages_client(gateway) as client:
        with pytest.raises(error) as caught:
            await client.messages.create(model=model, max_tokens=9, messages=ask())
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["type"] == "error"
    assert caught.value.body["request_id"] == caught.value.request_id


async def test_a_failure_in_the_middle_raises(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as gateway, messages_client(gateway) as client:
        stream = await client.messages.create(
            model="echo/error-midway", max_tokens=9, messages=ask("a b c d e f"), stream=True
        )
        with pytest.raises(anthropic.APIStatusError):
            [event async for event in stream]


async def test_a_context_that_is_too_long_has_the_words_that_clients_compact_by(
    tmp_path: Path,
) -> None:
    problem = {"error": {"message": "too long", "code": "context_length_exceeded"}}
    async with (
        checked_gateway(tmp_path, send_json(400, problem)) as setup,
        messages_client(setup.gateway) as client,
    ):
        with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
            await client.messages.create(model="up/m", max_tokens=9, messages=ask())


async def test_input_tokens_are_counted(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as gateway, messages_client(gateway) as client:
        counted = await client.messages.count_tokens(model="echo/echo", messages=ask("one two"))
    assert counted.input_tokens > 0
    assert counted.to_dict() == {"input_tokens": counted.input_tokens, "estimated": True}
