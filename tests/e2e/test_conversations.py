"""Conversations with the official client in strict mode: items, responses, and owners."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.responses import ResponseInputItemParam

from tests.support.checked_gateway import checked_gateway
from tests.support.gateways import running, settings
from tests.support.openai_client import echo_client, openai_client, scripted_client
from tests.support.upstream import (
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    chunk,
    frame,
    send_frames,
    send_json,
)

ITEMS: Sequence[ResponseInputItemParam] = (
    {"role": "user", "content": "How warm is it?"},
    {
        "type": "function_call",
        "call_id": "call_1",
        "name": "get_weather",
        "arguments": "{}",
    },
    {"type": "function_call_output", "call_id": "call_1", "output": "7 °C"},
    {"type": "message", "role": "assistant", "content": "7 °C."},
    {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
)


async def list_ids(client: AsyncOpenAI, conversation_id: str, **options: Any) -> list[str]:
    items = client.conversations.items.list(conversation_id, **options)
    return [str(item.id) async for item in items]


async def test_a_conversation_is_created_changed_and_deleted(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        created = await client.conversations.create(metadata={"topic": "tea"}, items=ITEMS)
        assert created.id.startswith("conv_")
        assert created.object == "conversation"
        assert await client.conversations.retrieve(created.id) == created
        changed = await client.conversations.update(created.id, metadata={"topic": "rain"})
        assert (changed.id, changed.metadata) == (created.id, {"topic": "rain"})
        deleted = await client.conversations.delete(created.id)
        assert (deleted.id, deleted.object, deleted.deleted) == (
            created.id,
            "conversation.deleted",
            True,
        )
        with pytest.raises(openai.NotFoundError) as caught:
            await client.conversations.retrieve(created.id)
        assert f"Conversation with id '{created.id}' not found." in caught.value.message


async def test_items_are_created_listed_and_deleted(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        conversation = await client.conversations.create()
        assert await list_ids(client, conversation.id) == []
        items = client.conversations.items
        created = await items.create(conversation.id, items=ITEMS)
        assert [item.type for item in created.data] == [
            "message",
            "function_call",
            "function_call_output",
            "message",
            "message",
        ]
        ids = [str(item.id) for item in created.data]
        assert (created.first_id, created.last_id, created.has_more) == (ids[0], ids[-1], False)
        assert await list_ids(client, conversation.id, order="asc", limit=2) == ids
        assert await list_ids(client, conversation.id, limit=2) == ids[::-1]
        assert await list_ids(client, conversation.id, after=ids[2], order="asc") == ids[3:]
        first = await items.retrieve(ids[0], conversation_id=conversation.id)
        assert first.type == "message"
        assert first.status == "completed"
        assert first.content[0].to_dict() == {"type": "input_text", "text": "How warm is it?"}
        assert (await items.delete(ids[0], conversation_id=conversation.id)).id == conversation.id
        with pytest.raises(openai.NotFoundError):
            await items.retrieve(ids[0], conversation_id=conversation.id)
        with pytest.raises(openai.NotFoundError):
            await items.delete(ids[0], conversation_id=conversation.id)
        assert await list_ids(client, conversation.id, order="asc") == ids[1:]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("store", [False, True])
async def test_a_response_continues_its_conversation(
    tmp_path: Path, stream: bool, store: bool
) -> None:
    async with scripted_client(tmp_path, send_frames(HELLO_WORLD)) as (client, setup):
        conversation = await client.conversations.create(items=ITEMS[:1])
        for text in ("And tomorrow?", "And later?"):
            answer: Any = await client.responses.create(
                model="up/m", input=text, conversation=conversation.id, stream=stream, store=store
            )
            if stream:
                answer = [event async for event in answer][-1].response
            assert answer.conversation.id == conversation.id
            assert answer.store is store
        texts = [message["content"] for message in setup.upstream.requests[-1].body["messages"]]
        assert texts == [
            "How warm is it?",
            "And tomorrow?",
            "Hello, world",
            "And later?",
        ]
        listed = client.conversations.items.list(conversation.id, order="asc")
        roles = [getattr(item, "role", "") async for item in listed]
        assert roles == ["user", "user", "assistant", "user", "assistant"]


async def test_a_response_that_continues_one_of_a_conversation_has_its_history(
    tmp_path: Path,
) -> None:
    """What came into the conversation later does not belong to it."""
    async with scripted_client(tmp_path, send_frames(HELLO_WORLD)) as (client, setup):
        conversation = await client.conversations.create(items=ITEMS[:2])
        first = await client.responses.create(
            model="up/m",
            input=[{"type": "function_call_output", "call_id": "call_1", "output": "7 °C"}],
            conversation=conversation.id,
        )
        await client.conversations.items.create(conversation.id, items=ITEMS[3:4])
        previous, texts = first.id, list[str]()
        for text in ("And tomorrow?", "And later?"):
            answer = await client.responses.create(
                model="up/m", input=text, previous_response_id=previous
            )
            previous = answer.id
            messages = setup.upstream.requests[-1].body["messages"]
            texts = [str(message["content"]) for message in messages if message.get("content")]
        assert texts == [
            "How warm is it?",
            "7 °C",
            "Hello, world",
            "And tomorrow?",
            "Hello, world",
            "And later?",
        ]
        listed = client.responses.input_items.list(previous, order="asc")
        kinds = [item.type async for item in listed]
        assert kinds == ["message", "function_call", "function_call_output", *["message"] * 4]
        await client.conversations.delete(conversation.id)
        await client.responses.create(model="up/m", input="Alone?", previous_response_id=previous)


async def test_a_failed_response_adds_nothing(tmp_path: Path) -> None:
    frames = (chunk({"content": "Hel"}), frame({"error": {"message": "overloaded", "code": 503}}))
    async with scripted_client(tmp_path, send_frames(frames)) as (client, _):
        conversation = await client.conversations.create()
        stream = await client.responses.create(
            model="up/m", input="Hello?", conversation=conversation.id, stream=True
        )
        assert [event.type async for event in stream][-1] == "response.failed"
        assert await list_ids(client, conversation.id) == []


async def test_an_unknown_conversation_is_not_found(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        with pytest.raises(openai.NotFoundError) as caught:
            await client.responses.create(model="echo/echo", input="x", conversation="conv_x")
        assert caught.value.param == "conversation"
        with pytest.raises(openai.BadRequestError) as bad:
            await client.responses.create(
                model="echo/echo", input="x", conversation="c", previous_response_id="r"
            )
        assert bad.value.code == "mutually_exclusive_parameters"


async def test_an_output_of_a_call_that_is_not_in_the_conversation_is_rejected(
    tmp_path: Path,
) -> None:
    async with echo_client(tmp_path) as client:
        conversation = await client.conversations.create(items=ITEMS[:2])

        async def answer(call_id: str) -> None:
            await client.responses.create(
                model="echo/echo",
                input=[{"type": "function_call_output", "call_id": call_id, "output": "7 °C"}],
                conversation=conversation.id,
            )

        await answer("call_1")
        with pytest.raises(openai.BadRequestError):
            await answer("unknown")


@asynccontextmanager
async def two_clients(tmp_path: Path) -> AsyncIterator[tuple[AsyncOpenAI, AsyncOpenAI]]:
    keys = {"alice": "sk-alice-0123456789", "bob": "sk-bob-9876543210"}
    async with (
        running(settings(tmp_path, api_keys=keys)) as gateway,
        openai_client(gateway) as client,
    ):
        yield (
            client.with_options(api_key=keys["alice"]),
            client.with_options(api_key=keys["bob"]),
        )


async def test_a_conversation_does_not_exist_for_another_client(tmp_path: Path) -> None:
    async with two_clients(tmp_path) as (alice, bob):
        conversation = await alice.conversations.create(items=ITEMS[:1])
        [item_id] = await list_ids(alice, conversation.id)
        attempts = (
            bob.conversations.retrieve(conversation.id),
            bob.conversations.update(conversation.id, metadata={}),
            bob.conversations.delete(conversation.id),
            bob.conversations.items.create(conversation.id, items=ITEMS[:1]),
            bob.conversations.items.retrieve(item_id, conversation_id=conversation.id),
            bob.conversations.items.delete(item_id, conversation_id=conversation.id),
            bob.responses.create(model="echo/echo", input="x", conversation=conversation.id),
            list_ids(bob, conversation.id),
        )
        results = await asyncio.gather(*attempts, return_exceptions=True)
        assert [type(result) for result in results] == [openai.NotFoundError] * len(attempts)
        assert await list_ids(alice, conversation.id) == [item_id]


async def test_invalid_requests_name_the_parameter(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        base, http = f"{setup.gateway.base_url}/conversations", setup.gateway.client
        async with http.post(base, json={"items": [ITEMS[0]]}) as response:
            url = f"{base}/{(await response.json())['id']}"
        for path, param in (
            ("/items?limit=0", "limit"),
            ("/items?limit=101", "limit"),
            ("/items?order=up", "order"),
            ("/items?after=msg_unknown", "after"),
            ("/items?include=everything", "include"),
        ):
            async with http.get(url + path) as response:
                assert (response.status, (await response.json())["error"]["param"]) == (400, param)
        large = {"role": "user", "content": [{"type": "input_text", "text": "x"}] * 21}
        for path, body, param in (
            ("", {}, "metadata"),
            ("/items", {}, "items"),
            ("/items", {"items": [ITEMS[0]] * 21}, "items"),
            ("/items", {"items": [large, {"type": "item_reference", "id": "no"}]}, "items[1].id"),
        ):
            async with http.post(url + path, json=body) as response:
                assert (response.status, (await response.json())["error"]["param"]) == (400, param)


async def test_two_responses_at_once_do_not_continue_one_conversation(tmp_path: Path) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        began.set()
        await go_on.wait()
        await send_frames(HELLO_WORLD)(request, connection)

    async with scripted_client(tmp_path, script) as (client, setup):
        conversation = await client.conversations.create()

        async def ask(text: str) -> Any:
            return await client.responses.create(
                model="up/m", input=text, conversation=conversation.id
            )

        first = asyncio.create_task(ask("first"))
        await began.wait()
        with pytest.raises(openai.BadRequestError) as caught:
            await ask("second")
        assert (caught.value.code, caught.value.param) == ("conversation_locked", "conversation")
        go_on.set()
        await first
        await ask("third")
        assert len(setup.upstream.requests) == 2
        assert len(await list_ids(client, conversation.id)) == 4


async def test_a_response_that_fails_before_its_output_releases_the_conversation(
    tmp_path: Path,
) -> None:
    async with scripted_client(tmp_path, send_json(500, {"error": {"message": "no"}})) as (
        client,
        setup,
    ):
        conversation = await client.conversations.create()
        for stream in (False, True, False):
            with pytest.raises(openai.InternalServerError):
                await client.responses.create(
                    model="up/m", input="x", conversation=conversation.id, stream=stream
                )
        assert len(setup.upstream.requests) == 3


async def test_an_item_that_was_put_into_a_conversation_can_be_referred_to(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        base, http = f"{setup.gateway.base_url}/conversations", setup.gateway.client
        first, second = ({"role": "user", "content": text} for text in ("Remember 7.", "And 9."))
        async with http.post(base, json={"items": [first]}) as response:
            url = f"{base}/{(await response.json())['id']}"
        async with http.post(f"{url}/items", json={"items": [second]}) as response:
            assert response.status == 200
        async with http.get(f"{url}/items?order=asc") as response:
            ids = [item["id"] for item in (await response.json())["data"]]
        references = [{"type": "item_reference", "id": id} for id in ids]
        asked = {"role": "user", "content": "Which numbers?"}
        await setup.gateway.stream({"model": "up/m", "input": [*references, asked]})
        sent = setup.upstream.requests[-1].body["messages"]
        texts = [message["content"] for message in sent]
        assert [text for text in ("Remember 7.", "And 9.") if text in str(texts)] == [
            "Remember 7.",
            "And 9.",
        ]
