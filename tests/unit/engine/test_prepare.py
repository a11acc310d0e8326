"""Preparer: what is decided, and what is rejected, before a run exists."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import CompatibilityConfig, ProviderConfig, StoreConfig
from antiphon.core.items import Document
from antiphon.core.request import Request
from antiphon.engine.engine import Engine
from antiphon.engine.prepare import Preparer
from antiphon.engine.routing import Target
from antiphon.engine.services import Caller
from antiphon.errors import InvalidRequest
from antiphon.server.wiring import open_engine
from tests.support.gateways import replaced, settings
from tests.support.request_body import parse_body

CALLER = Caller("alice", "req_1")
SCHEMA = {"type": "json_schema", "name": "place", "schema": {"type": "object"}}
PDF = "data:application/pdf;base64,JVBERi0xLjc="
OTHER = ProviderConfig(kind="chat", base_url="http://127.0.0.1:9/v1", web_search="refuse")


def request(**fields: Any) -> Request:
    body = {"model": "echo/echo", "input": "Hello", **fields}
    return parse_body(json.dumps(body).encode())


@asynccontextmanager
async def open_echo(tmp_path: Path, **changes: Any) -> AsyncIterator[Engine]:
    config = replaced(settings(tmp_path), store=StoreConfig(url="memory://"), **changes)
    async with open_engine(config, {}, lambda entry: None) as engine:
        yield engine


@asynccontextmanager
async def open_with_fallback(tmp_path: Path) -> AsyncIterator[Engine]:
    changes: dict[str, Any] = {
        "providers": {"other": OTHER},
        "default_provider": "",
        "fallbacks": {"echo/echo": ["other/m"]},
        "compatibility": CompatibilityConfig(hosted_tools="ignore"),
    }
    async with open_echo(tmp_path, **changes) as engine:
        yield engine


async def test_every_target_is_planned_before_the_run(tmp_path: Path) -> None:
    async with open_with_fallback(tmp_path) as engine:
        prepared = await engine.preparer.prepare(request(), CALLER)
    assert [target.name for target in prepared.targets] == [("echo", "echo"), ("other", "m")]
    assert (prepared.first_plan.provider, prepared.first_plan.model) == ("echo", "echo")
    assert prepared.planner.plan(prepared.targets[0]) is prepared.first_plan
    assert prepared.skipped == []


async def test_a_fallback_that_cannot_serve_the_request_is_skipped_with_the_reason(
    tmp_path: Path,
) -> None:
    async with open_with_fallback(tmp_path) as engine:
        prepared = await engine.preparer.prepare(request(tools=[{"type": "web_search"}]), CALLER)
    assert [target.name for target in prepared.targets] == [("echo", "echo")]
    [(target, reason)] = prepared.skipped
    assert target.name == ("other", "m")
    assert reason == "it cannot serve this request: tools[0].type (unsupported_parameter)"


async def test_a_request_that_its_first_target_cannot_serve_is_rejected(tmp_path: Path) -> None:
    async with open_with_fallback(tmp_path) as engine:
        with pytest.raises(InvalidRequest) as caught:
            await engine.preparer.prepare(
                request(model="other/m", tools=[{"type": "web_search"}]), CALLER
            )
    assert caught.value.param == "tools[0].type"


async def test_a_response_that_was_accepted_before_keeps_its_id_and_time(tmp_path: Path) -> None:
    async with open_echo(tmp_path) as engine:
        prepared = await engine.preparer.prepare(
            request(), CALLER, response_id="resp_before", created_at=7
        )
    assert (prepared.response.id, prepared.response.created_at) == ("resp_before", 7)


async def test_a_mode_that_a_target_is_known_to_reject_is_not_planned(tmp_path: Path) -> None:
    async with open_echo(tmp_path) as engine:
        services = engine.services
        formatted = request(text={"format": SCHEMA})
        before = await engine.preparer.prepare(formatted, CALLER)
        now = services.runtime.monotonic()
        services.rejected_modes.learn(("echo", "echo"), "json_schema", now)
        after = await engine.preparer.prepare(formatted, CALLER)
    assert before.first_plan.contract.asked == "json_schema"
    assert after.first_plan.contract.asked != "json_schema"


async def test_files_are_read_only_if_there_are_some_and_a_target_takes_none(
    tmp_path: Path,
) -> None:
    read: list[Sequence[str]] = []

    async def read_pdfs(contents: Sequence[str], client: str) -> Mapping[str, str]:
        read.append(contents)
        return {PDF: "The text."}

    part = {"type": "input_file", "filename": "a.pdf", "file_data": PDF}
    with_file = [{"role": "user", "content": [part, part]}]
    async with open_with_fallback(tmp_path) as engine:
        subject = Preparer(engine.router, engine.services, read_pdfs=read_pdfs)
        await subject.prepare(request(), CALLER)
        assert read == []
        prepared = await subject.prepare(request(model="other/m", input=with_file), CALLER)
    assert read == [[PDF]]
    assert "The text." in str(prepared.first_plan.history)


async def test_images_are_described_for_the_first_target(tmp_path: Path) -> None:
    asked: list[tuple[int, Target]] = []

    async def describe(items: Sequence[Document], target: Target) -> Mapping[str, str]:
        asked.append((len(items), target))
        return {}

    async with open_with_fallback(tmp_path) as engine:
        subject = Preparer(engine.router, engine.services, describe_images=describe)
        await subject.prepare(request(), CALLER)
    assert [(count, target.name) for count, target in asked] == [(1, ("echo", "echo"))]
    assert subject.describes_images
    assert not engine.preparer.describes_images
