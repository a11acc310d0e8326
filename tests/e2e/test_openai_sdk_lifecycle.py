"""The official `openai` client in strict mode: stored, background and resumed responses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.support.openai_client import echo_client, scripted_client
from tests.support.upstream import HELLO, Connection, ReceivedRequest
from tests.support.waiting import LIMIT_S, until_async

TEXT = "several words that are repeated"


async def wait_hold(request: ReceivedRequest, connection: Connection) -> None:
    """A provider that begins to answer and does not end."""
    await connection.head()
    for frame in HELLO:
        await connection.send(frame)
    await connection.wait_disconnected()


async def wait_until_it_has(client: AsyncOpenAI, response_id: str, status: str) -> Any:
    async def has_status() -> bool:
        return (await client.responses.retrieve(response_id)).status == status

    await until_async(has_status, f"the response is {status}")
    return await client.responses.retrieve(response_id)


async def test_a_response_is_retrieved_and_deleted(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        created = await client.responses.create(model="echo/echo", input="Hello")
        assert await client.responses.retrieve(created.id) == created
        await client.responses.delete(created.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(created.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.delete(created.id)


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_the_client_pages_through_the_input(tmp_path: Path, order: Any) -> None:
    async with echo_client(tmp_path) as client:
        numbers = [str(number) for number in range(7)]
        first = await client.responses.create(model="echo/echo", input="first")
        created = await client.responses.create(
            model="echo/echo",
            input=[{"role": "user", "content": number} for number in numbers],
            previous_response_id=first.id,
        )
        pages = client.responses.input_items.list(created.id, limit=3, order=order)
        texts = [item.to_dict()["content"][0]["text"] async for item in pages]  # type: ignore[index]
    expected = ["first", "first", *numbers]
    assert texts == (expected if order == "asc" else expected[::-1])


async def test_items_of_a_list_can_be_referenced(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        conversation = await client.conversations.create()
        first = await client.responses.create(model="echo/echo", input="first")
        second = await client.responses.create(
            model="echo/echo", input="second", previous_response_id=first.id
        )
        third = await client.responses.create(
            model="echo/echo", input="third", conversation=conversation.id
        )
        listed = [item async for item in client.responses.input_items.list(second.id)]
        listed += [item async for item in client.responses.input_items.list(third.id)]
        answers = []
        for item in listed:
            reference: Any = {"type": "item_reference", "id": item.id}
            question: Any = {"role": "user", "content": "?"}
            items = [reference] if item.to_dict()["role"] == "user" else [reference, question]
            answers.append(await client.responses.create(model="echo/echo", input=items))
    assert [answer.output_text for answer in answers] == ["second", "?", "first", "third"]


async def test_lists_have_the_fields_that_a_request_may_omit(tmp_path: Path) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    items: list[Any] = [
        {"role": "user", "content": [image]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Wait."}]},
        {"type": "reasoning"},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": [image]},
        {"type": "tool_search_call", "call_id": "c2", "arguments": {}},
        {"type": "tool_search_output", "call_id": "c2", "tools": []},
    ]
    kinds = [item.get("type", "message") for item in items]
    async with echo_client(tmp_path) as client:
        created = await client.responses.create(model="echo/echo", input=items)
        listed = client.responses.input_items.list(created.id, order="asc")
        assert [item.type async for item in listed] == kinds
        conversation = await client.conversations.create(items=items)
        stored = client.conversations.items.list(conversation.id, order="asc")
        assert [item.type async for item in stored] == kinds


async def test_the_trigger_of_a_compaction_is_not_listed(tmp_path: Path) -> None:
    """It is no part of the history, and no type of the client has it in a list."""
    items: list[Any] = [{"role": "user", "content": "Hello"}, {"type": "compaction_trigger"}]
    async with echo_client(tmp_path) as client:
        conversation = await client.conversations.create()
        choices: list[dict[str, Any]] = [{}, {"conversation": conversation.id}]
        for fields in choices:
            created = await client.responses.create(model="echo/echo", input=items, **fields)
            listed = client.responses.input_items.list(created.id)
            assert [item.type async for item in listed] == ["message"]
        stored = client.conversations.items.list(conversation.id, order="asc")
        assert [item.type async for item in stored] == ["message", "compaction"]


async def test_a_background_response_is_polled(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        created = await client.responses.create(model="echo/echo", input=TEXT, background=True)
        assert (created.status, created.background, created.output) == ("queued", True, [])
        finished = await wait_until_it_has(client, created.id, "completed")
        assert finished.output_text == TEXT
        following = await client.responses.create(
            model="echo/echo", input="Go on", previous_response_id=created.id
        )
        assert following.status == "completed"


async def test_a_background_stream_is_resumed_from_every_number(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        stream = await client.responses.create(
            model="echo/echo", input=TEXT, background=True, stream=True
        )
        events = [event async for event in stream]
        response_id = events[0].response.id  # type: ignore[union-attr]
        for number in range(len(events)):
            resumed = await client.responses.retrieve(
                response_id, stream=True, starting_after=number
            )
            assert [event async for event in resumed] == events[number + 1 :]
        whole = await client.responses.retrieve(response_id, stream=True)
        assert [event async for event in whole] == events


async def test_a_background_stream_is_cancelled(tmp_path: Path) -> None:
    async with scripted_client(tmp_path, wait_hold) as (client, setup):
        stream = await client.responses.create(
            model="up/m", input=TEXT, background=True, stream=True
        )
        events = []
        async for event in stream:
            events.append(event)
            if event.type == "response.output_text.delta":
                async with asyncio.timeout(LIMIT_S):
                    cancelled = await client.responses.cancel(event_response_id(events))
        assert events[-1].type == "response.incomplete"
        assert events[-1].response == cancelled
        assert (cancelled.status, cancelled.incomplete_details) == ("cancelled", None)
        assert cancelled.output_text == "Hello"
        assert await client.responses.cancel(cancelled.id) == cancelled
        assert len(setup.upstream.requests) == 1


def event_response_id(events: list[Any]) -> str:
    return str(events[0].response.id)


async def test_a_foreground_response_is_not_cancelled(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        created = await client.responses.create(model="echo/echo", input="Hello")
        with pytest.raises(openai.BadRequestError):
            await client.responses.cancel(created.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.cancel("resp_unknown")
