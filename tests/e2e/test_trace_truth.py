"""The trace tells who answered, who was not asked and why, and which requests were rejected."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec import structs

from antiphon.store.trace.reader import TraceFilter, list_requests
from tests.support.failing_providers import NO_FALLBACKS, POLICY, error, failover_gateway
from tests.support.gateways import running, settings
from tests.support.traces import read_trace
from tests.support.upstream import HELLO_WORLD, send_frames, send_json, upstream


async def test_after_a_fallback_the_trace_names_the_target_that_answered(tmp_path: Path) -> None:
    busy = [error(500)] * 3
    async with failover_gateway(tmp_path, one=busy) as failover:
        answer = await failover.post_request()
    assert answer.status == 200
    finish = read_trace(failover.trace, answer.headers["x-request-id"]).finish
    assert finish is not None
    assert (finish.provider, finish.provider_model, finish.dialect, finish.key_name) == (
        "two",
        "m",
        "chat",
        "key 1",
    )
    assert "sk-two-a" not in repr(finish)


async def test_a_target_that_was_skipped_is_in_the_trace_with_the_reason(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, one=[error(401), error(401)]) as failover:
        await failover.post_request()
        answer = await failover.post_request()
    skipped = read_trace(failover.trace, answer.headers["x-request-id"]).skipped
    assert [(each.provider, each.model, each.reason) for each in skipped] == [
        ("one", "m", "every API key is cooling down or was rejected")
    ]


async def test_an_open_circuit_breaker_is_a_reason(tmp_path: Path) -> None:
    policy = structs.replace(POLICY, breaker_threshold=1)
    async with failover_gateway(tmp_path, one=[error(500)], policy=policy) as failover:
        await failover.post_request()
        answer = await failover.post_request()
    [skip] = read_trace(failover.trace, answer.headers["x-request-id"]).skipped
    assert (skip.provider, skip.reason) == ("one", "its circuit breaker is open")


async def test_a_window_that_is_no_larger_is_a_reason(tmp_path: Path) -> None:
    overflow = error(400, "maximum context length exceeded", code="context_length_exceeded")
    windows = {"one": 1000, "two": 900}
    async with failover_gateway(tmp_path, one=[overflow], windows=windows) as failover:
        answer = await failover.post_request()
    [skip] = read_trace(failover.trace, answer.headers["x-request-id"]).skipped
    assert (skip.provider, skip.reason) == ("two", "its context window is not larger")


async def test_a_provider_s_rate_limit_has_its_row(tmp_path: Path) -> None:
    limited = [error(429, retry_after=1000)] * 2
    async with failover_gateway(tmp_path, one=limited, fallbacks=NO_FALLBACKS) as failover:
        answer = await failover.post_request()
    detail = read_trace(failover.trace, answer.headers["x-request-id"])
    assert answer.status == 429
    assert detail.finish is not None
    assert (detail.finish.status, detail.finish.provider) == ("failed", "one")


CLIENT_KEY = "key-of-alice-0123"
AUTHORIZED = {"authorization": f"Bearer {CLIENT_KEY}"}
REJECTED: dict[str, tuple[dict[str, str], Any, int, str, str | None]] = {
    "400": (AUTHORIZED, {"model": "up/m", "input": "Hi", "temperature": "x"}, 400, "up/m", "alice"),
    "401": ({}, {"model": "up/m", "input": "Hi"}, 401, "", None),
    "404": (AUTHORIZED, {"model": "no/model", "input": "Hi"}, 404, "no/model", "alice"),
    "413": (AUTHORIZED, {"model": "up/m", "input": "Hi" * 1000}, 413, "", "alice"),
}


@pytest.mark.parametrize("case", REJECTED.values(), ids=REJECTED)
async def test_a_rejected_request_has_a_row_under_the_id_that_its_client_got(
    tmp_path: Path, case: tuple[dict[str, str], Any, int, str, str | None]
) -> None:
    headers, body, status, model, client = case
    async with upstream(send_frames(HELLO_WORLD)) as server:
        keys = {"alice": CLIENT_KEY}
        config = settings(tmp_path, server.url, api_keys=keys, max_body_bytes=1000)
        async with running(config) as gateway:
            got, answered, document = await gateway.post(body, **headers)
    assert got == status
    detail = read_trace(tmp_path / "trace.db", answered["x-request-id"])
    assert detail.request is not None
    assert detail.finish is not None
    assert (detail.request.model, detail.request.client) == (model, client)
    assert (detail.finish.status, detail.finish.http_status) == ("rejected", status)
    [row] = detail.errors
    assert (row.code, row.param) == (
        document["error"]["code"] or document["error"]["type"],
        document["error"]["param"],
    )
    assert list_requests(tmp_path / "trace.db", failed=True) == []
    [summary] = list_requests(tmp_path / "trace.db", where=TraceFilter(status="rejected"))
    assert summary.request.request_id == answered["x-request-id"]


async def test_a_path_without_a_route_has_a_row_and_a_health_check_has_none(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as gateway:
        async with gateway.client.get(f"{gateway.base_url}/nothing") as answer:
            request_id = answer.headers["x-request-id"]
        gateway.gateway.process.stop_accepting()
        async with aiohttp.ClientSession() as client:
            health = gateway.base_url.removesuffix("/v1") + "/health/ready"
            assert (await client.get(health)).status == 503
    [summary] = list_requests(tmp_path / "trace.db")
    assert summary.request.request_id == request_id


async def test_a_fault_of_a_single_provider_names_it_too(tmp_path: Path) -> None:
    script = send_json(500, {"error": {"message": "out of order"}})
    async with upstream(script) as server, running(settings(tmp_path, server.url)) as gateway:
        _, headers, _ = await gateway.post({"model": "up/m", "input": "Hi"})
    [row] = read_trace(tmp_path / "trace.db", headers["x-request-id"]).errors
    assert (row.provider, row.model, row.reason) == ("up", "m", "out of order")


async def test_the_software_of_a_client_is_known(tmp_path: Path) -> None:
    async with (
        upstream(send_frames(HELLO_WORLD)) as server,
        running(settings(tmp_path, server.url)) as gateway,
    ):
        agent = {"user-agent": "OpenAI/Python 2.1"}
        _, headers, _ = await gateway.post({"model": "up/m", "input": "Hi"}, **agent)
    detail = read_trace(tmp_path / "trace.db", headers["x-request-id"])
    assert detail.request is not None
    assert (detail.request.client, detail.request.software) == ("local", "OpenAI/Python 2.1")


async def test_requests_without_a_key_do_not_take_the_place_of_others(tmp_path: Path) -> None:
    async with running(settings(tmp_path, api_keys={"alice": "0123456789abcdef"})) as gateway:
        for _ in range(1300):
            async with gateway.client.get(f"{gateway.base_url}/models") as response:
                assert response.status == 401
    with closing(sqlite3.connect(tmp_path / "trace.db")) as trace:
        (rows,) = trace.execute("SELECT count(*) FROM summary").fetchone()
    assert 600 <= rows <= 1200  # of a minute, or of two
