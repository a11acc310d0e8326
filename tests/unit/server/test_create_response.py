"""POST /v1/responses: content type, body limit, whole answers, and GET on the same path."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pytest

from antiphon.server.http import HTTPRequest
from tests.support.applications import (
    document_of,
    echo_config,
    error_of,
    open_application,
    read_stream,
)
from tests.support.gateways import events_of


async def read_nothing(feed: Callable[[bytes], None]) -> NoReturn:
    raise AssertionError("the body was read")


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/jsonx", "json"])
async def test_another_content_type_is_a_415_and_the_body_is_not_read(content_type: str) -> None:
    async with open_application() as opened:
        headers = {"host": "localhost", "content-type": content_type}
        http = HTTPRequest("POST", "/v1/responses", headers, "127.0.0.1", read_nothing)
        response = await opened.application.handle(http)
    assert (response.status, error_of(response)["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("content_type", ["Application/JSON", "application/json; charset=utf-8"])
async def test_the_content_type_may_have_parameters_and_capitals(content_type: str) -> None:
    async with open_application() as opened:
        assert (await opened.create({"content-type": content_type})).status == 200


async def test_a_body_beyond_the_limit_is_a_413_whatever_the_server_in_front_allows() -> None:
    async with open_application(echo_config(max_body_bytes=100)) as opened:
        response = await opened.create(input="x" * 100)
    assert (response.status, error_of(response)["code"]) == (413, "request_too_large")


async def test_an_invalid_request_names_its_parameter() -> None:
    async with open_application() as opened:
        response = await opened.create(temperature="hot")
        broken = await opened.request("POST", "/v1/responses", b"{")
        assert not opened.engine.active
    assert (response.status, error_of(response)["param"]) == (400, "temperature")
    assert broken.status == 400


async def test_diagnostics_of_a_whole_answer_are_sent_as_a_header() -> None:
    async with open_application() as opened:
        response = await opened.create(presence_penalty=1.0)
        plain = await opened.create()
    assert "presence_penalty" in response.headers["antiphon-diagnostics"]
    assert "antiphon-diagnostics" not in plain.headers


async def test_a_streamed_answer_can_be_continued() -> None:
    async with open_application() as opened:
        streamed = await read_stream(await opened.create(stream=True))
        previous = events_of(streamed)[-1]["response"]["id"]
        response = await opened.create(previous_response_id=previous, input="Again")
    assert document_of(response)["previous_response_id"] == previous


async def test_a_request_during_shutdown_is_rejected_and_its_connection_closed() -> None:
    async with open_application() as opened:
        opened.application.process.stop_accepting()
        response = await opened.create()
        assert not opened.engine.active
    assert (response.status, response.close_connection) == (503, True)
    assert "restarting" in error_of(response)["message"]
