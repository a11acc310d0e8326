"""Images on models that take none: another model describes them, once, or a marker stands in."""

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
from tests.support.waiting import until

PICTURE = "data:image/png;base64,iVBORw0KGgo="
OTHER_PICTURE = "https://x.test/other.png"
MARKER = "[image omitted: this model takes no images]"
WRONG = {"error": {"message": "Could not process image", "code": "invalid_image"}}


def image(url: str = PICTURE) -> Document:
    return {"type": "input_image", "image_url": url}


def shown(*urls: str) -> list[Document]:
    words = {"type": "input_text", "text": "Look:"}
    return [{"role": "user", "content": [words, *map(image, urls)]}]


def described(words: str) -> str:
    return f"[image: not shown, but described by another model: {words}]"


class Cast:
    """A model that sees and one that does not. What the first one saw is counted in its words."""

    def __init__(self, seeing: Script | None = None) -> None:
        self.looks: list[str] = []
        self.looking = asyncio.Event()
        self.heard: list[str] = []
        self.seeing = seeing

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        said = json.dumps(request.body["messages"])
        if request.body["model"] != "eyes":
            self.heard.append(said)
            await send_json(200, whole_answer("Fine."))(request, connection)
            return
        self.looks.append(said)
        self.looking.set()
        seeing = self.seeing or send_json(200, whole_answer(f"Look {len(self.looks)}."))
        await seeing(request, connection)


@asynccontextmanager
async def theatre(
    tmp_path: Path, script: Script, **vision: Any
) -> AsyncIterator[tuple[CheckedGateway, Upstream]]:
    async with upstream(script) as played:
        entry = ProviderConfig(
            kind="chat",
            base_url=played.url,
            api_keys=["k"],
            models={"blind": ModelConfig(inputs=["text"]), "eyes": ModelConfig(inputs=["image"])},
        )
        config = replaced(
            settings(tmp_path, played.url),
            providers={"up": entry},
            vision=VisionConfig(model="eyes", **vision),
        )
        async with running(config) as gateway:
            yield CheckedGateway(gateway, played), played


def seen_by(cast: Cast, turn: int = -1) -> Callable[[str], bool]:
    """Whether the model that sees nothing read these words."""
    return lambda words: words in cast.heard[turn]


async def test_a_description_stands_in_for_an_image(tmp_path: Path) -> None:
    cast = Cast()
    async with theatre(tmp_path, cast) as (scene, _):
        status, headers, document = await scene.post(model="blind", input=shown(PICTURE))
    assert (status, text(document)) == (200, "Fine.")
    assert seen_by(cast)(described("Look 1."))
    assert PICTURE not in cast.heard[0]
    assert PICTURE in cast.looks[0]
    assert headers["antiphon-diagnostics"] == "1; codes=history.image.described:message"


async def test_a_stream_reads_the_same_description(tmp_path: Path) -> None:
    cast = Cast()
    async with theatre(tmp_path, cast) as (scene, _):
        await scene.post(model="blind", input=shown(PICTURE))
        await scene.gateway.stream({"model": "blind", "input": shown(PICTURE)})
    assert len(cast.looks) == 1
    assert cast.heard[0] == cast.heard[1]


async def test_an_image_is_looked_at_once_and_reads_the_same_on_every_turn(tmp_path: Path) -> None:
    cast = Cast()
    async with theatre(tmp_path, cast) as (scene, _):
        first = await scene.whole(model="blind", input=shown(PICTURE))
        await scene.whole(model="blind", input="And?", previous_response_id=first["id"])
        await scene.whole(model="blind", input=shown(OTHER_PICTURE, PICTURE))
    assert len(cast.looks) == 2
    assert all(seen_by(cast, turn)(described("Look 1.")) for turn in range(3))
    assert seen_by(cast, 2)(described("Look 2."))


