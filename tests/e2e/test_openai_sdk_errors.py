"""Errors as the official `openai` client raises them: classes, codes and parameters."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest

from tests.support.gateways import running, settings
from tests.support.openai_client import echo_client, openai_client, scripted_client
from tests.support.upstream import send_json


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("model", "expected", "code", "param"),
    [
        ("echo/error-400", openai.BadRequestError, "invalid_prompt", None),
        ("nobody/nothing", openai.NotFoundError, "model_not_found", "model"),
        ("echo/error-429", openai.RateLimitError, "rate_limit_exceeded", None),
        ("echo/error-500", openai.InternalServerError, "server_error", None),
    ],
)
async def test_an_error_has_the_class_code_and_parameter_of_the_api(
    tmp_path: Path,
    streamed: bool,
    model: str,
    expected: type[openai.APIStatusError],
    code: str,
    param: str | None,
) -> None:
    async with echo_client(tmp_path) as client:
        with pytest.raises(expected) as caught:
            await client.responses.create(model=model, input="x", stream=streamed)
        assert (caught.value.code, caught.value.param) == (code, param)
        assert caught.value.request_id is not None


async def test_an_invalid_request_error_names_its_parameter(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="echo/echo", input="x", temperature=9)
        assert (caught.value.param, caught.value.type) == ("temperature", "invalid_request_error")


async def test_a_wrong_key_is_an_authentication_error(tmp_path: Path) -> None:
    config = settings(tmp_path, api_keys={"alice": "sk-alice"})
    async with running(config) as gateway, openai_client(gateway) as client:
        with pytest.raises(openai.AuthenticationError) as caught:
            await client.models.list()
        assert caught.value.code == "invalid_api_key"
        known = client.with_options(api_key="sk-alice")
        assert (await known.responses.create(model="echo/echo", input="x")).output_text == "x"


async def test_a_failure_in_the_middle_is_a_failed_response(tmp_path: Path) -> None:
    async with echo_client(tmp_path) as client:
        for model in ("echo/error-midway", "echo/cut"):
            stream = await client.responses.create(model=model, input="one two", stream=True)
            last = [event async for event in stream][-1]
            assert last.type == "response.failed"
            assert last.response.output_text == "one two"
            assert last.response.error is not None
            assert last.response.error.code == "server_error"


async def test_a_context_overflow_is_reported_inside_a_stream_or_as_a_400(tmp_path: Path) -> None:
    body = {"error": {"message": "too long", "code": "context_length_exceeded"}}
    async with (
        scripted_client(tmp_path, send_json(400, body)) as (client, setup),
        openai_client(setup.gateway, strict=False) as lenient,  # the strict one lacks this code
    ):
        stream = await lenient.responses.create(model="m", input="x", stream=True)
        last = [event async for event in stream][-1]
        assert last.type == "response.failed"
        assert last.response.error is not None
        assert str(last.response.error.code) == "context_length_exceeded"
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="m", input="x")
        assert caught.value.code == "context_length_exceeded"


async def test_retry_after_is_obeyed_by_the_client(tmp_path: Path) -> None:
    limited = send_json(429, {"error": {"message": "slow", "code": "x"}}, retry_after="0.01")
    async with scripted_client(tmp_path, limited) as (client, setup):
        with pytest.raises(openai.RateLimitError) as caught:
            await client.with_options(max_retries=2).responses.create(model="m", input="x")
        assert caught.value.response.headers["retry-after-ms"] == "10"
        assert len(setup.upstream.requests) == 3
