"""Rejected requests leave three rows in the trace, without content and secrets."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from antiphon.config import ServerConfig, TraceConfig
from tests.support.applications import LOCAL, echo_config, open_application
from tests.support.traces import read_trace


async def test_a_rejected_request_leaves_its_model_error_and_status(tmp_path: Path) -> None:
    path = tmp_path / "trace.db"
    config = structs.replace(echo_config(), trace=TraceConfig(path=str(path)))
    async with open_application(config) as opened:
        body = b'{"model": "echo/echo", "temperature": "a private temperature", "stream": true}'
        headers = {**LOCAL, "user-agent": "curl/8"}
        response = await opened.request("POST", "/v1/responses", body, headers)
    detail = read_trace(path, response.headers["x-request-id"])
    assert detail.request is not None
    assert (detail.request.model, detail.request.stream) == ("echo/echo", True)
    assert detail.request.software == "curl/8"
    assert detail.request.client == "local"
    [error] = detail.errors
    assert error.param == "temperature"
    assert "private" not in repr(detail)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"model": "nobody/gpt-4711-turbo", "input": "a private question"},
            "The model 'nobody/gpt-4711-turbo' does not exist. GET /v1/models lists the models.",
        ),
        (
            {"model": "private words " * 15 + "!", "input": ""},
            f"The model '{'private words ' * 15}!' does not exist."
            " GET /v1/models lists the models.",
        ),
        (
            {"model": "echo/echo", "input": "", "tools": [{"type": "file_search_2024"}]},
            "Tool 'file_search_2024' cannot be run: the tool type 'file_search_2024' is unknown,"
            " and echo/echo does not run it either. Remove the tool, or have it left out: set"
            ' `hosted_tools` in [compatibility] of the gateway to "ignore".',
        ),
    ],
    ids=["a name", "a long name", "an unknown tool"],
)
async def test_the_sentence_about_a_rejected_name_has_the_name(
    tmp_path: Path, body: dict[str, object], message: str
) -> None:
    path = tmp_path / "trace.db"
    config = structs.replace(echo_config(), trace=TraceConfig(path=str(path)))
    async with open_application(config) as opened:
        data = msgspec.json.encode(body)
        response = await opened.request("POST", "/v1/responses", data, LOCAL)
    [error] = read_trace(path, response.headers["x-request-id"]).errors
    assert error.message == message


async def test_the_sentence_about_a_missing_key_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "trace.db"
    config = structs.replace(
        echo_config(),
        trace=TraceConfig(path=str(path)),
        server=ServerConfig(port=0, api_keys={"alice": "a key of the gateway"}),
    )
    async with open_application(config) as opened:
        response = await opened.request("POST", "/v1/responses", b"{}", LOCAL)
    [error] = read_trace(path, response.headers["x-request-id"]).errors
    assert (
        error.message
        == "An API key is required: send `Authorization: Bearer KEY`, or the key as `x-api-key`."
    )


async def test_a_body_that_is_no_object_is_recorded_too(tmp_path: Path) -> None:
    path = tmp_path / "trace.db"
    config = structs.replace(
        echo_config(), trace=TraceConfig(path=str(path)), server=ServerConfig(port=0)
    )
    async with open_application(config) as opened:
        response = await opened.request("POST", "/v1/responses", b"[1", LOCAL)
    detail = read_trace(path, response.headers["x-request-id"])
    assert detail.request is not None
    assert detail.request.model == ""
    assert [error.code for error in detail.errors]