async def test_requests_at_the_same_time_share_one_look(tmp_path: Path) -> None:
    let_go = asyncio.Event()

    async def slowly(request: ReceivedRequest, connection: Connection) -> None:
        await let_go.wait()
        await send_json(200, whole_answer("A red door."))(request, connection)

    cast = Cast(slowly)
    async with theatre(tmp_path, cast) as (scene, _):
        asking = [
            asyncio.create_task(scene.whole(model="blind", input=shown(PICTURE, PICTURE)))
            for _ in range(3)
        ]
        await asyncio.wait_for(cast.looking.wait(), 10)
        let_go.set()
        await asyncio.gather(*asking)
    assert len(cast.looks) == 1
    assert all(seen_by(cast, turn)(described("A red door.")) for turn in range(3))


async def test_an_image_in_a_tools_answer_is_described_in_its_place(tmp_path: Path) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "view", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": [image()]}
    cast = Cast()
    async with theatre(tmp_path, cast) as (scene, played):
        await scene.whole(model="blind", input=[call, output])
        answered = [m for m in played.requests[-1].body["messages"] if m["role"] == "tool"]
    assert [message["content"] for message in answered] == [described("Look 1.")]


async def test_a_model_that_sees_is_shown_the_image_itself(tmp_path: Path) -> None:
    cast = Cast()
    async with theatre(tmp_path, cast) as (scene, _):
        await scene.whole(model="eyes", input=shown(PICTURE))
    assert len(cast.looks) == 1
    assert "Look:" in cast.looks[0]


async def test_a_request_without_images_asks_nobody_else(tmp_path: Path) -> None:
    cast = Cast()
    async with theatre(tmp_path, cast) as (scene, _):
        await scene.whole(model="blind", input="Hello?")
    assert cast.looks == []


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
async def test_a_look_that_fails_leaves_the_marker(
    tmp_path: Path, seeing: Script, looks: int
) -> None:
    cast = Cast(seeing)
    async with theatre(tmp_path, cast) as (scene, _):
        for _ in range(2):
            _, headers, document = await scene.post(model="blind", input=shown(PICTURE))
            assert text(document) == "Fine."
            assert headers["antiphon-diagnostics"] == "1; codes=history.image.replaced:message"
    assert cast.heard[0] == cast.heard[1]
    assert seen_by(cast)(MARKER)
    assert len(cast.looks) == looks


async def test_what_cannot_be_looked_at_today_is_looked_at_tomorrow(tmp_path: Path) -> None:
    cast = Cast(send_json(503, {"error": {"message": "overloaded"}}))
    async with theatre(tmp_path, cast) as (scene, _):
        await scene.whole(model="blind", input=shown(PICTURE))
        cast.seeing = None
        await scene.whole(model="blind", input=shown(PICTURE))
    assert seen_by(cast)(described("Look 2."))


async def test_a_look_that_takes_too_long_is_not_waited_for(tmp_path: Path) -> None:
    async def never(request: ReceivedRequest, connection: Connection) -> None:
        await connection.wait_disconnected()

    cast = Cast(never)
    async with theatre(tmp_path, cast, timeout_s=0.05) as (scene, _):
        await scene.whole(model="blind", input=shown(PICTURE))
    assert seen_by(cast)(MARKER)


async def test_what_was_not_used_for_longest_is_forgotten_first(tmp_path: Path) -> None:
    cast = Cast()
    first, second, third = (f"https://x.test/{number}" for number in range(3))
    async with theatre(tmp_path, cast, cache_entries=2) as (scene, _):
        for url in (first, second, first, third, first, second):
            await scene.whole(model="blind", input=shown(url))
    looked = [url for look in cast.looks for url in (first, second, third) if url in look]
    assert looked == [first, second, third, second]


async def test_more_images_than_are_remembered_are_all_described(tmp_path: Path) -> None:
    cast = Cast()
    async with theatre(tmp_path, cast, cache_entries=1) as (scene, _):
        await scene.whole(model="blind", input=shown(PICTURE, OTHER_PICTURE))
    assert seen_by(cast)(described("Look 1."))
    assert seen_by(cast)(described("Look 2."))


