"""Threads of the server, as the tool runner of Anthropic's SDK uses them, and structured output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import pydantic
import pytest
from anthropic import beta_async_tool

from tests.e2e.test_messages import CALL_STREAM, ask, messages_client
from tests.support.checked_gateway import checked_gateway
from tests.support.upstream import (
    DONE,
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Script,
    chunk,
    send_frames,
    usage,
)


@beta_async_tool
async def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


class City(pydantic.BaseModel):
    name: str


def one_after_another(*streams: tuple[bytes, ...]) -> Script:
    replies = map(send_frames, streams)

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await next(replies)(request, connection)

    return script


async def test_the_tool_runner_continues_a_thread_with_its_tools_and_system(tmp_path: Path) -> None:
    """Its second request has the result alone: history, tools and system are those of the store."""
    script = one_after_another(CALL_STREAM, HELLO_WORLD)
    async with (
        checked_gateway(tmp_path, script) as setup,
        messages_client(setup.gateway) as client,
    ):
        runner = client.beta.messages.tool_runner(
            model="up/m", max_tokens=100, messages=ask(), tools=[get_weather], system="Be kind."
        )
        message = await runner.until_done()
    assert [block.text for block in message.content if block.type == "text"] == ["Hello, world"]
    first, second = (request.body for request in setup.upstream.requests)
    assert second["tools"] == first["tools"]
    roles = [each["role"] for each in second["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]
    assert second["messages"][-1]["content"] == "sunny in Oslo"


async def test_a_thread_that_is_not_stored_has_the_code_by_which_the_runner_goes_on(
    tmp_path: Path,
) -> None:
    thread: Any = {"type": "continue", "previous_message_id": "msg_unknown"}
    async with (
        checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup,
        messages_client(setup.gateway) as client,
    ):
        with pytest.raises(anthropic.BadRequestError) as caught:
            await client.messages.create(
                model="up/m", max_tokens=9, messages=ask(), extra_body={"thread": thread}
            )
    assert caught.value.body["error"]["details"] == {"error_code": "thread_not_found"}  # type: ignore[index]
    assert setup.upstream.requests == []


async def test_structured_output_is_parsed(tmp_path: Path) -> None:
    stream = (chunk({"content": '{"name": "Oslo"}'}), chunk({}, "stop"), usage(), DONE)
    async with (
        checked_gateway(tmp_path, send_frames(stream)) as setup,
        messages_client(setup.gateway) as client,
        client.messages.stream(
            model="up/m", max_tokens=100, messages=ask(), output_format=City
        ) as streaming,
    ):
        message = await streaming.get_final_message()
    assert message.parsed_output == City(name="Oslo")
