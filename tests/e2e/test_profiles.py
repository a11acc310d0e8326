"""Client profiles: error statuses, refusals and keep-alives adapted to the client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import ClientConfig
from antiphon.errors import ConfigError
from tests.support.client_answers import Answer, post_request, send_raw
from tests.support.gateways import Running, replaced, running, settings
from tests.support.upstream import (
    DONE,
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Script,
    chunk,
    send_frames,
    send_json,
    upstream,
    usage,
)
from tests.support.waiting import LIMIT_S

CODEX = {"originator": "codex_exec", "user-agent": "codex_exec/0.166.0 (Debian 12)"}
PYTHON = {"user-agent": "OpenAI/Python 3.49.0"}
LOCKED = {"error": {"message": "Incorrect API key sk-secret", "code": "invalid_api_key"}}


@asynccontextmanager
async def serving(
    tmp_path: Path, script: Script, clients: dict[str, ClientConfig] | None = None, **server: Any
) -> AsyncIterator[Running]:
    async with upstream(script) as provider:
        config = replaced(settings(tmp_path, provider.url, **server), clients=clients or {})
        async with running(config) as gateway:
            yield gateway


async def post_as(gateway: Running, client: dict[str, str], **body: Any) -> Answer:
    return await post_request(gateway, {"model": "m", "input": "Hello?", **body}, **client)


def error_code(answer: Answer) -> str | None:
    return answer.headers.get("antiphon-diagnostics")


# --- errors that stay -----------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("status", "document", "exact", "code"),
    [
        (401, LOCKED, 502, "server_error"),
        (403, {"error": {"message": "Not for you"}}, 502, "server_error"),
        (404, {"error": {"message": "no", "code": "model_not_found"}}, 404, "model_not_found"),
        (302, "moved", 502, "invalid_prompt"),
    ],
)
async def test_a_permanent_provider_error_is_a_400_for_codex(
    tmp_path: Path, status: int, document: Any, exact: int, code: str, *, stream: bool
) -> None:
    async with serving(tmp_path, send_json(status, document)) as gateway:
        for_codex = await post_as(gateway, CODEX, stream=stream)
        for_python = await post_as(gateway, PYTHON, stream=stream)
    assert (for_codex.status, for_python.status) == (400, exact)
    assert error_code(for_codex) == f"1; codes=client.error_as_400:{exact}"
    assert error_code(for_python) is None
    assert for_codex.error == for_python.error
    assert for_codex.error["code"] == code


@pytest.mark.parametrize(
    ("status", "document", "expected"),
    [
        (400, {"error": {"message": "What?"}}, 400),
        (429, {"error": {"message": "Slow down"}}, 429),
        (402, {"error": {"message": "Pay"}}, 429),
        (500, {"error": {"message": "Oops"}}, 503),
        (503, {"error": {"message": "overloaded"}}, 503),
    ],
)
async def test_other_failures_have_the_same_status_for_codex(
    tmp_path: Path, status: int, document: Any, expected: int
) -> None:
    async with serving(tmp_path, send_json(status, document)) as gateway:
        answer = await post_as(gateway, CODEX, stream=True)
    assert (answer.status, error_code(answer)) == (expected, None)


async def test_a_context_overflow_is_reported_inside_the_stream(tmp_path: Path) -> None:
    overflow = {"error": {"message": "too long", "code": "context_length_exceeded"}}
    async with serving(tmp_path, send_json(400, overflow)) as gateway:
        answer = await post_as(gateway, CODEX, stream=True)
    assert answer.status == 200
    assert answer.error["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    ("status", "document", "code"),
    [
        (401, LOCKED, "server_error"),
        (403, {"error": {"message": "Not for you"}}, "server_error"),
        (404, {"error": {"message": "no", "code": "model_not_found"}}, "invalid_prompt"),
    ],
)
async def test_a_permanent_error_inside_a_stream_is_final_for_codex(
    tmp_path: Path, status: int, document: Any, code: str
) -> None:
    begun = asyncio.Event()

    async def late(request: ReceivedRequest, connection: Connection) -> None:
        await begun.wait()
        await send_json(status, document)(request, connection)

    async def read_stream(gateway: Running, client: dict[str, str]) -> dict[str, Any]:
        begun.clear()
        url = f"{gateway.base_url}/responses"
        body = {"model": "m", "input": "Hello?", "stream": True}
        data = b""
        async with gateway.client.post(url, json=body, headers=client) as response:
            async for piece in response.content.iter_any():
                data += piece
                begun.set()
        [*_, last] = [json.loads(line[5:]) for line in data.splitlines() if b'"failed"' in line]
        error: dict[str, Any] = last["response"]["error"]
        return error

    async with asyncio.timeout(LIMIT_S), serving(tmp_path, late, commit_after_s=0.02) as gateway:
        for_codex = await read_stream(gateway, CODEX)
        for_python = await read_stream(gateway, PYTHON)
        logged = [each.facts for each in gateway.log if each.event == "response.diagnostics"]
    assert (for_codex["code"], for_python["code"]) == ("invalid_prompt", code)
    assert for_codex["message"] == for_python["message"]
    assert "secret" not in for_codex["message"]
    changed = code != "invalid_prompt"
    assert [each["diagnostics"] for each in logged] == [["client.error_as_400:client"]] * changed


async def test_errors_of_the_gateway_are_400s_for_codex(tmp_path: Path) -> None:
    async with serving(tmp_path, send_frames(HELLO_WORLD), max_body_bytes=1000) as gateway:
        unknown = await post_as(gateway, CODEX, model="nobody/nothing")
        large = await post_as(gateway, CODEX, input="x" * 2000)
        nowhere = await send_raw(gateway, "POST", "/nowhere", b"{}", **CODEX)
        exact = await post_as(gateway, PYTHON, model="nobody/nothing")
    found = [(each.status, error_code(each)) for each in (unknown, large, nowhere, exact)]
    assert found == [
        (400, "1; codes=client.error_as_400:404"),
        (400, "1; codes=client.error_as_400:413"),
        (400, "1; codes=client.error_as_400:404"),
        (404, None),
    ]
    assert unknown.error == exact.error
    assert unknown.error["code"] == "model_not_found"


async def test_a_wrong_key_is_a_400_for_codex(tmp_path: Path) -> None:
    async with serving(tmp_path, send_frames(HELLO_WORLD), api_keys={"me": "right"}) as gateway:
        for_codex = await post_as(gateway, CODEX)
        for_python = await post_as(gateway, PYTHON)
    assert (for_codex.status, for_python.status) == (400, 401)
    assert for_codex.error["code"] == for_python.error["code"] == "invalid_api_key"


async def test_a_websocket_that_is_switched_off_is_still_a_426(tmp_path: Path) -> None:
    async with serving(tmp_path, send_frames(HELLO_WORLD), websocket=False) as gateway:
        headers = {**CODEX, "connection": "upgrade", "upgrade": "websocket"}
        answer = await send_raw(gateway, "GET", "/v1/responses", None, **headers)
    assert (answer.status, error_code(answer)) == (426, None)


async def test_the_error_statuses_of_a_profile_are_configurable(tmp_path: Path) -> None:
    clients = {
        "*": ClientConfig(permanent_errors="400"),
        "codex": ClientConfig(permanent_errors="exact"),
    }
    async with serving(tmp_path, send_frames(HELLO_WORLD), clients) as gateway:
        for_codex = await post_as(gateway, CODEX, model="nobody/nothing")
        for_curl = await post_as(gateway, {"user-agent": "curl/8"}, model="nobody/nothing")
    assert (for_codex.status, for_curl.status) == (404, 400)


# --- refusals -------------------------------------------------------------------------------------

REFUSED = (
    chunk({"role": "assistant", "content": "Well. "}),
    chunk({"refusal": "I cannot"}),
    chunk({"refusal": " do that."}),
    chunk({}, "stop"),
    usage(),
    DONE,
)


def parts(answer: Answer) -> list[tuple[str, str]]:
    messages = [item for item in answer.response["output"] if item["type"] == "message"]
    found = [part for message in messages for part in message["content"]]
    return [(part["type"], part.get("text", part.get("refusal"))) for part in found]


async def test_codex_reads_a_refusal_as_text(tmp_path: Path) -> None:
    async with serving(tmp_path, send_frames(REFUSED)) as gateway:
        for_codex = await post_as(gateway, CODEX, stream=True)
        for_python = await post_as(gateway, PYTHON, stream=True)
        logged = [each for each in gateway.log if each.event == "response.diagnostics"]
    assert parts(for_codex) == [("output_text", "Well. "), ("output_text", "I cannot do that.")]
    assert parts(for_python) == [("output_text", "Well. "), ("refusal", "I cannot do that.")]
    assert [each.facts["diagnostics"] for each in logged] == [["client.refusal_as_text:client"]]


# --- silence --------------------------------------------------------------------------------------


async def read_during_silence(gateway: Running, resume: asyncio.Event) -> bytes:
    """Read a stream that continues after a keep-alive."""
    url = f"{gateway.base_url}/responses"
    body = {"model": "m", "input": "Hello?", "stream": True}
    data = b""
    async with (
        asyncio.timeout(LIMIT_S),
        gateway.client.post(url, json=body, headers=CODEX) as response,
    ):
        async for piece in response.content.iter_any():
            data += piece
            if b"keepalive" in data or b"keep-alive" in data:
                resume.set()
    return data


@pytest.mark.parametrize(
    ("clients", "comments", "events"),
    [({}, False, True), ({"codex": ClientConfig(keepalive="comment")}, True, False)],
    ids=["events", "comments"],
)
async def test_keep_alives_have_the_form_of_the_client_profile(
    tmp_path: Path, clients: dict[str, ClientConfig], *, comments: bool, events: bool
) -> None:
    resume = asyncio.Event()

    async def silent(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        await connection.send(HELLO_WORLD[1])
        await resume.wait()
        for each in HELLO_WORLD[2:]:
            await connection.send(each)
        await connection.end()

    async with serving(tmp_path, silent, clients, keepalive_s=0.03) as gateway:
        data = await read_during_silence(gateway, resume)
        logged = [each.facts for each in gateway.log if each.event == "response.diagnostics"]
    assert (b": keep-alive\n\n" in data, b'"type":"keepalive"' in data) == (comments, events)
    assert data.endswith(b"data: [DONE]\n\n")
    expected = [["client.keepalive:client"]] if comments else []
    assert [each["diagnostics"] for each in logged] == expected


async def test_without_silence_there_are_no_keep_alives(tmp_path: Path) -> None:
    clients = {"*": ClientConfig(keepalive="comment")}
    async with serving(tmp_path, send_frames(HELLO_WORLD), clients) as gateway:
        answer = await post_as(gateway, PYTHON, stream=True)
        logged = [each for each in gateway.log if each.event == "response.diagnostics"]
    assert b": keep-alive" not in answer.body
    assert (error_code(answer), logged) == (None, [])


async def test_no_answer_names_a_model_in_its_headers(tmp_path: Path) -> None:
    """Codex reads `openai-model` as a sign that the request was rerouted."""
    async with serving(tmp_path, send_frames(HELLO_WORLD)) as gateway:
        answer = await post_as(gateway, CODEX, stream=True)
    assert "openai-model" not in answer.headers


# --- mistakes in the file -------------------------------------------------------------------------


async def test_an_unknown_profile_is_a_configuration_error(tmp_path: Path) -> None:
    config = replaced(settings(tmp_path), clients={"codexx": ClientConfig()})
    with pytest.raises(ConfigError) as caught:
        async with running(config):
            raise AssertionError("it must not start")
    assert caught.value.message == (
        "clients.codexx: there is no such profile; did you mean 'codex'?"
    )
