"""Unit tests of the library's gateway: whole and streamed answers, errors, diagnostics."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.config import AttemptConfig, Config


@pytest.fixture
async def gateway() -> AsyncIterator[antiphon.Gateway]:
    async with antiphon.open(environment={}) as opened:
        yield opened


async def test_create_returns_the_finished_response(gateway: antiphon.Gateway) -> None:
    response = await gateway.create(model="echo/echo", input="Hello there")
    assert response["status"] == "completed"
    assert antiphon.output_text(response) == "Hello there"


async def test_a_request_may_be_a_document_and_keywords_override_it(
    gateway: antiphon.Gateway,
) -> None:
    document = {"model": "echo/echo", "input": "from the document", "metadata": {"a": "b"}}
    response = await gateway.create(document, input="from the keyword")
    assert antiphon.output_text(response) == "from the keyword"
    assert response["metadata"] == {"a": "b"}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, antiphon.RequestRejected),
        (401, antiphon.AuthenticationFailed),
        (429, antiphon.RateLimited),
        (500, antiphon.ProviderUnavailable),
        (503, antiphon.ProviderUnavailable),
    ],
)
async def test_a_failure_of_the_provider_raises_the_class_of_its_kind(
    status: int, kind: type[antiphon.UpstreamError]
) -> None:
    config = Config(attempts=AttemptConfig(max_attempts=1))
    async with antiphon.open(config, environment={}) as gateway:
        with pytest.raises(kind) as caught:
            await gateway.create(model=f"echo/error-{status}", input="x")
    assert caught.value.provider == "echo"
    assert caught.value.code
    assert str(caught.value) == caught.value.message


async def test_a_missing_key_is_named_without_a_server_to_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)
    async with antiphon.open() as gateway:
        with pytest.raises(antiphon.InvalidRequest, match="MISTRAL_API_KEY") as caught:
            await gateway.create(model="mistral/large", input="Hi")
    assert "gateway" not in caught.value.message


async def test_an_invalid_request_names_its_parameter(gateway: antiphon.Gateway) -> None:
    with pytest.raises(antiphon.InvalidRequest) as caught:
        await gateway.create(model="echo/echo", input="x", temperature=9)
    assert caught.value.param == "temperature"


async def test_a_request_that_is_a_text_is_an_error_that_shows_a_request(
    gateway: antiphon.Gateway,
) -> None:
    request: Any = "Hello"
    with pytest.raises(
        antiphon.InvalidRequest, match="such as create\\(model=…, input=…\\), not 'str'"
    ):
        await gateway.create(request)


async def test_a_request_that_is_not_json_is_invalid(gateway: antiphon.Gateway) -> None:
    with pytest.raises(antiphon.InvalidRequest, match="cannot be encoded as JSON"):
        await gateway.create({"model": "echo/echo", "input": object()})


@pytest.mark.parametrize("stream", [True, False])
async def test_the_method_decides_about_streaming(gateway: antiphon.Gateway, stream: bool) -> None:
    fields: dict[str, Any] = {"model": "echo/echo", "input": "x", "stream": stream}
    call = gateway.create(fields) if stream else gateway.stream(fields).__aenter__()
    with pytest.raises(antiphon.InvalidRequest) as caught:
        await call
    assert caught.value.param == "stream"


async def test_diagnostics_tell_what_was_dropped(gateway: antiphon.Gateway) -> None:
    response = await gateway.create(model="echo/echo", input="x", presence_penalty=1)
    [diagnostic] = gateway.diagnostics(response)
    assert diagnostic["param"] == "presence_penalty"
    plain = await gateway.create(model="echo/echo", input="x")
    assert gateway.diagnostics(plain) == []


async def test_models_are_listed(gateway: antiphon.Gateway) -> None:
    assert "echo/echo" in [model["id"] for model in gateway.models()]


async def test_a_chain_of_responses_lives_in_memory(gateway: antiphon.Gateway) -> None:
    first = await gateway.create(model="echo/echo", input="first")
    second = await gateway.create(
        model="echo/echo", input="second", previous_response_id=first["id"]
    )
    assert second["previous_response_id"] == first["id"]


async def test_nothing_is_written_unless_it_is_configured(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    async with antiphon.open(environment=environment) as gateway:
        await gateway.create(model="echo/echo", input="x")
    assert os.listdir(tmp_path) == []


async def test_a_configuration_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text(f'[models]\nmine = "echo/echo"\n[store]\nurl = "sqlite:///{tmp_path}/t.db"\n')
    async with antiphon.open(path, environment={}) as gateway:
        response = await gateway.create(model="mine", input="x")
    assert response["model"] == "mine"
    assert (tmp_path / "t.db").exists()


async def test_the_first_request_opens_a_gateway_and_close_closes_it() -> None:
    gateway = antiphon.Gateway(environment={})
    with pytest.raises(RuntimeError, match="Open the gateway first"):
        gateway.models()
    first, second = await asyncio.gather(
        gateway.create(model="echo/echo", input="One"),
        gateway.create(model="echo/echo", input="Two"),
    )
    assert (antiphon.output_text(first), antiphon.output_text(second)) == ("One", "Two")
    assert gateway.models()
    await gateway.close()
    await gateway.close()
    with pytest.raises(RuntimeError, match="This gateway is closed"):
        await gateway.create(model="echo/echo", input="Three")


async def test_a_keyword_that_is_nearly_a_field_is_rejected_with_the_field(
    gateway: antiphon.Gateway,
) -> None:
    misspelled: dict[str, Any] = {"model": "echo/echo", "inptu": "x"}
    with pytest.raises(antiphon.InvalidRequest, match="did you mean 'input'") as caught:
        await gateway.create(**misspelled)
    assert caught.value.param == "inptu"
    extension: dict[str, Any] = {"safe_prompt": True}
    response = await gateway.create(model="echo/echo", input="x", **extension)
    assert response["status"] == "completed"


def test_a_stage_that_is_no_class_or_function_is_an_error_that_names_it() -> None:
    stages: Any = ["my_package:MyStage"]
    with pytest.raises(antiphon.ConfigError, match="not 'my_package:MyStage'"):
        antiphon.Gateway(stages=stages)
