"""Chat Completions by the official `openai` client in strict validation, on a real port."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from aiohttp import ClientSession
from openai.types.chat import ChatCompletionToolUnionParam
from pydantic import BaseModel

from tests.support.gateways import running, settings
from tests.support.openai_client import echo_client, scripted_client
from tests.support.upstream import DONE, HELLO_WORLD, chunk, send_frames, send_json, usage

WEATHER: ChatCompletionToolUnionParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
CALL = {
    "index": 0,
    "id": "call_up",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": '},
}
CALL_STREAM = (
    chunk({"role": "assistant", "reasoning_content": "hm"}),
    chunk({"tool_calls": [CALL]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"Oslo"}'}}]}),
    chunk({}, "tool_calls"),
    usage(),
    DONE,
)


class Person(BaseModel):
    name: str
    age: int


async def test_a_whole_response(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        answer = await client.chat.completions.create(
            model="echo/echo", messages=[{"role": "user", "content": "Good morning"}]
        )
    [choice] = answer.choices
    assert (choice.message.content, choice.finish_reason) == ("Good morning", "stop")
    assert (answer.object, answer.model) == ("chat.completion", "echo/echo")
    assert answer.id.startswith("chatcmpl-")
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


async def test_a_stream_ends_with_a_finish_reason_and_the_requested_usage(tmp_path: Path) -> None:
    async with scripted_client(tmp_path, send_frames(HELLO_WORLD)) as (client, _):
        stream = await client.chat.completions.create(
            model="up/m",
            messages=[{"role": "user", "content": "hi"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [each async for each in stream]
    *texts, last, counted = chunks
    assert "".join(each.choices[0].delta.content or "" for each in texts) == "Hello, world"
    assert last.choices[0].finish_reason == "stop"
    assert counted.choices == []
    assert counted.usage is not None
    assert (counted.usage.prompt_tokens, counted.usage.completion_tokens) == (7, 3)


async def test_the_stream_helper_assembles_calls_and_their_results_go_back(tmp_path: Path) -> None:
    async with scripted_client(tmp_path, send_frames(CALL_STREAM)) as (client, setup):
        messages: list[Any] = [{"role": "user", "content": "Weather in Oslo?"}]
        async with client.chat.completions.stream(
            model="up/m", messages=messages, tools=[WEATHER]
        ) as stream:
            completion = await stream.get_final_completion()
        message = completion.choices[0].message
        assert message.tool_calls is not None
        [call] = message.tool_calls
        assert call.type == "function"
        assert json.loads(call.function.arguments) == {"city": "Oslo"}
        assert completion.choices[0].finish_reason == "tool_calls"
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]},
            {"role": "tool", "tool_call_id": call.id, "content": "warm"},
        ]
        await client.chat.completions.create(model="up/m", messages=messages, tools=[WEATHER])
        sent = setup.upstream.requests[-1].body["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"]


async def test_an_older_client_calls_its_function_and_sends_the_result(tmp_path: Path) -> None:
    """It has one call in a message, whatever the model does."""
    rome = {"name": "get_weather", "arguments": '{"city": "Rome"}'}
    second = chunk({"tool_calls": [{**CALL, "index": 1, "id": "call_2", "function": rome}]})
    script = send_frames((*CALL_STREAM[:-3], second, *CALL_STREAM[-3:]))
    async with scripted_client(tmp_path, script) as (client, setup):
        messages: list[Any] = [{"role": "user", "content": "Weather in Oslo?"}]
        weather: Any = WEATHER
        functions = [weather["function"]]
        completion = await client.chat.completions.create(
            model="up/m", messages=messages, functions=functions
        )
        [choice] = completion.choices
        call = choice.message.function_call
        assert call is not None
        assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Oslo"})
        assert choice.finish_reason == "function_call"
        result = {"role": "function", "name": "get_weather", "content": "warm"}
        messages += [choice.message.model_dump(exclude_none=True), result]
        await client.chat.completions.create(model="up/m", messages=messages, functions=functions)
        sent = setup.upstream.requests[-1].body["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"]
    assert setup.upstream.requests[0].body["parallel_tool_calls"] is False


async def test_structured_output_is_parsed(tmp_path: Path) -> None:
    document = json.dumps({"name": "Ada", "age": 36})
    frames = (chunk({"content": document}), chunk({}, "stop"), DONE)
    async with scripted_client(tmp_path, send_frames(frames)) as (client, setup):
        completion = await client.chat.completions.parse(
            model="up/m",
            messages=[{"role": "user", "content": "Who?"}],
            response_format=Person,
        )
        sent = setup.upstream.requests[-1].body
    assert completion.choices[0].message.parsed == Person(name="Ada", age=36)
    assert sent["response_format"]["json_schema"]["name"] == "Person"


@pytest.mark.parametrize(
    ("model", "error"),
    [
        ("echo/error-429", openai.RateLimitError),
        ("echo/error-400", openai.BadRequestError),
        ("echo/error-503", openai.InternalServerError),
        ("echo/nothing", openai.NotFoundError),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_failure_before_the_first_byte_is_the_exception_of_its_status(
    tmp_path: Path, model: str, error: type[openai.APIStatusError], stream: bool
) -> None:
    async with echo_client(tmp_path) as client:
        with pytest.raises(error) as caught:
            await client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": "hi"}], stream=stream
            )
    assert caught.value.message


@pytest.mark.parametrize("model", ["echo/error-midway", "echo/cut"])
async def test_a_failure_in_the_middle_raises_and_never_looks_like_an_end(
    tmp_path: Path, model: str
) -> None:
    async with echo_client(tmp_path) as client:
        stream = await client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "a b c d e f g h"}], stream=True
        )
        finishes: list[str | None] = []
        with pytest.raises(openai.APIError):
            await _collect_finishes(stream, finishes)
        with pytest.raises(openai.APIError):
            await client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": "a b c d e f g h"}]
            )
    assert finishes
    assert set(finishes) == {None}


async def _collect_finishes(stream: Any, finishes: list[str | None]) -> None:
    async for each in stream:
        finishes += [choice.finish_reason for choice in each.choices]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_context_that_is_too_long_is_a_400_with_its_code(
    tmp_path: Path, stream: bool
) -> None:
    """Clients of this format compact a thread by the code of the HTTP error."""
    problem = {"error": {"message": "too long", "code": "context_length_exceeded"}}
    async with scripted_client(tmp_path, send_json(400, problem)) as (client, _):
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(
                model="up/m", messages=[{"role": "user", "content": "hi"}], stream=stream
            )
    assert caught.value.code == "context_length_exceeded"


async def test_a_bad_member_is_named_as_the_client_spells_it(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(
                model="echo/echo", messages=[{"role": "user", "content": "hi"}], n=2
            )
    assert caught.value.param == "n"


async def test_other_methods_are_refused_and_too_many_messages_are_a_413(tmp_path: Path) -> None:
    body = {"model": "echo/echo", "messages": [{"role": "user", "content": "hi"}] * 3}
    async with running(settings(tmp_path, max_input_items=2)) as gateway, ClientSession() as http:
        url = f"{gateway.base_url}/chat/completions"
        async with http.get(url) as refused, http.post(url, json=body) as crowded:
            error = (await crowded.json())["error"]
    assert (refused.status, crowded.status, error["param"]) == (405, 413, "messages")
