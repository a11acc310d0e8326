"""Unit tests of the SDKs' HTTP clients in process."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import openai
import pytest

import antiphon
from antiphon.config import ClientLimitConfig, Config, LimitConfig
from tests.support.waiting import let_others_read


async def test_the_official_client_runs_in_process() -> None:
    async with openai.AsyncOpenAI(
        http_client=antiphon.openai_http_client(), api_key="none"
    ) as client:
        response = await client.responses.create(model="echo/echo", input="Hello there")
        stream = await client.responses.create(model="echo/echo", input="one two", stream=True)
        events = [event async for event in stream]
    assert response.output_text == "Hello there"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].type == "response.completed"


async def test_chat_completions_run_in_process() -> None:
    async with openai.AsyncOpenAI(
        http_client=antiphon.openai_http_client(), api_key="none"
    ) as client:
        completion = await client.chat.completions.create(
            model="echo/echo", messages=[{"role": "user", "content": "Hello there"}]
        )
        stream = await client.chat.completions.create(
            model="echo/echo", messages=[{"role": "user", "content": "one two"}], stream=True
        )
        chunks = [chunk async for chunk in stream]
    assert completion.choices[0].message.content == "Hello there"
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_the_blocking_client_runs_in_process() -> None:
    http_client = antiphon.openai_http_client(blocking=True)
    with openai.OpenAI(http_client=http_client, api_key="none") as client:
        response = client.responses.create(model="echo/echo", input="Hello there")
        events = list(client.responses.create(model="echo/echo", input="one two", stream=True))
    assert response.output_text == "Hello there"
    assert events[-1].type == "response.completed"


async def test_a_stream_that_is_left_early_is_closed() -> None:
    async with openai.AsyncOpenAI(
        http_client=antiphon.openai_http_client(), api_key="none"
    ) as client:
        stream = await client.responses.create(model="echo/echo", input="one two", stream=True)
        first = await anext(aiter(stream))
        await stream.close()
        again = await client.responses.create(model="echo/echo", input="still works")
    assert first.type == "response.created"
    assert again.output_text == "still works"


def test_a_blocking_stream_that_is_left_early_is_closed() -> None:
    http_client = antiphon.openai_http_client(blocking=True)
    with openai.OpenAI(http_client=http_client, api_key="none") as client:
        stream = client.responses.create(model="echo/echo", input="one two", stream=True)
        first = next(iter(stream))
        stream.close()
        again = client.responses.create(model="echo/echo", input="still works")
    assert first.type == "response.created"
    assert again.output_text == "still works"


async def test_errors_have_the_classes_of_the_official_client() -> None:
    client = openai.AsyncOpenAI(
        http_client=antiphon.openai_http_client(), api_key="none", max_retries=0
    )
    async with client:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.responses.create(model="echo/echo", input="x", temperature=9)
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="nobody/nothing", input="x")
    assert refused.value.param == "temperature"


async def test_keys_that_guard_a_port_are_not_asked_for() -> None:
    config = antiphon.Config(server=antiphon.Config().server.__class__(api_keys={"a": "secret"}))
    async with openai.AsyncOpenAI(
        http_client=antiphon.openai_http_client(config), api_key="none"
    ) as client:
        response = await client.responses.create(model="echo/echo", input="Hello")
    assert response.status == "completed"


def ask(text: str) -> Any:
    return [{"role": "user", "content": text}]


async def test_the_client_of_anthropic_runs_in_process() -> None:
    async with anthropic.AsyncAnthropic(
        http_client=antiphon.anthropic_http_client(), api_key="none"
    ) as client:
        message = await client.messages.create(
            model="echo/echo", max_tokens=100, messages=ask("Hello there")
        )
        async with client.messages.stream(
            model="echo/echo", max_tokens=100, messages=ask("one two")
        ) as stream:
            words = [word async for word in stream.text_stream]
        count = await client.messages.count_tokens(model="echo/echo", messages=ask("Hello there"))
        with pytest.raises(anthropic.RateLimitError):
            await client.with_options(max_retries=0).messages.create(
                model="echo/error-429", max_tokens=100, messages=ask("Hello")
            )
    assert message.content[0].text == "Hello there"  # type: ignore[union-attr]
    assert words == ["one", " two"]
    assert count.input_tokens > 0


def test_the_blocking_client_of_anthropic_runs_in_process() -> None:
    http_client = antiphon.anthropic_http_client(blocking=True)
    with anthropic.Anthropic(http_client=http_client, api_key="none") as client:
        message = client.messages.create(
            model="echo/echo", max_tokens=100, messages=ask("Hello there")
        )
    assert message.content[0].text == "Hello there"  # type: ignore[union-attr]


async def test_a_stream_that_is_cancelled_until_it_has_ended_gives_its_place_back() -> None:
    limits = LimitConfig(clients={"local": ClientLimitConfig(max_streams=1)})
    http_client = antiphon.openai_http_client(Config(limits=limits))
    async with openai.AsyncOpenAI(http_client=http_client, api_key="none", max_retries=0) as client:

        async def read_slowly() -> None:
            async with await client.responses.create(
                model="echo/echo", input="one two", stream=True
            ) as stream:
                async for _ in stream:
                    await asyncio.Event().wait()

        reading = asyncio.ensure_future(read_slowly())
        await let_others_read()
        while not reading.done():  # as cancel scopes of anyio do
            reading.cancel()
            await asyncio.sleep(0)
        await let_others_read()
        response = await client.responses.create(model="echo/echo", input="Hello")
    assert response.output_text == "Hello"


async def test_a_stream_that_another_task_closes_gives_its_place_back() -> None:
    limits = LimitConfig(clients={"local": ClientLimitConfig(max_streams=1)})
    async with antiphon.openai_http_client(Config(limits=limits)) as client:
        url = "http://localhost/v1/responses"
        body = {"model": "echo/echo", "input": "one two", "stream": True}
        streamed = await client.send(client.build_request("POST", url, json=body), stream=True)
        reading = asyncio.ensure_future(anext(streamed.aiter_raw()))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already running"):
            await streamed.aclose()
        await asyncio.wait((reading,))
        again = await client.post(url, json={"model": "echo/echo", "input": "Hello"})
    assert again.status_code == 200
