"""Unit tests of stage plugins."""

from __future__ import annotations

import asyncio
import json
import re
from importlib.metadata import EntryPoint

import pytest
from msgspec.structs import replace

import antiphon
from antiphon.config import Config, PipelineConfig, ProviderConfig
from antiphon.core.events import Completed
from antiphon.errors import ConfigError
from antiphon.server.wiring import GROUP, load_stages
from antiphon.stages.builtin import PersistStage
from antiphon.stages.change_text import change_text
from antiphon.stages.pipeline import Batch, Stage, with_terminal
from tests.support.upstream import (
    DONE,
    Connection,
    ReceivedRequest,
    Upstream,
    chunk,
    send_frames,
    send_json,
    upstream,
    whole_answer,
)

PERSIST = EntryPoint("keep", "antiphon.stages.builtin:PersistStage", GROUP)
BROKEN = EntryPoint("broken", "antiphon.nothing:Stage", GROUP)
NO_STAGE = EntryPoint("object", "builtins:object", GROUP)


def config(*names: str) -> Config:
    return Config(pipeline=PipelineConfig(stages=[*names]))


def test_only_named_stages_are_loaded() -> None:
    assert load_stages(config(), [PERSIST, BROKEN]) == []
    [make] = load_stages(config("keep"), [PERSIST, BROKEN])
    assert isinstance(make(), PersistStage)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("kept", "there is no stage 'kept'; did you mean 'keep'?"),
        ("broken", "the stage 'broken' (antiphon.nothing:Stage) cannot be loaded"),
        ("object", "it does not make a Stage"),
    ],
)
def test_a_stage_that_cannot_be_used_is_an_error_of_the_configuration(
    name: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_stages(config(name), [PERSIST, BROKEN, NO_STAGE])
    assert "pipeline.stages" in caught.value.message
    assert reason in caught.value.message


def test_without_any_package_the_message_says_so() -> None:
    with pytest.raises(ConfigError, match="no package with a stage is installed"):
        load_stages(config("keep"), [])


class SignatureStage(Stage):
    """Adds a name to the metadata of every completed response."""

    def on_terminal(self, batch: Batch) -> Batch:
        last = batch.events[-1]
        if not isinstance(last, Completed):
            return batch
        metadata = {**last.response.metadata, "signed_by": "tests"}
        response = replace(last.response, metadata=metadata)
        return with_terminal(batch, Completed(response))


async def test_a_stage_of_the_caller_changes_what_is_sent_and_saved() -> None:
    async with antiphon.open(environment={}, stages=[SignatureStage]) as gateway:
        response = await gateway.create(model="echo/echo", input="Hello")
    assert response["metadata"] == {"signed_by": "tests"}


class MaskUmlauts(Stage):
    """Replaces every umlaut of the text: ids have none."""

    def feed(self, batch: Batch) -> Batch:
        events = [change_text(event, mask) for event in batch.events]
        return replace(batch, events=events)


def mask(text: str) -> str:
    return re.sub("[äöü]", "•", text)


FRAMES = (chunk({"content": "Grüße, "}), chunk({"content": "schöne"}), chunk({}, "stop"), DONE)
MASKED = "Gr•ße, sch•ne"


def config_for(server: Upstream) -> Config:
    return Config(providers={"up": ProviderConfig(kind="chat", base_url=server.url)})


async def test_a_stage_that_changes_text_sees_a_whole_response() -> None:
    script = send_json(200, whole_answer("Grüße, schöne"))
    async with (
        upstream(script) as server,
        antiphon.open(config_for(server), stages=[MaskUmlauts]) as gateway,
    ):
        response = await gateway.create(model="up/m", input="Hello")
    assert antiphon.output_text(response) == MASKED
    assert response["output_text"] == MASKED


@pytest.mark.parametrize("is_paced", [False, True], ids=["one-read", "paced"])
async def test_a_stage_that_changes_text_sees_every_event_of_a_stream(*, is_paced: bool) -> None:
    is_read = asyncio.Event()

    async def paced(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        await connection.send(FRAMES[0])
        await is_read.wait()
        await connection.send(b"".join(FRAMES[1:]))
        await connection.end()

    script = paced if is_paced else send_frames([b"".join(FRAMES)])
    async with (
        upstream(script) as server,
        antiphon.open(config_for(server), stages=[MaskUmlauts]) as gateway,
        gateway.stream(model="up/m", input="Hello") as stream,
    ):
        events = []
        async for event in stream:
            events.append(event)
            is_read.set()
    assert re.findall("[äöü]", json.dumps(events, ensure_ascii=False)) == []
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == MASKED
    assert (await stream.response())["output_text"] == MASKED
