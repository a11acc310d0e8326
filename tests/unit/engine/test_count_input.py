"""Input tokens of a prepared request: the provider's counter, else an estimate with the reason."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from antiphon.config import ProviderConfig
from antiphon.dialects.responses.parse import parse_request
from antiphon.engine.count_input import InputTokens, count_input
from antiphon.engine.engine import Engine
from antiphon.engine.services import Caller
from antiphon.server.wiring import open_engine
from tests.support.gateways import replaced, settings
from tests.support.upstream import Connection, ReceivedRequest, Upstream, upstream

REQUEST = parse_request({"model": "up/m", "input": "x" * 400})
ANSWERS = {
    "anthropic": ("/v1/messages/count_tokens", {"input_tokens": 12}),
    "bedrock": ("/model/m/count-tokens", {"inputTokens": 12}),
    "gemini": ("/models/m:countTokens", {"totalTokens": 12}),
    "responses": ("/responses/input_tokens", {"input_tokens": 12}),
}


@asynccontextmanager
async def counting(
    tmp_path: Path, kind: str, status: int, body: bytes
) -> AsyncIterator[tuple[Engine, Upstream]]:
    async def script(asked: ReceivedRequest, connection: Connection) -> None:
        await connection.head(status, content_type="application/json")
        await connection.send(body)
        await connection.end()

    async with upstream(script) as server:
        provider = ProviderConfig(kind=kind, base_url=server.url, api_keys=["sk-upstream"])
        config = replaced(settings(tmp_path), providers={"up": provider}, default_provider="up")
        async with open_engine(config, {}, lambda entry: None) as engine:
            yield engine, server


async def count(engine: Engine) -> InputTokens:
    prepared = await engine.prepare(REQUEST, Caller("alice", "req_1"))
    return await count_input(engine.services, prepared)


@pytest.mark.parametrize("kind", ANSWERS)
async def test_the_counter_of_the_provider_is_used(tmp_path: Path, kind: str) -> None:
    path, answer = ANSWERS[kind]
    async with counting(tmp_path, kind, 200, json.dumps(answer).encode()) as (engine, server):
        counted = await count(engine)
        assert counted == InputTokens(count=12)
        [asked] = server.requests
        assert asked.path == f"/v1{path}"
        assert "sk-upstream" in str(asked.headers)


@pytest.mark.parametrize(
    ("kind", "status", "body", "reason"),
    [
        ("chat", 200, b"{}", "There is no token counter for up/m"),
        ("anthropic", 404, b"{}", "The token counter for up/m failed (api_error)"),
        ("anthropic", 500, b"oops", "The token counter for up/m failed (api_error)"),
        ("anthropic", 200, b"{}", "The token counter for up/m sent no count"),
    ],
)
async def test_without_a_count_the_length_is_used_and_the_reason_is_reported(
    tmp_path: Path, kind: str, status: int, body: bytes, reason: str
) -> None:
    async with counting(tmp_path, kind, status, body) as (engine, _):
        counted = await count(engine)
    assert (counted.count, counted.is_estimate) == (100, True)
    [diagnostic] = counted.diagnostics
    assert diagnostic.message.startswith(reason)


async def test_a_counter_that_fails_changes_neither_key_nor_circuit(tmp_path: Path) -> None:
    async with counting(tmp_path, "anthropic", 401, b"{}") as (engine, server):
        for _ in range(10):
            await count(engine)
        assert len(server.requests) == 10


async def test_a_key_that_is_cooling_down_is_not_used(tmp_path: Path) -> None:
    async with counting(tmp_path, "anthropic", 200, b'{"input_tokens": 12}') as (engine, server):
        health = engine.services.health.of(engine.router.resolve("up/m").provider)
        health.keyring.cool_down("sk-upstream", 60)
        counted = await count(engine)
        assert (counted.count, server.requests) == (100, [])
    [diagnostic] = counted.diagnostics
    assert "every API key is cooling down" in diagnostic.message
