"""Unit tests of the aiohttp application."""

from __future__ import annotations

import gzip

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

import antiphon


async def test_it_can_be_mounted_below_a_path() -> None:
    application = web.Application()
    application.add_subapp("/llm", antiphon.aiohttp_app())
    async with TestClient(TestServer(application)) as client:
        request = {"model": "echo/echo", "input": "Hello"}
        async with client.post("/llm/v1/responses", json=request) as answer:
            response = await answer.json()
        async with client.post("/llm/v1/responses", json={**request, "stream": True}) as answer:
            streamed = await answer.text()
    assert antiphon.output_text(response) == "Hello"
    assert streamed.endswith("data: [DONE]\n\n")


async def test_a_compressed_body_is_decompressed_once() -> None:
    body = gzip.compress(b'{"model": "echo/echo", "input": "Hello"}')
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    async with (
        TestClient(TestServer(antiphon.aiohttp_app())) as client,
        client.post("/v1/responses", data=body, headers=headers) as answer,
    ):
        response = await answer.json()
    assert antiphon.output_text(response) == "Hello"
