"""A client that names what was said, instead of repeating it, loses nothing.

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
from tests.support.checked_gateway import Scene, configured, scene
from tests.support.client_answers import Answer, ask
from tests.support.gateways import replaced, running, settings
from tests.support.scripted_providers.anthropic import AnthropicSpeaker
from tests.support.scripted_providers.chat import ChatSpeaker
from tests.support.scripted_providers.gemini import GeminiSpeaker
from tests.support.scripted_providers.responses import ResponsesSpeaker
from tests.support.scripted_providers.scripted_provider import Speaker, native_tail
from tests.support.scripted_providers.session import SESSION, Document, asked, asking, results
from tests.support.upstream import HELLO_WORLD, Asked, Line, Upstream, playing, upstream

HEADER = "antiphon-diagnostics"
UNRESOLVED = "history.reference.unresolved"


def reference(id: str, *, typed: bool = True) -> Document:
    return {"type": "item_reference", "id": id} if typed else {"id": id}


@asynccontextmanager
async def talkative(speaker: Speaker) -> AsyncIterator[Upstream]:
    """A provider that answers turn by turn."""
    turns = iter(SESSION)

    async def script(asked: Asked, line: Line) -> None:
        await line.head(content_type=speaker.content_type)
        await line.send(speaker.streamed(next(turns)))
        await line.end()

    async with upstream(script) as played:
        yield played


PROVIDERS: dict[str, tuple[Speaker, str]] = {
    "deepseek": (ChatSpeaker("deepseek", "tool_turns"), "deepseek-v4-pro"),
    "anthropic": (AnthropicSpeaker(), "claude-sonnet-4-5"),
    "gemini": (GeminiSpeaker(), "gemini-3-pro-preview"),
    "openai": (ResponsesSpeaker(), "gpt-5.4"),
}


def unsealed(item: Document) -> Document:
    """What a client repeats that can carry no seal; its other items it repeats without ids."""
    forgotten = "encrypted_content" if item["type"] == "reasoning" else "id"
    return {name: value for name, value in item.items() if name != forgotten}


REPEATING: dict[str, Callable[[Document], Document]] = {
    "by reference": lambda item: reference(item["id"]),
    "by id alone": lambda item: reference(item["id"], typed=False),
    "without the seal": unsealed,
}


@pytest.mark.parametrize("how", REPEATING)
@pytest.mark.parametrize("kind", PROVIDERS)
async def test_what_is_stored_need_not_be_repeated(tmp_path: Path, kind: str, how: str) -> None:
    speaker, model = PROVIDERS[kind]
    async with talkative(speaker) as played:
        config = replaced(
            settings(tmp_path, played.url),
            providers={"up": ProviderConfig(kind=kind, base_url=played.url, api_keys=["k"])},
            capsule=CapsuleConfig(keys=["a key"]),
        )
        items: list[Document] = []
        output: list[Document] = []
        for place, turn in enumerate(SESSION):
            items += asked(turn) or results(output, SESSION[place - 1])
            async with running(config) as gateway:  # each turn in a gateway of its own
                answer = await ask(gateway, asking(f"up/{model}", items, include=[]))
            assert (answer.status, answer.response["status"]) == (200, "completed"), answer.body
            assert UNRESOLVED not in answer.headers.get(HEADER, "")
            output = answer.response["output"]
            items += [REPEATING[how](item) for item in output]
            raw = played.asked[-1].raw
            assert raw.endswith(native_tail(speaker, SESSION[: place + 1])), raw.decode()


def told(scene: Scene) -> list[tuple[str, str]]:
    """Who said what in the last request."""
    return [(message["role"], message["content"]) for message in scene.sent["messages"]]


def user(text: str, **more: Any) -> Document:
    return {"type": "message", "role": "user", "content": text, **more}


async def posted(scene: Scene, **body: Any) -> Answer:
    return await ask(scene.gateway, {"model": "m", "stream": True, **body})


@asynccontextmanager
async def friendly(tmp_path: Path, url: str = "memory://") -> AsyncIterator[Scene]:
    script = playing(HELLO_WORLD)
    async with configured(tmp_path, script, store=StoreConfig(url=url, ttl_s=100)) as scene:
        yield scene


async def test_what_a_client_said_under_an_id_can_be_referred_to(tmp_path: Path) -> None:
    async with friendly(tmp_path) as scene:
        await posted(scene, input=[user("First.", id="msg_mine")])
        await posted(scene, input=[reference("msg_mine"), user("Second.")])
        assert told(scene) == [("user", "First."), ("user", "Second.")]


async def test_a_thought_is_only_ever_replaced_by_a_thought(tmp_path: Path) -> None:
    async with friendly(tmp_path) as scene:
        await posted(scene, input=[user("First.", id="rs_mine")])
        thought = {"type": "reasoning", "id": "rs_mine", "summary": [], "content": []}
        await posted(scene, input=[thought, user("Second.")])
        assert told(scene) == [("user", "Second.")]


async def test_a_chain_holds_the_items_and_not_the_references(tmp_path: Path) -> None:
    async with friendly(tmp_path) as scene:
        first = (await posted(scene, input="First.")).response
        said = first["output"][0]["id"]
        second = (await posted(scene, input=[reference(said), user("Second.")])).response
        assert await scene.gateway.engine.services.store.delete(first["id"])
        third = await posted(scene, input="Third.", previous_response_id=second["id"])
        assert told(scene) == [
            ("assistant", "Hello, world"),
            ("user", "Second."),
            ("assistant", "Hello, world"),
            ("user", "Third."),
        ]
        assert HEADER not in third.headers
        again = await posted(scene, input=[reference(said), user("Fourth.")])
        assert told(scene) == [("assistant", "Hello, world"), ("user", "Fourth.")]
        assert HEADER not in again.headers


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_what_is_not_here_is_left_out_and_told_with_its_place(
    tmp_path: Path, store: str
) -> None:
    url = "memory://" if store == "memory" else f"sqlite:///{tmp_path / 'turns.db'}"
    async with friendly(tmp_path, url) as scene:
        first = (await posted(scene, input="First.")).response
        known = reference(first["output"][0]["id"])
        unknown = [reference("rs_nowhere"), reference("msg_nowhere", typed=False)]
        answer = await posted(scene, input=[known, unknown[0], user("Second."), unknown[1]])
        assert told(scene) == [("assistant", "Hello, world"), ("user", "Second.")]
        assert answer.headers[HEADER] == f"2; codes={UNRESOLVED}:item_reference"
        [entry] = [entry for entry in scene.gateway.log if entry.event == "response.diagnostics"]
        found = entry.facts["diagnostics"]
        assert found == [f"{UNRESOLVED}:input[{place}]" for place in (1, 3)]


async def test_what_was_not_stored_cannot_be_referred_to(tmp_path: Path) -> None:
    async with friendly(tmp_path) as scene:
        first = (await posted(scene, input="First.", store=False)).response
        said = [reference(item["id"]) for item in first["output"]]
        answer = await posted(scene, input=[*said, user("Second.")])
        assert told(scene) == [("user", "Second.")]
        assert UNRESOLVED in answer.headers[HEADER]


async def test_a_reference_lives_as_long_as_the_turn_of_its_item(tmp_path: Path) -> None:
    now = 1_000_000
    async with upstream(playing(HELLO_WORLD)) as played:
        config = settings(tmp_path, played.url)
        config = replaced(config, store=StoreConfig(url="memory://", ttl_s=100))
        async with running(config, Runtime(now=lambda: now)) as gateway:
            scene = Scene(gateway, played)
            first = (await posted(scene, input="First.")).response
            items = [*(reference(item["id"]) for item in first["output"]), user("Second.")]
            now += 99
            await posted(scene, input=items, store=False)
            assert told(scene) == [("assistant", "Hello, world"), ("user", "Second.")]
            now += 1
            answer = await posted(scene, input=items, store=False)
            assert told(scene) == [("user", "Second.")]
            assert UNRESOLVED in answer.headers[HEADER]


async def test_what_one_client_said_under_an_id_is_no_other_clients_to_refer_to(
    tmp_path: Path,
) -> None:
    """Ids of a client's own choosing are easily guessed; ours are not."""
    keys = {"me": "my-key", "them": "their-key"}
    async with scene(tmp_path, playing(HELLO_WORLD), api_keys=keys) as shared:

        async def sent(client: str, *items: Document) -> str:
            body = {"model": "m", "stream": True, "input": [*items]}
            answer = await ask(shared.gateway, body, authorization=f"Bearer {keys[client]}")
            return answer.headers.get(HEADER, "")

        await sent("them", user("A secret.", id="msg_1"))
        assert UNRESOLVED in await sent("me", reference("msg_1"), user("Repeat that."))
        assert told(shared) == [("user", "Repeat that.")]
        assert UNRESOLVED not in await sent("them", reference("msg_1"), user("Repeat that."))
        assert told(shared) == [("user", "A secret."), ("user", "Repeat that.")]
