"""Image descriptions: cached, shared, and never a reason to fail a request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import Config, ModelConfig, ProviderConfig, StoreConfig, VisionConfig
from antiphon.core.items import Document
from antiphon.core.request import Request
from antiphon.engine.engine import Engine
from antiphon.engine.media.image_description import (
    ImageDescriber,
    check_vision_model,
    make_image_describer,
)
from antiphon.engine.routing import Target, make_router
from antiphon.engine.run import Run
from antiphon.engine.services import Caller
from antiphon.errors import ConfigError
from antiphon.providers.registry import build_providers
from antiphon.server.wiring import open_engine
from tests.support.gateways import replaced, settings

ONE, TWO = "data:image/png;base64,AAAA", "https://x.test/two.png"
PROVIDERS = {
    "blind": ProviderConfig(
        kind="chat",
        base_url="http://127.0.0.1:9/v1",
        models={"m": ModelConfig(inputs=["text"])},
    )
}


def message(*urls: str) -> Document:
    images = [{"type": "input_image", "image_url": url} for url in urls]
    return {"type": "message", "role": "user", "content": images}


class Subject:
    """A describer whose runs are those of a real engine with the echo model, and its requests."""

    def __init__(self, engine: Engine, **vision: Any) -> None:
        self._engine = engine
        self.requests: list[Request] = []
        self.model = vision.pop("model", "echo/echo")
        self.blind = engine.router.resolve("blind/m")
        self.describer = ImageDescriber(VisionConfig(model=self.model, **vision), self._create)

    async def _create(self, request: Request) -> Run:
        self.requests.append(request)
        return await self._engine.create(request, Caller("alice", "req_1"))

    async def describe(self, *urls: str, target: Target | None = None) -> dict[str, str]:
        return dict(await self.describer.describe([message(*urls)], target or self.blind))


@asynccontextmanager
async def open_subject(tmp_path: Path, **vision: Any) -> AsyncIterator[Subject]:
    config = replaced(
        settings(tmp_path),
        providers=PROVIDERS,
        default_provider="",
        store=StoreConfig(url="memory://"),
    )
    async with open_engine(config, {}, lambda entry: None) as engine:
        yield Subject(engine, **vision)


async def test_an_image_is_described_once(tmp_path: Path) -> None:
    async with open_subject(tmp_path) as subject:
        first = await subject.describe(ONE)
        assert "Describe this image" in first[ONE]  # the echo model repeats the prompt
        assert await subject.describe(ONE) == first
        [request] = subject.requests
        assert (request.model, request.store) == ("echo/echo", False)


async def test_only_new_images_are_described(tmp_path: Path) -> None:
    async with open_subject(tmp_path) as subject:
        await subject.describe(ONE)
        assert set(await subject.describe(ONE, TWO)) == {ONE, TWO}
        assert len(subject.requests) == 2


async def test_a_model_that_takes_images_needs_no_description(tmp_path: Path) -> None:
    async with open_subject(tmp_path) as subject:
        target = subject.blind.provider, "other"
        assert await subject.describe(ONE, target=Target(*target)) == {}
        assert subject.requests == []


async def test_items_without_images_start_no_run(tmp_path: Path) -> None:
    async with open_subject(tmp_path) as subject:
        assert await subject.describe() == {}
        assert subject.requests == []


@pytest.mark.parametrize(
    ("model", "runs"),
    [("echo/error-400", 1), ("echo/error-503", 2), ("echo/nothing", 2)],
    ids=["the image is at fault", "a retry may succeed", "an unexpected error"],
)
async def test_a_failed_description_is_empty_and_retried_unless_the_image_is_at_fault(
    tmp_path: Path, model: str, runs: int
) -> None:
    async with open_subject(tmp_path, model=model) as subject:
        for _ in range(2):
            assert await subject.describe(ONE) == {ONE: ""}
        assert len(subject.requests) == runs


async def test_the_least_recently_used_description_is_evicted(tmp_path: Path) -> None:
    async with open_subject(tmp_path, cache_entries=1) as subject:
        for url in (ONE, TWO, ONE):
            await subject.describe(url)
        assert len(subject.requests) == 3


async def test_a_request_starts_twenty_descriptions_for_its_newest_images(tmp_path: Path) -> None:
    urls = [f"https://x.test/{number}.png" for number in range(25)]
    async with open_subject(tmp_path) as subject:
        assert list(await subject.describe(*urls)) == urls[5:]
        assert len(subject.requests) == 20


def config_with(model: str) -> Config:
    return Config(providers=PROVIDERS, vision=VisionConfig(model=model))


@pytest.mark.parametrize(
    ("model", "problem"), [("blind/m", "'blind/m' takes no images"), ("none/m", "does not exist")]
)
def test_a_vision_model_must_exist_and_take_images(model: str, problem: str) -> None:
    config = config_with(model)
    router = make_router(config, build_providers(config, {}))
    with pytest.raises(ConfigError, match=problem):
        check_vision_model(config, router)


async def test_without_a_vision_model_there_is_no_describer(tmp_path: Path) -> None:
    async with open_subject(tmp_path) as subject:
        config = config_with("")
        router = make_router(config, build_providers(config, {}))
        assert make_image_describer(config, router, subject._create) is None
