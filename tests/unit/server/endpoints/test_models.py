"""GET /v1/models: the list and its entity tag."""

from __future__ import annotations

from msgspec import structs

from antiphon.config import VisionConfig
from tests.support.applications import LOCAL, document_of, echo_config, open_application


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
