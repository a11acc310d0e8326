"""Bounds on what one client can do to the others: its bodies, its heads and its connections."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import resource
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.config import AttemptConfig
from antiphon.observe.usage import query_usage
from tests.support.compressed_bodies import compress_repeated
from tests.support.gateways import Running, replaced, running, settings
from tests.support.stream_reader import open_stream
from tests.support.upstream import (
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    send_frames,
    send_json,
    upstream,
    whole_answer,
)
from tests.support.waiting import until_async

JSON = {"content-type": "application/json"}
POST = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"

ASK = {"model": "echo/echo", "input": "Hi"}


def message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text}


def body_with(count: int) -> bytes:
    items = b",".join([json.dumps(message("a")).encode()] * count)
    return b'{"model": "echo/echo", "store": false, "input": [' + items + b"]}"


async def post_bytes(gateway: Running, body: bytes, **headers: str) -> tuple[int, Any]:
    url = f"{gateway.base_url}/responses"
    async with gateway.client.post(url, data=io.BytesIO(body), headers=JSON | headers) as response:
        return response.status, await response.json()


# Large bodies


async def test_a_small_compressed_body_with_two_million_items_is_a_413(tmp_path: Path) -> None:
    body = gzip.compress(body_with(2_000_000))
    async with running(settings(tmp_path)) as gateway:
        began = time.process_time()
        status, document = await post_bytes(gateway, body, **{"content-encoding": "gzip"})
        took_s = time.process_time() - began
    assert (status, document["error"]["code"]) == (413, "request_too_large")
    assert "`max_body_values` in [server]" in document["error"]["message"]
    assert took_s < 8  # it took 24 seconds as long as it was decoded first


async def test_a_compressed_body_is_refused_by_its_decompressed_size(tmp_path: Path) -> None:
    beginning = b'{"model": "echo/echo", "input": "'
    body = compress_repeated(b"0", 100_000_000, first=beginning)
    async with running(settings(tmp_path)) as gateway:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        status, document = await post_bytes(gateway, body, **{"content-encoding": "gzip"})
        grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (status, document["error"]["code"]) == (413, "request_too_large")
    assert grown_kb < 250_000


async def test_others_are_served_while_a_large_request_is_planned(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as gateway:
        large = asyncio.ensure_future(post_bytes(gateway, body_with(30_000)))
        served = 0
        while not large.done():
            async with gateway.client.get(gateway.base_url[:-3] + "/health") as response:
                served += response.status == 200
        status, document = await large
    assert (status, document["status"]) == (200, "completed")
    assert served > 5  # one or two, if the request is planned on the event loop


@pytest.mark.parametrize("count", [10_000, 50_001])
async def test_a_history_of_ten_thousand_items_is_served_and_the_limit_names_its_setting(
    tmp_path: Path, count: int
) -> None:
    async with running(settings(tmp_path)) as gateway:
        status, document = await post_bytes(gateway, body_with(count))
    if count == 10_000:
        assert (status, document["status"]) == (200, "completed")
    else:
        assert (status, document["error"]["param"]) == (413, "input")
        assert "`max_input_items` in [server]" in document["error"]["message"]


async def test_a_large_request_reaches_the_provider_as_a_small_one_does(tmp_path: Path) -> None:
    received: list[ReceivedRequest] = []

    async def answer(request: ReceivedRequest, connection: Connection) -> None:
        received.append(request)
        await send_json(200, whole_answer("Hello"))(request, connection)

    text = 'a "quoted" é 😀 line\n' * 50_000
    async with upstream(answer) as provider, running(settings(tmp_path, provider.url)) as gateway:
        body = json.dumps({"model": "up/m", "input": [message(text)] * 3}).encode()
        status, document = await post_bytes(gateway, body)
    assert (status, document["status"]) == (200, "completed")
    assert [each["content"] for each in received[0].body["messages"]] == [text] * 3


# File descriptors


async def test_an_exhausted_file_limit_is_not_blamed_on_the_provider(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with upstream(send_frames(HELLO_WORLD)) as provider:
        config = replaced(
            settings(tmp_path, provider.url), attempts=AttemptConfig(breaker_threshold=1)
        )
        async with running(config) as gateway:
            async with gateway.client.get(gateway.base_url[:-3] + "/health"):
                pass  # the connection is kept
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
                status, _, document = await gateway.post({"model": "up/m", "input": "Hi"})
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            again, _, _ = await gateway.post({"model": "up/m", "input": "Hi"})
            [health] = gateway.engine.services.health
    assert status == 503
    assert document["error"]["message"].startswith(
        "The gateway has reached its limit of open files, so it could not connect to up."
    )
    assert health.breaker.is_closed
    assert again == 200
    events = [entry.event for entry in gateway.log]
    assert "gateway.out_of_files" in events
    assert "upstream.failed" not in events


# Slow and malformed requests


async def test_a_head_that_does_not_arrive_is_a_408_before_authentication(tmp_path: Path) -> None:
    config = settings(tmp_path, header_timeout_s=0.5, api_keys={"me": "sk-me"})
    async with running(config) as gateway:
        async with open_stream(gateway.gateway.port) as client:
            client.write(POST)
            answer = await client.rest()
        assert (answer.status, answer.error["code"]) == (408, "request_timeout")
        assert "`header_timeout_s` in [server]" in answer.error["message"]
        async with open_stream(gateway.gateway.port) as silent:
            silent.write(b"")
            assert await silent.closed_without_an_answer()


async def test_a_slow_second_request_on_a_connection_is_a_408(tmp_path: Path) -> None:
    async with (
        running(settings(tmp_path, header_timeout_s=0.5)) as gateway,
        open_stream(gateway.gateway.port) as client,
    ):
        await client.post(ASK)
        assert (await client.rest()).status == 200
        client.start_next_answer()
        client.write(b"GET /health HTTP/1.1\r\n")
        assert (await client.rest()).status == 408


async def test_a_body_that_does_not_arrive_is_a_408(tmp_path: Path) -> None:
    async with (
        running(settings(tmp_path, body_timeout_s=0.05)) as gateway,
        open_stream(gateway.gateway.port) as client,
    ):
        client.write(POST + b'content-length: 100\r\n\r\n{"model":')
        answer = await client.rest()
    assert (answer.status, answer.error["code"]) == (408, "request_timeout")
    assert "`body_timeout_s` in [server]" in answer.error["message"]


async def test_a_connection_above_the_limit_of_its_address_is_a_429(tmp_path: Path) -> None:
    async with running(settings(tmp_path, max_connections_per_address=1)) as gateway:
        port = gateway.gateway.port
        async with open_stream(port) as first:
            await first.post(ASK)
            assert (await first.rest()).status == 200
            async with open_stream(port) as second:
                await second.post(ASK)
                answer = await second.rest()
            assert (answer.status, answer.error["code"]) == (429, "too_many_connections")
            assert "`max_connections_per_address` in [server]" in answer.error["message"]
            first.start_next_answer()
            await first.post(ASK)
            assert (await first.rest()).status == 200


@pytest.mark.parametrize(
    ("sent", "status", "problem"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "request line"),
        (b"GET\r\n\r\n", 400, "request line"),
        (b"GET / HTTP/1.1\r\nhost localhost\r\n\r\n", 400, ""),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 70_000 + b"\r\n\r\n", 431, "too long"),
        (POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n", 400, ""),
        (POST + b"content-length: x\r\n\r\n", 400, ""),
    ],
)
async def test_what_is_not_http_is_an_error_in_the_shape_of_the_api(
    tmp_path: Path, sent: bytes, status: int, problem: str
) -> None:
    async with running(settings(tmp_path)) as gateway, open_stream(gateway.gateway.port) as client:
        client.write(sent)
        answer = await client.rest()
    assert answer.status == status
    assert problem in answer.error["message"]
    assert answer.headers["server"] == "antiphon"


async def test_the_server_header_has_no_version(tmp_path: Path) -> None:
    body = {"model": "echo/echo", "input": "Hi", "stream": True}
    async with running(settings(tmp_path)) as gateway:
        url = f"{gateway.base_url}/responses"
        async with gateway.client.post(url, json=body) as streamed:
            await streamed.read()
        _, whole, _ = await gateway.post({"model": "echo/echo"})
    assert streamed.headers["server"] == whole["server"] == "antiphon"


# Names that clients choose


async def test_unknown_fields_are_bounded_and_those_left_out_are_counted(tmp_path: Path) -> None:
    fields = ",".join(f'"f{number}":0' for number in range(400_000))
    body = gzip.compress(b'{"model": "echo/echo", "input": "Hi",' + fields.encode() + b"}")
    async with running(settings(tmp_path)) as gateway:
        began = time.process_time()
        url = f"{gateway.base_url}/responses"
        headers = JSON | {"content-encoding": "gzip"}
        async with gateway.client.post(url, data=io.BytesIO(body), headers=headers) as response:
            document, found = await response.json(), response.headers["antiphon-diagnostics"]
        took_s = time.process_time() - began
        lines = [msgspec.json.encode(entry) for entry in gateway.log]
    assert (response.status, document["status"]) == (200, "completed")
    assert "param.unknown:399980_more" in found
    assert max(map(len, lines)) < 4000  # it had a name of each
    assert took_s < 5  # it took nine seconds
    with closing(sqlite3.connect(tmp_path / "trace.db")) as trace:
        [(count,)] = trace.execute("SELECT count(*) FROM fact WHERE kind = 'diagnostic'")
    assert count == 21


@pytest.mark.parametrize("length", [256, 257, 1_000_000])
async def test_the_name_of_a_model_has_at_most_256_characters(tmp_path: Path, length: int) -> None:
    async with running(settings(tmp_path)) as gateway:
        status, _, document = await gateway.post({"model": "m" * length, "input": "Hi"})
        lines = [msgspec.json.encode(entry) for entry in gateway.log]
    error = document["error"]
    if length == 256:
        assert (status, error["code"]) == (404, "model_not_found")
    else:
        assert (status, error["code"]) == (400, "string_above_max_length")
        assert error["param"] == "model"
    assert max(map(len, [*lines, error["message"]])) < 2000


async def test_a_model_that_the_provider_does_not_know_is_no_row_of_usage(tmp_path: Path) -> None:
    error = {"error": {"message": "No such model.", "code": "model_not_found"}}
    async with (
        upstream(send_json(404, error)) as provider,
        running(settings(tmp_path, provider.url)) as gateway,
    ):
        for number in range(3):
            status, _, _ = await gateway.post({"model": f"nonsense-{number}", "input": "Hi"})
            assert status == 404
        store = gateway.engine.services.store

        async def list_models() -> list[tuple[str | None, int]]:
            rows = await query_usage(store, since=0, until=2**40)
            return [(row.model, row.requests) for row in rows]

        await until_async(list_models, "a row of usage")
        assert await list_models() == [("other", 3)]
