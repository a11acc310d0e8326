"""Images for models without image input: replaced by a description or a placeholder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import AttemptConfig, ModelConfig, ProviderConfig, VisionConfig
from antiphon.errors import ConfigError
from tests.support.checked_gateway import CheckedGateway, Document, text
from tests.support.gateways import Running, replaced, running, settings
from tests.support.upstream import (
    Connection,
    ReceivedRequest,
    Script,
    Upstream,
    send_json,
    upstream,
    whole_answer,
)
from tests.support.waiting import LIMIT_S, until

PICTURE = "data:image/png;base64,iVBORw0KGgo="
OTHER_PICTURE = "https://x.test/other.png"
MARKER = "[image omitted: this model takes no images]"
WRONG = {"error": {"message": "Could not process image", "code": "invalid_image"}}


def image(url: str = PICTURE) -> Document:
    return {"type": "input_image", "image_url": url}


def message_with_images(*urls: str) -> list[Document]:
    words = {"type": "input_text", "text": "Look:"}
    return [{"role": "user", "content": [words, *map(image, urls)]}]


def description_text(words: str) -> str:
    return f"[image: not shown, but described by another model: {words}]"


class VisionProvider:
    """A vision model and a text model. Descriptions are numbered by the vision model."""

    def __init__(self, seeing: Script | None = None) -> None:
        self.described_images: list[str] = []
        self.description_started = asyncio.Event()
        self.received_prompts: list[str] = []
        self.script = seeing

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        prompt = json.dumps(request.body["messages"])
        if request.body["model"] != "eyes":
            self.received_prompts.append(prompt)
            await send_json(200, whole_answer("Fine."))(request, connection)
            return
        self.described_images.append(prompt)
        self.description_started.set()
        seeing = self.script or send_json(200, whole_answer(f"Look {len(self.described_images)}."))
        await seeing(request, connection)


@asynccontextmanager
async def vision_gateway(
    tmp_path: Path, script: Script, **vision: Any
) -> AsyncIterator[tuple[CheckedGateway, Upstream]]:
    async with upstream(script) as server:
        entry = ProviderConfig(
            kind="chat",
            base_url=server.url,
            api_keys=["k"],
            models={"blind": ModelConfig(inputs=["text"]), "eyes": ModelConfig(inputs=["image"])},
        )
        config = replaced(
            settings(tmp_path, server.url),
            providers={"up": entry},
            vision=VisionConfig(model="eyes", **vision),
        )
        async with running(config) as gateway:
            yield CheckedGateway(gateway, server), server


def prompt_contains(provider: VisionProvider, turn: int = -1) -> Callable[[str], bool]:
    """Whether the prompt of the text model contains these words."""
    return lambda words: words in provider.received_prompts[turn]


async def test_an_image_is_replaced_by_its_description(tmp_path: Path) -> None:
    provider = VisionProvider()
    async with vision_gateway(tmp_path, provider) as (setup, _):
        status, headers, document = await setup.post(
            model="blind", input=message_with_images(PICTURE)
        )
    assert (status, text(document)) == (200, "Fine.")
    assert prompt_contains(provider)(description_text("Look 1."))
    assert PICTURE not in provider.received_prompts[0]
    assert PICTURE in provider.described_images[0]
    assert headers["antiphon-diagnostics"] == "1; codes=history.image.described:message"


async def test_a_streamed_request_gets_the_same_description(tmp_path: Path) -> None:
    provider = VisionProvider()
    async with vision_gateway(tmp_path, provider) as (setup, _):
        await setup.post(model="blind", input=message_with_images(PICTURE))
        await setup.gateway.stream({"model": "blind", "input": message_with_images(PICTURE)})
    assert len(provider.described_images) == 1
    assert provider.received_prompts[0] == provider.received_prompts[1]


async def test_an_image_is_described_once_for_all_turns(tmp_path: Path) -> None:
    provider = VisionProvider()
    async with vision_gateway(tmp_path, provider) as (setup, _):
        first = await setup.whole(model="blind", input=message_with_images(PICTURE))
        await setup.whole(model="blind", input="And?", previous_response_id=first["id"])
        await setup.whole(model="blind", input=message_with_images(OTHER_PICTURE, PICTURE))
    assert len(provider.described_images) == 2
    assert all(prompt_contains(provider, turn)(description_text("Look 1.")) for turn in range(3))
    assert prompt_contains(provider, 2)(description_text("Look 2."))


async def test_concurrent_requests_share_one_description(tmp_path: Path) -> None:
    let_go = asyncio.Event()

    async def slowly(request: ReceivedRequest, connection: Connection) -> None:
        await let_go.wait()
        await send_json(200, whole_answer("A red door."))(request, connection)

    provider = VisionProvider(slowly)
    async with vision_gateway(tmp_path, provider) as (setup, _):
        asking = [
            asyncio.create_task(
                setup.whole(model="blind", input=message_with_images(PICTURE, PICTURE))
            )
            for _ in range(3)
        ]
        await asyncio.wait_for(provider.description_started.wait(), LIMIT_S)
        let_go.set()
        await asyncio.gather(*asking)
    assert len(provider.described_images) == 1
    assert all(
        prompt_contains(provider, turn)(description_text("A red door.")) for turn in range(3)
    )


async def test_an_image_in_a_tool_output_is_described_in_place(tmp_path: Path) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "view", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": [image()]}
    provider = VisionProvider()
    async with vision_gateway(tmp_path, provider) as (setup, server):
        await setup.whole(model="blind", input=[call, output])
        answered = [m for m in server.requests[-1].body["messages"] if m["role"] == "tool"]
    assert [message["content"] for message in answered] == [description_text("Look 1.")]


async def test_a_model_with_image_input_gets_the_image(tmp_path: Path) -> None:
    provider = VisionProvider()
    async with vision_gateway(tmp_path, provider) as (setup, _):
        await setup.whole(model="eyes", input=message_with_images(PICTURE))
    assert len(provider.described_images) == 1
    assert "Look:" in provider.described_images[0]


async def test_a_request_without_images_needs_no_description(tmp_path: Path) -> None:
    provider = VisionProvider()
    async with vision_gateway(tmp_path, provider) as (setup, _):
        await setup.whole(model="blind", input="Hello?")
    assert provider.described_images == []


# --- when nobody can say --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seeing", "looks"),
    [
        (send_json(503, {"error": {"message": "overloaded"}}), 2),
        (send_json(401, {"error": {"message": "wrong key"}}), 2),
        (send_json(200, whole_answer("")), 2),
        (send_json(400, WRONG), 1),  # it will not get better by asking again
    ],
    ids=["overloaded", "locked", "wordless", "a bad image"],
)
async def test_a_failed_description_leaves_the_placeholder(
    tmp_path: Path, seeing: Script, looks: int
) -> None:
    provider = VisionProvider(seeing)
    async with vision_gateway(tmp_path, provider) as (setup, _):
        for _ in range(2):
            _, headers, document = await setup.post(
                model="blind", input=message_with_images(PICTURE)
            )
            assert text(document) == "Fine."
            assert headers["antiphon-diagnostics"] == "1; codes=history.image.replaced:message"
    assert provider.received_prompts[0] == provider.received_prompts[1]
    assert prompt_contains(provider)(MARKER)
    assert len(provider.described_images) == looks


async def test_a_description_that_failed_is_retried_on_a_later_turn(tmp_path: Path) -> None:
    provider = VisionProvider(send_json(503, {"error": {"message": "overloaded"}}))
    async with vision_gateway(tmp_path, provider) as (setup, _):
        await setup.whole(model="blind", input=message_with_images(PICTURE))
        provider.script = None
        await setup.whole(model="blind", input=message_with_images(PICTURE))
    assert prompt_contains(provider)(description_text("Look 2."))


async def test_a_slow_description_is_not_awaited(tmp_path: Path) -> None:
    async def never(request: ReceivedRequest, connection: Connection) -> None:
        await connection.wait_disconnected()

    provider = VisionProvider(never)
    async with vision_gateway(tmp_path, provider, timeout_s=0.05) as (setup, _):
        await setup.whole(model="blind", input=message_with_images(PICTURE))
    assert prompt_contains(provider)(MARKER)


async def test_the_least_recently_used_description_is_evicted(tmp_path: Path) -> None:
    provider = VisionProvider()
    first, second, third = (f"https://x.test/{number}" for number in range(3))
    async with vision_gateway(tmp_path, provider, cache_entries=2) as (setup, _):
        for url in (first, second, first, third, first, second):
            await setup.whole(model="blind", input=message_with_images(url))
    looked = [
        url for look in provider.described_images for url in (first, second, third) if url in look
    ]
    assert looked == [first, second, third, second]


async def test_more_images_than_cache_entries_are_all_described(tmp_path: Path) -> None:
    provider = VisionProvider()
    async with vision_gateway(tmp_path, provider, cache_entries=1) as (setup, _):
        await setup.whole(model="blind", input=message_with_images(PICTURE, OTHER_PICTURE))
    assert prompt_contains(provider)(description_text("Look 1."))
    assert prompt_contains(provider)(description_text("Look 2."))


async def test_a_client_disconnect_does_not_cancel_a_description(tmp_path: Path) -> None:
    let_go = asyncio.Event()

    async def slowly(request: ReceivedRequest, connection: Connection) -> None:
        await let_go.wait()
        await send_json(200, whole_answer("A red door."))(request, connection)

    provider = VisionProvider(slowly)
    async with vision_gateway(tmp_path, provider) as (setup, _):
        leaving = asyncio.create_task(
            setup.whole(model="blind", input=message_with_images(PICTURE))
        )
        await asyncio.wait_for(provider.description_started.wait(), LIMIT_S)
        leaving.cancel()
        staying = asyncio.create_task(
            setup.whole(model="blind", input=message_with_images(PICTURE))
        )
        let_go.set()
        await staying
    assert len(provider.described_images) == 1
    assert prompt_contains(provider)(description_text("A red door."))


async def test_a_description_by_a_fallback_without_image_input_is_discarded(tmp_path: Path) -> None:
    provider = VisionProvider(send_json(401, {"error": {"message": "wrong key"}}))
    async with upstream(provider) as server:
        blind = {"blind": ModelConfig(inputs=["text"])}
        config = replaced(
            settings(tmp_path, server.url),
            providers={
                "up": ProviderConfig(kind="chat", base_url=server.url, models=blind),
                "sight": ProviderConfig(kind="chat", base_url=server.url),
            },
            fallbacks={"sight/eyes": ["up/blind"]},
            attempts=AttemptConfig(max_attempts=2, backoff_s=0),
            vision=VisionConfig(model="sight/eyes"),
        )
        async with running(config) as gateway:
            await CheckedGateway(gateway, server).whole(
                model="blind", input=message_with_images(PICTURE)
            )
    assert [MARKER in prompt for prompt in provider.received_prompts] == [True, True]
    assert "Look:" in provider.received_prompts[-1]
    assert "Fine." not in provider.received_prompts[-1]


async def test_descriptions_are_logged_as_requests_of_the_gateway(tmp_path: Path) -> None:
    async with vision_gateway(tmp_path, VisionProvider()) as (setup, _):
        await setup.whole(model="blind", input=message_with_images(PICTURE))
        finished = [each for each in setup.gateway.log if each.event == "response.finished"]
    assert [(each.facts["client"], each.facts["model"]) for each in finished] == [
        ("antiphon", "eyes"),
        ("local", "blind"),
    ]


# --- mistakes in the file -------------------------------------------------------------------------


async def started(config: Any) -> Running:
    async with running(config) as gateway:
        return gateway


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("blind", "vision.model: 'blind' takes no images"),
        ("nobody/nothing", "vision.model: The model 'nobody/nothing' does not exist"),
    ],
)
async def test_a_vision_model_without_image_input_is_a_configuration_error(
    tmp_path: Path, model: str, words: str
) -> None:
    models = {"blind": ModelConfig(inputs=["text"])}
    entry = ProviderConfig(kind="chat", base_url="http://127.0.0.1:9", models=models)
    config = replaced(
        settings(tmp_path, "http://127.0.0.1:9"),
        providers={"up": entry},
        vision=VisionConfig(model=model),
    )
    with pytest.raises(ConfigError) as caught:
        await started(config)
    assert caught.value.message.startswith(words)


# --- what a request may cost ------------------------------------------------------------------


def image_urls(count: int) -> list[str]:
    return [f"https://x.test/{number}.png" for number in range(count)]


async def test_a_request_with_many_images_describes_only_the_newest(
    tmp_path: Path,
) -> None:
    provider = VisionProvider()
    async with vision_gateway(tmp_path, provider) as (setup, _):
        await setup.whole(model="blind", input=message_with_images(*image_urls(500)))
        seen = [
            url
            for url in image_urls(500)
            if any(f"{url}" in look for look in provider.described_images)
        ]
        assert seen == image_urls(500)[-20:]
        assert provider.received_prompts[0].count(MARKER) == 480
        await setup.whole(
            model="blind", input=message_with_images(*image_urls(25)[-5:], *image_urls(500)[-20:])
        )
    assert len(provider.described_images) == 25
    assert MARKER not in provider.received_prompts[1]


def _count_in_progress(count: int) -> bool:
    return len(asyncio.all_tasks()) >= count


async def test_concurrent_descriptions_are_limited(tmp_path: Path) -> None:
    """Even if the clients have disconnected."""
    let_go = asyncio.Event()

    async def slowly(request: ReceivedRequest, connection: Connection) -> None:
        await let_go.wait()
        await send_json(200, whole_answer("Seen."))(request, connection)

    provider = VisionProvider(slowly)
    async with vision_gateway(tmp_path, provider) as (setup, _):
        for index in range(0, 100, 20):
            pending = setup.whole(
                model="blind", input=message_with_images(*image_urls(100)[index : index + 20])
            )
            enough = len(asyncio.all_tasks()) + 20
            leaving = asyncio.create_task(pending)
            await until(partial(_count_in_progress, enough), "20 looks more")
            leaving.cancel()
        await setup.whole(
            model="blind", input=message_with_images(PICTURE)
        )  # without waiting for anybody
        assert MARKER in provider.received_prompts[-1]
        let_go.set()
        await setup.whole(model="blind", input=message_with_images(*image_urls(100)))
    assert provider.received_prompts[-1].count(description_text("Seen.")) == 100
    assert len(provider.described_images) == 100
