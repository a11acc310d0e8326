"""GET /v1/models: the list and its entity tag; one model by its name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import structs

from antiphon.config import DiscoveryConfig, ModelConfig, ProviderConfig, VisionConfig
from tests.support.applications import (
    LOCAL,
    document_of,
    echo_config,
    error_of,
    open_application,
)
from tests.support.model_lists import ListServer, list_server
from tests.support.waiting import until


async def test_the_list_has_the_shape_of_openai_and_that_of_codex() -> None:
    async with open_application() as opened:
        response = await opened.request("GET", "/v1/models")
    document = document_of(response)
    assert response.status == 200
    assert [each["id"] for each in document["data"]] == [
        each["slug"] for each in document["models"]
    ]
    assert document["antiphon"]["default_model"] == "echo/echo"


async def test_a_list_that_the_client_already_has_is_a_304_without_a_body() -> None:
    async with open_application() as opened:
        first = await opened.request("GET", "/v1/models")
        known = {**LOCAL, "if-none-match": first.headers["etag"]}
        second = await opened.request("GET", "/v1/models", headers=known)
        other = {**LOCAL, "if-none-match": '"another"'}
        third = await opened.request("GET", "/v1/models", headers=other)
    assert (second.status, second.body) == (304, b"")
    assert second.headers["etag"] == first.headers["etag"]
    assert third.status == 200


async def test_every_model_takes_images_if_a_vision_model_describes_them() -> None:
    vision = VisionConfig(model="echo/echo")
    async with open_application(structs.replace(echo_config(), vision=vision)) as opened:
        document = document_of(await opened.request("GET", "/v1/models"))
    assert all("image" in each["input_modalities"] for each in document["models"])


@pytest.mark.parametrize("name", ["echo/echo", "echo", "first/model with spaces", "first/maker/m"])
async def test_a_model_is_retrieved_by_any_name_that_a_request_may_use(name: str) -> None:
    first = ProviderConfig(kind="chat", base_url="http://127.0.0.1:9/v1")
    config = structs.replace(echo_config(), providers={"first": first})
    async with open_application(config) as opened:
        response = await opened.request("GET", f"/v1/models/{name}")
    assert response.status == 200
    owner = "echo" if name.startswith("echo") else "first"
    expected = {"id": name, "object": "model", "created": 0, "owned_by": owner}
    assert document_of(response) == expected


@pytest.mark.parametrize("name", ["echo/ech", "nobody/model"])
async def test_an_unknown_model_is_a_404_with_the_code_of_the_api(name: str) -> None:
    async with open_application() as opened:
        response = await opened.request("GET", f"/v1/models/{name}")
    assert (response.status, error_of(response)["code"]) == (404, "model_not_found")


async def test_a_model_cannot_be_deleted() -> None:
    async with open_application() as opened:
        response = await opened.request("DELETE", "/v1/models/echo/echo")
    assert (response.status, response.headers["allow"]) == (405, "GET, HEAD")


async def test_models_of_the_own_list_of_a_provider_are_listed_without_waiting() -> None:
    gate = asyncio.Event()
    served = b'{"data": [{"id": "mine"}, {"id": "big"}]}'
    async with list_server(ListServer(served, gate=gate)) as server:
        lab = ProviderConfig(kind="chat", base_url=server.url, models={"big": ModelConfig()})
        config = structs.replace(echo_config(), providers={"lab": lab})
        async with open_application(config) as opened:
            first = document_of(await opened.request("GET", "/v1/models"))
            assert "lab/mine" not in names_of(first)
            gate.set()
            setup = opened.application.process.setup
            await until(setup.discovered_models, "the list has arrived")
            listed = document_of(await opened.request("GET", "/v1/models"))
            one = await opened.request("GET", "/v1/models/lab/mine")
    assert names_of(listed) == [*names_of(first), "lab/mine"]
    assert [each["slug"] for each in listed["models"]][-1] == "lab/mine"
    assert one.status == 200


async def test_discovery_can_be_switched_off() -> None:
    config = structs.replace(echo_config(), discovery=DiscoveryConfig(enabled=False))
    async with open_application(config) as opened:
        assert opened.application.process.setup.discovered_models() == ()
        assert (await opened.request("GET", "/v1/models")).status == 200


def names_of(document: dict[str, Any]) -> list[str]:
    return [model["id"] for model in document["data"]]
