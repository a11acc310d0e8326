"""Every feature on the built-in models, without a key, by the official SDKs of two formats."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from antiphon.config import SearchConfig
from tests.support.gateways import replaced, running, settings
from tests.support.openai_client import openai_client

SCHEMA: Any = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAE"
    "hQGAhKmMIQAAAABJRU5ErkJggg=="
)


class Clients:
    def __init__(self, openai: AsyncOpenAI, anthropic: AsyncAnthropic) -> None:
        self.openai = openai
        self.anthropic = anthropic


@asynccontextmanager
async def echo_clients(tmp_path: Path) -> AsyncIterator[Clients]:
    config = replaced(settings(tmp_path), search=SearchConfig(backend="echo"))
    async with running(config) as gateway, openai_client(gateway) as openai:
        url = gateway.base_url.removesuffix("/v1")
        async with AsyncAnthropic(base_url=url, api_key="sk", max_retries=0) as anthropic:
            yield Clients(openai, anthropic)


def said(content: Any) -> Any:
    return [{"role": "user", "content": content}]


async def test_a_tool_is_called_and_its_result_is_the_answer(tmp_path: Path) -> None:
    async with echo_clients(tmp_path) as clients:
        chat = clients.openai.chat.completions
        question = said("the weather, please")
        tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
        first = await chat.create(model="echo/echo", messages=question, tools=tools)
        message: Any = first.choices[0].message
        [call] = message.tool_calls
        assert (first.choices[0].finish_reason, call.function.name) == ("tool_calls", "weather")
        result = {"role": "tool", "tool_call_id": call.id, "content": "12 degrees"}
        history = [*question, message.to_dict(), result]
        second = await chat.create(model="echo/echo", messages=history, tools=tools)
        assert second.choices[0].message.content == "12 degrees"

        messages = clients.anthropic.messages
        named: Any = [{"name": "weather", "input_schema": SCHEMA}]
        asked = {"model": "echo/echo", "max_tokens": 100, "tools": named}
        answer = await messages.create(messages=question, **asked)
        [use] = [block for block in answer.content if block.type == "tool_use"]
        assert (answer.stop_reason, use.name, use.input) == (
            "tool_use",
            "weather",
            {"city": "echo"},
        )
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": "12 degrees"}]
        thread = [*question, {"role": "assistant", "content": answer.content}, *said(results)]
        final = await messages.create(messages=thread, **asked)
        assert final.content[0].text == "12 degrees"


async def test_thinking_comes_before_the_text(tmp_path: Path) -> None:
    async with echo_clients(tmp_path) as clients:
        stream = await clients.openai.chat.completions.create(
            model="echo/reasoner", messages=said("two words"), stream=True
        )
        deltas = [chunk.choices[0].delta.to_dict() async for chunk in stream]
        kinds = [name for delta in deltas for name in delta if name in ("content", "reasoning")]
        assert kinds[:2] == ["content", "reasoning"]  # the first chunk has an empty text
        assert kinds[-1] == "content"
        async with clients.anthropic.messages.stream(
            model="echo/reasoner",
            max_tokens=2000,
            messages=said("two words"),
            thinking={"type": "enabled", "budget_tokens": 1024},
        ) as thoughts:
            message = await thoughts.get_final_message()
        assert [block.type for block in message.content] == ["thinking", "text"]
        assert message.content[0].signature  # type: ignore[union-attr]


async def test_the_web_is_searched_and_cited(tmp_path: Path) -> None:
    question = said("search the web for otters")
    async with echo_clients(tmp_path) as clients:
        chat = await clients.openai.chat.completions.create(
            model="echo/echo", messages=question, web_search_options={}
        )
        assert "https://echo.example/1" in str(chat.choices[0].message.content)
        message = await clients.anthropic.messages.create(
            model="echo/echo",
            max_tokens=1000,
            messages=question,
            tools=[{"type": "web_search_20250305", "name": "web_search"}],
        )
    kinds = [block.type for block in message.content]
    assert kinds[:2] == ["server_tool_use", "web_search_tool_result"]
    [found] = [block for block in message.content if block.type == "web_search_tool_result"]
    assert "'title': 'About " in str(found.to_dict())
    assert message.usage.server_tool_use is not None
    assert message.usage.server_tool_use.web_search_requests == 1


async def test_structured_output_and_images(tmp_path: Path) -> None:
    async with echo_clients(tmp_path) as clients:
        form: Any = {"name": "place", "schema": SCHEMA, "strict": True}
        whole = await clients.openai.chat.completions.create(
            model="echo/echo",
            messages=said("Oslo"),
            response_format={"type": "json_schema", "json_schema": form},
        )
        assert json.loads(str(whole.choices[0].message.content)) == {"city": "Oslo"}
        message = await clients.anthropic.messages.create(
            model="echo/echo",
            max_tokens=100,
            messages=said("Oslo"),
            output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
        )
        assert json.loads(message.content[0].text) == {"city": "Oslo"}  # type: ignore[union-attr]
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
        seen = await clients.openai.chat.completions.create(
            model="echo/echo", messages=said([image])
        )
        source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
        looked = await clients.anthropic.messages.create(
            model="echo/echo",
            max_tokens=100,
            messages=said([{"type": "image", "source": source}]),
        )
    assert "image/png" in str(seen.choices[0].message.content)
    assert looked.content[0].text == seen.choices[0].message.content  # type: ignore[union-attr]


async def test_a_slow_model_is_streamed_word_by_word(tmp_path: Path) -> None:
    async with echo_clients(tmp_path) as clients:
        stream = await clients.openai.chat.completions.create(
            model="echo/slow", messages=said("one two"), stream=True
        )
        texts = [chunk.choices[0].delta.content async for chunk in stream]
        async with clients.anthropic.messages.stream(
            model="echo/slow", max_tokens=100, messages=said("one two")
        ) as message:
            words = [text async for text in message.text_stream]
    assert texts == ["", "one", " two", None]
    assert words == ["one", " two"]


ERRORS: dict[str, tuple[type[Exception], type[Exception]]] = {
    "error-400": (openai.BadRequestError, anthropic.BadRequestError),
    "error-401": (openai.InternalServerError, anthropic.InternalServerError),
    "error-429": (openai.RateLimitError, anthropic.RateLimitError),
    "error-500": (openai.InternalServerError, anthropic.InternalServerError),
    "error-503": (openai.InternalServerError, anthropic.InternalServerError),
    "error-midway": (openai.APIError, anthropic.APIError),
    "cut": (openai.APIError, anthropic.APIError),
}


async def ask_chat(clients: Clients, model: str, *, stream: bool) -> None:
    answer: Any = await clients.openai.chat.completions.create(
        model=f"echo/{model}", messages=said("some words"), stream=stream
    )
    assert [chunk async for chunk in answer]


async def ask_messages(clients: Clients, model: str, *, stream: bool) -> None:
    answer: Any = await clients.anthropic.messages.create(
        model=f"echo/{model}", max_tokens=100, messages=said("some words"), stream=stream
    )
    assert [event async for event in answer]


@pytest.mark.parametrize("stream", [False, True])
async def test_errors_are_the_exceptions_of_each_sdk(tmp_path: Path, stream: bool) -> None:
    async with echo_clients(tmp_path) as clients:
        for model, (chat_error, messages_error) in ERRORS.items():
            with pytest.raises(chat_error):
                await ask_chat(clients, model, stream=stream)
            with pytest.raises(messages_error):
                await ask_messages(clients, model, stream=stream)