async def test_a_client_that_leaves_does_not_take_the_look_away(tmp_path: Path) -> None:
    let_go = asyncio.Event()

    async def slowly(request: ReceivedRequest, connection: Connection) -> None:
        await let_go.wait()
        await send_json(200, whole_answer("A red door."))(request, connection)

    cast = Cast(slowly)
    async with theatre(tmp_path, cast) as (scene, _):
        leaving = asyncio.create_task(scene.whole(model="blind", input=shown(PICTURE)))
        await asyncio.wait_for(cast.looking.wait(), 10)
        leaving.cancel()
        staying = asyncio.create_task(scene.whole(model="blind", input=shown(PICTURE)))
        let_go.set()
        await staying
    assert len(cast.looks) == 1
    assert seen_by(cast)(described("A red door."))


async def test_a_fallback_without_eyes_is_not_believed(tmp_path: Path) -> None:
    cast = Cast(send_json(401, {"error": {"message": "wrong key"}}))
    async with upstream(cast) as played:
        blind = {"blind": ModelConfig(inputs=["text"])}
        config = replaced(
            settings(tmp_path, played.url),
            providers={
                "up": ProviderConfig(kind="chat", base_url=played.url, models=blind),
                "sight": ProviderConfig(kind="chat", base_url=played.url),
            },
            fallbacks={"sight/eyes": ["up/blind"]},
            attempts=AttemptConfig(max_attempts=2, backoff_s=0),
            vision=VisionConfig(model="sight/eyes"),
        )
        async with running(config) as gateway:
            await CheckedGateway(gateway, played).whole(model="blind", input=shown(PICTURE))
    assert [MARKER in said for said in cast.heard] == [True, True]
    assert "Look:" in cast.heard[-1]
    assert "Fine." not in cast.heard[-1]


async def test_looking_is_logged_under_our_own_name(tmp_path: Path) -> None:
    async with theatre(tmp_path, Cast()) as (scene, _):
        await scene.whole(model="blind", input=shown(PICTURE))
        finished = [each for each in scene.gateway.log if each.event == "response.finished"]
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
async def test_a_model_that_cannot_look_is_a_mistake_in_the_file(
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


def pictures(count: int) -> list[str]:
    return [f"https://x.test/{number}.png" for number in range(count)]


async def test_a_request_with_many_images_begins_a_few_looks_with_the_newest(
    tmp_path: Path,
) -> None:
    cast = Cast()
    async with theatre(tmp_path, cast) as (scene, _):
        await scene.whole(model="blind", input=shown(*pictures(500)))
        seen = [url for url in pictures(500) if any(f"{url}" in look for look in cast.looks)]
        assert seen == pictures(500)[-20:]
        assert cast.heard[0].count(MARKER) == 480
        await scene.whole(model="blind", input=shown(*pictures(25)[-5:], *pictures(500)[-20:]))
    assert len(cast.looks) == 25
    assert MARKER not in cast.heard[1]


def _are_under_way(count: int) -> bool:
    return len(asyncio.all_tasks()) >= count


async def test_there_are_never_many_looks_under_way(tmp_path: Path) -> None:
    """Even if whoever asked for them has long gone."""
    let_go = asyncio.Event()

    async def slowly(request: ReceivedRequest, connection: Connection) -> None:
        await let_go.wait()
        await send_json(200, whole_answer("Seen."))(request, connection)

    cast = Cast(slowly)
    async with theatre(tmp_path, cast) as (scene, _):
        for place in range(0, 100, 20):
            asked = scene.whole(model="blind", input=shown(*pictures(100)[place : place + 20]))
            enough = len(asyncio.all_tasks()) + 20
            leaving = asyncio.create_task(asked)
            await until(partial(_are_under_way, enough), "20 looks more")
            leaving.cancel()
        await scene.whole(model="blind", input=shown(PICTURE))  # without waiting for anybody
        assert MARKER in cast.heard[-1]
        let_go.set()
        await scene.whole(model="blind", input=shown(*pictures(100)))
    assert cast.heard[-1].count(described("Seen.")) == 100
    assert len(cast.looks) == 100
