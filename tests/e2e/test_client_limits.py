"""Limits of client keys over HTTP: exact under concurrency, refused before the provider is called,
and as the official client expects."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import openai
import pytest
from msgspec import structs

from antiphon.config import BackgroundConfig, ClientLimitConfig, LimitConfig, PriceConfig
from antiphon.store.trace.reader import list_requests
from tests.support.gateways import Running, running, settings
from tests.support.openai_client import openai_client
from tests.support.upstream import (
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    send_frames,
    send_json,
    upstream,
    whole_answer,
)
from tests.support.upstream import Upstream as ScriptedProvider
from tests.support.waiting import until_async

KEYS = {"alice": "key-of-alice", "bob": "key-of-bob"}
ALICE = {"authorization": "Bearer key-of-alice"}
BODY = {"model": "up/m", "input": "Hi"}
PARALLEL = 64


@asynccontextmanager
async def limited(
    tmp_path: Path, provider: ScriptedProvider, *, max_running: int = 64, **limits: float
) -> AsyncIterator[Running]:
    table = structs.replace(ClientLimitConfig(), **limits)
    config = settings(
        tmp_path, provider.url, api_keys=KEYS, limits=LimitConfig(clients={"alice": table})
    )
    prices = {"up/*": PriceConfig(input=100_000.0, output=100_000.0)}
    background = BackgroundConfig(max_running=max_running)
    config = structs.replace(config, prices=prices, background=background)
    async with running(config) as gateway:
        yield gateway


async def test_sixty_four_requests_at_once_hold_the_limit_exactly(tmp_path: Path) -> None:
    async with (
        upstream(send_frames(HELLO_WORLD)) as provider,
        limited(tmp_path, provider, requests_per_minute=10) as gateway,
    ):
        posts = (gateway.post(BODY, **ALICE) for _ in range(PARALLEL))
        answers = await asyncio.gather(*posts)
        assert (await gateway.post(BODY, authorization="Bearer key-of-bob"))[0] == 200
    assert Counter(status for status, _, _ in answers) == {200: 10, 429: PARALLEL - 10}
    assert len(provider.requests) == 11
    rejected = [each for each in list_requests(tmp_path / "trace.db", 100) if each.errors]
    assert len(rejected) == PARALLEL - 10
    assert {(each.request.client, each.request.model) for each in rejected} == {("alice", "up/m")}


@pytest.mark.parametrize("path", ["/responses", "/responses/compact"])
async def test_each_response_says_what_is_left_of_the_limits(tmp_path: Path, path: str) -> None:
    async with (
        upstream(send_json(200, whole_answer("A summary"))) as provider,
        limited(tmp_path, provider, requests_per_minute=10) as gateway,
    ):
        url = f"{gateway.base_url}{path}"
        async with gateway.client.post(url, json=BODY, headers=ALICE) as reply:
            assert reply.status == 200
            assert reply.headers["x-ratelimit-remaining-requests"] == "9"


async def test_streams_at_the_same_time_hold_the_limit_exactly(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def wait(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        await connection.send(HELLO_WORLD[0] + HELLO_WORLD[1])
        await release.wait()
        await connection.send(b"".join(HELLO_WORLD[2:]))
        await connection.end()

    async with upstream(wait) as provider, limited(tmp_path, provider, max_streams=4) as gateway:
        url = f"{gateway.base_url}/responses"
        posts = [
            gateway.client.post(url, json={**BODY, "stream": True}, headers=ALICE)
            for _ in range(PARALLEL)
        ]
        opened = await asyncio.gather(*posts)
        assert Counter(each.status for each in opened) == {200: 4, 429: PARALLEL - 4}
        release.set()
        for each in opened:
            await each.read()
        again = await gateway.client.post(url, json={**BODY, "stream": True}, headers=ALICE)
        assert again.status == 200
        await again.read()


class HeldProvider:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        await self.release.wait()
        await connection.head()
        await connection.send(b"".join(HELLO_WORLD))
        await connection.end()


async def background_status(gateway: Running, response_id: str) -> str:
    url = f"{gateway.base_url}/responses/{response_id}"
    async with gateway.client.get(url, headers=ALICE) as response:
        status: str = (await response.json())["status"]
        return status


async def test_background_requests_beyond_a_limit_are_refused_before_they_are_queued(
    tmp_path: Path,
) -> None:
    held, request = HeldProvider(), {**BODY, "background": True}
    async with (
        upstream(held) as provider,
        limited(tmp_path, provider, max_running=2, max_streams=4) as gateway,
    ):
        posts = (gateway.post(request, **ALICE) for _ in range(PARALLEL))
        answers = await asyncio.gather(*posts)
        assert Counter(status for status, _, _ in answers) == {200: 4, 429: PARALLEL - 4}
        accepted = [answer["id"] for status, _, answer in answers if status == 200]
        url = f"{gateway.base_url}/responses/{accepted[-1]}/cancel"
        async with gateway.client.post(url, headers=ALICE) as response:
            assert (await response.json())["status"] == "cancelled"
        assert (await gateway.post(request, **ALICE))[0] == 200  # in the place of the cancelled one
        assert (await gateway.post(request, **ALICE))[0] == 429
        held.release.set()
        for each in accepted[:-1]:
            await until_async(partial(_is, gateway, each, "completed"), "it is complete")
        await until_async(lambda: _is_accepted(gateway, request), "the places are free again")


async def _is(gateway: Running, response_id: str, status: str) -> bool:
    return await background_status(gateway, response_id) == status


async def _is_accepted(gateway: Running, request: Mapping[str, object]) -> bool:
    status, _, _ = await gateway.post(request, **ALICE)
    return status == 200


async def test_a_refused_background_request_leaves_a_row_and_no_response(tmp_path: Path) -> None:
    request = {**BODY, "background": True}
    async with (
        upstream(send_frames(HELLO_WORLD)) as provider,
        limited(tmp_path, provider, requests_per_minute=1) as gateway,
    ):
        status, headers, answer = await gateway.post(request, **ALICE)
        assert (status, headers["x-ratelimit-remaining-requests"]) == (200, "0")
        refused, headers, error = await gateway.post(request, **ALICE)
        assert (refused, error["error"]["code"]) == (429, "rate_limit_exceeded")
        assert "retry-after" in headers
        await until_async(lambda: _is(gateway, answer["id"], "completed"), "it is complete")
    assert len(provider.requests) == 1
    [row] = [each for each in list_requests(tmp_path / "trace.db", 100) if each.errors]
    assert row.request.client == "alice"


async def test_the_official_client_raises_a_rate_limit_error(tmp_path: Path) -> None:
    async with (
        upstream(send_frames(HELLO_WORLD)) as provider,
        limited(tmp_path, provider, requests_per_minute=1) as gateway,
        openai_client(gateway) as any_client,
    ):
        client = any_client.with_options(api_key=KEYS["alice"])
        raw = await client.responses.with_raw_response.create(model="up/m", input="Hi")
        assert raw.headers["x-ratelimit-remaining-requests"] == "0"
        with pytest.raises(openai.RateLimitError) as caught:
            await client.responses.create(model="up/m", input="Hi", stream=True)
    error = caught.value
    assert (error.code, error.type) == ("rate_limit_exceeded", "rate_limit_error")
    assert 55 <= int(error.response.headers["retry-after"]) <= 60
    assert error.response.headers["x-ratelimit-limit-requests"] == "1"


async def test_tokens_refuse_the_request_after_the_one_that_reached_them(tmp_path: Path) -> None:
    async with (
        upstream(send_frames(HELLO_WORLD)) as provider,
        limited(tmp_path, provider, tokens_per_minute=1) as gateway,
    ):
        assert (await gateway.post(BODY, **ALICE))[0] == 200
        status, headers, answer = await gateway.post(BODY, **ALICE)
    assert (status, answer["error"]["code"]) == (429, "rate_limit_exceeded")
    assert headers["x-ratelimit-remaining-tokens"] == "0"
    assert len(provider.requests) == 1


@pytest.mark.parametrize("name", ["cost_per_day", "cost_per_month"])
async def test_a_spent_budget_is_no_reason_to_retry_and_outlives_a_restart(
    tmp_path: Path, name: str
) -> None:
    async with upstream(send_frames(HELLO_WORLD)) as provider:
        async with limited(tmp_path, provider, max_running=64, **{name: 0.01}) as gateway:
            assert (await gateway.post(BODY, **ALICE))[0] == 200
        async with limited(tmp_path, provider, max_running=64, **{name: 0.01}) as gateway:
            status, headers, answer = await gateway.post(BODY, **ALICE)
            codex = await gateway.post(BODY, **ALICE, originator="codex_cli_rs")
    assert (status, answer["error"]["code"], answer["error"]["type"]) == (
        429,
        "insufficient_quota",
        "insufficient_quota",
    )
    assert headers["x-should-retry"] == "false"
    assert "retry-after" not in headers
    assert codex[0] == 400
    assert len(provider.requests) == 1


async def test_a_client_that_leaves_has_used_what_it_was_sent(tmp_path: Path) -> None:
    async def endless(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        await connection.send(HELLO_WORLD[0] + HELLO_WORLD[1])
        await connection.wait_disconnected()

    async with (
        upstream(endless) as provider,
        limited(tmp_path, provider, tokens_per_minute=1) as gateway,
    ):
        url = f"{gateway.base_url}/responses"
        stream = await gateway.client.post(url, json={**BODY, "stream": True}, headers=ALICE)
        await stream.content.readany()
        stream.close()
        await gateway.engine.active.wait_idle()
        status, _, _ = await gateway.post(BODY, **ALICE)
    assert status == 429
