"""Item references: stored items can be referenced by id instead of being sent again.

Clients that leave `store` alone send `item_reference` in place of the items of earlier answers. The
provider must get what it would have got had the client repeated all of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import CapsuleConfig, ProviderConfig, StoreConfig
from antiphon.engine.runtime import Runtime
from tests.support.checked_gateway import CheckedGateway, checked_gateway, configured
from tests.support.client_answers import Answer, post_request
from tests.support.gateways import replaced, running, settings
from tests.support.scripted_providers.anthropic import ScriptedAnthropic
from tests.support.scripted_providers.chat import ScriptedChat
from tests.support.scripted_providers.gemini import ScriptedGemini
from tests.support.scripted_providers.responses import ScriptedResponses
from tests.support.scripted_providers.scripted_provider import ScriptedProvider, native_tail
from tests.support.scripted_providers.session import (
    SESSION,
    Document,
    request_body,
    result_items,
    user_items,
)
from tests.support.upstream import (
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Upstream,
    send_frames,
    upstream,
)

HEADER = "antiphon-diagnostics"
UNRESOLVED = "history.reference.unresolved"


def reference(id: str, *, typed: bool = True) -> Document:
    return {"type": "item_reference", "id": id} if typed else {"id": id}


@asynccontextmanager
async def turn_provider(scripted: ScriptedProvider) -> AsyncIterator[Upstream]:
    """Open a provider that answers turn by turn."""
    turns = iter(SESSION)

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(content_type=scripted.content_type)
        await connection.send(scripted.stream_bytes(next(turns)))
        await connection.end()

    async with upstream(script) as server:
        yield server


PROVIDERS: dict[str, tuple[ScriptedProvider, str]] = {
    "deepseek": (ScriptedChat("deepseek", "tool_turns"), "deepseek-v4-pro"),
    "anthropic": (ScriptedAnthropic(), "claude-sonnet-4-5"),
    "gemini": (ScriptedGemini(), "gemini-3-pro-preview"),
    "openai": (ScriptedResponses(), "gpt-5.4"),
}


def plain_items(item: Document) -> Document:
    """Items that have no encrypted state, without ids where they are sent again."""
    forgotten = "encrypted_content" if item["type"] == "reasoning" else "id"
    return {name: value for name, value in item.items() if name != forgotten}


REPEATING: dict[str, Callable[[Document], Document]] = {
    "by reference": lambda item: reference(item["id"]),
    "by id alone": lambda item: reference(item["id"], typed=False),
    "without the seal": plain_items,
}


@pytest.mark.parametrize("how", REPEATING)
@pytest.mark.parametrize("kind", PROVIDERS)
async def test_a_stored_item_can_be_sent_as_a_reference(
    tmp_path: Path, kind: str, how: str
) -> None:
    scripted, model = PROVIDERS[kind]
    async with turn_provider(scripted) as server:
        config = replaced(
            settings(tmp_path, server.url),
            providers={"up": ProviderConfig(kind=kind, base_url=server.url, api_keys=["k"])},
            capsule=CapsuleConfig(keys=["a key"]),
        )
        items: list[Document] = []
        output: list[Document] = []
        for index, turn in enumerate(SESSION):
            items += user_items(turn) or result_items(output, SESSION[index - 1])
            async with running(config) as gateway:  # each turn in a gateway of its own
                answer = await post_request(gateway, request_body(f"up/{model}", items, include=[]))
            assert (answer.status, answer.response["status"]) == (200, "completed"), answer.body
            assert UNRESOLVED not in answer.headers.get(HEADER, "")
            output = answer.response["output"]
            items += [REPEATING[how](item) for item in output]
            raw = server.requests[-1].raw
            assert raw.endswith(native_tail(scripted, SESSION[: index + 1])), raw.decode()


def role_texts(checked_gateway: CheckedGateway) -> list[tuple[str, str]]:
    """Role and text of each message in the last request."""
    return [
        (message["role"], message["content"]) for message in checked_gateway.last_body["messages"]
    ]


def user(text: str, **more: Any) -> Document:
    return {"type": "message", "role": "user", "content": text, **more}


async def post_items(checked_gateway: CheckedGateway, **body: Any) -> Answer:
    return await post_request(checked_gateway.gateway, {"model": "m", "stream": True, **body})


@asynccontextmanager
async def reference_gateway(
    tmp_path: Path, url: str = "memory://"
) -> AsyncIterator[CheckedGateway]:
    script = send_frames(HELLO_WORLD)
    async with configured(
        tmp_path, script, store=StoreConfig(url=url, ttl_s=100)
    ) as checked_gateway:
        yield checked_gateway


async def test_an_input_item_with_an_id_can_be_referenced(tmp_path: Path) -> None:
    async with reference_gateway(tmp_path) as checked_gateway:
        await post_items(checked_gateway, input=[user("First.", id="msg_mine")])
        await post_items(checked_gateway, input=[reference("msg_mine"), user("Second.")])
        assert role_texts(checked_gateway) == [("user", "First."), ("user", "Second.")]


async def test_a_reasoning_reference_resolves_only_to_reasoning(tmp_path: Path) -> None:
    async with reference_gateway(tmp_path) as checked_gateway:
        await post_items(checked_gateway, input=[user("First.", id="rs_mine")])
        thought = {"type": "reasoning", "id": "rs_mine", "summary": [], "content": []}
        await post_items(checked_gateway, input=[thought, user("Second.")])
        assert role_texts(checked_gateway) == [("user", "Second.")]


async def test_a_stored_turn_has_the_items_and_not_the_references(tmp_path: Path) -> None:
    async with reference_gateway(tmp_path) as checked_gateway:
        first = (await post_items(checked_gateway, input="First.")).response
        references = first["output"][0]["id"]
        second = (
            await post_items(checked_gateway, input=[reference(references), user("Second.")])
        ).response
        assert await checked_gateway.gateway.engine.services.store.delete(
            first["id"], client="local"
        )
        third = await post_items(checked_gateway, input="Third.", previous_response_id=second["id"])
        assert role_texts(checked_gateway) == [
            ("assistant", "Hello, world"),
            ("user", "Second."),
            ("assistant", "Hello, world"),
            ("user", "Third."),
        ]
        assert HEADER not in third.headers
        again = await post_items(checked_gateway, input=[reference(references), user("Fourth.")])
        assert role_texts(checked_gateway) == [
            ("assistant", "Hello, world"),
            ("user", "Fourth."),
        ]
        assert HEADER not in again.headers


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_an_unresolved_reference_is_refused_and_nothing_is_sent(
    tmp_path: Path, store: str
) -> None:
    url = "memory://" if store == "memory" else f"sqlite:///{tmp_path / 'turns.db'}"
    async with reference_gateway(tmp_path, url) as checked_gateway:
        first = (await post_items(checked_gateway, input="First.")).response
        known = reference(first["output"][0]["id"])
        for unknown in (reference("rs_nowhere"), reference("msg_nowhere", typed=False)):
            answer = await post_items(checked_gateway, input=[known, unknown, user("Second.")])
            assert (answer.status, answer.error["param"]) == (400, "input[1].id")
        assert len(checked_gateway.upstream.requests) == 1


async def test_an_item_that_was_not_stored_cannot_be_referenced(tmp_path: Path) -> None:
    async with reference_gateway(tmp_path) as checked_gateway:
        first = (await post_items(checked_gateway, input="First.", store=False)).response
        references = [reference(item["id"]) for item in first["output"]]
        answer = await post_items(checked_gateway, input=[*references, user("Second.")])
        assert (answer.status, answer.error["param"]) == (400, "input[0].id")


async def test_a_reference_is_valid_as_long_as_the_turn_of_its_item(tmp_path: Path) -> None:
    now = 1_000_000
    async with upstream(send_frames(HELLO_WORLD)) as server:
        config = settings(tmp_path, server.url)
        config = replaced(config, store=StoreConfig(url="memory://", ttl_s=100))
        async with running(config, Runtime(now=lambda: now)) as gateway:
            checked_gateway = CheckedGateway(gateway, server)
            first = (await post_items(checked_gateway, input="First.")).response
            items = [*(reference(item["id"]) for item in first["output"]), user("Second.")]
            now += 99
            await post_items(checked_gateway, input=items, store=False)
            assert role_texts(checked_gateway) == [
                ("assistant", "Hello, world"),
                ("user", "Second."),
            ]
            now += 1
            answer = await post_items(checked_gateway, input=items, store=False)
            assert (answer.status, answer.error["param"]) == (400, "input[0].id")


async def test_input_items_of_another_client_cannot_be_referenced(
    tmp_path: Path,
) -> None:
    """Ids chosen by a client are easily guessed; ours are not."""
    keys = {"me": "my-key", "them": "their-key"}
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD), api_keys=keys) as shared:

        async def sent(client: str, *items: Document) -> int:
            body = {"model": "m", "stream": True, "input": [*items]}
            answer = await post_request(
                shared.gateway, body, authorization=f"Bearer {keys[client]}"
            )
            return answer.status

        await sent("them", user("A secret.", id="msg_1"))
        assert await sent("me", reference("msg_1"), user("Repeat that.")) == 400
        assert await sent("them", reference("msg_1"), user("Repeat that.")) == 200
        assert role_texts(shared) == [("user", "A secret."), ("user", "Repeat that.")]
