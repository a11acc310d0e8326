"""Unit tests of stage plugins."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
from msgspec.structs import replace

import antiphon
from antiphon.config import Config, PipelineConfig
from antiphon.errors import ConfigError
from antiphon.pipeline.persist import PersistStage
from antiphon.pipeline.stage import Batch, Stage, with_terminal
from antiphon.server.stage_plugins import GROUP, load_stages
from antiphon.wire.events import Completed

PERSIST = EntryPoint("keep", "antiphon.pipeline.persist:PersistStage", GROUP)
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
