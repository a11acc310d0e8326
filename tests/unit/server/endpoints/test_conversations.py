"""Conversations without a socket: shapes of answers, and errors of each endpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.applications import OpenApplication, document_of, error_of, open_application
from tests.support.tables import table

HELLO = {"role": "user", "content": "Hello?"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "…"}


async def send(opened: OpenApplication, method: str, path: str, body: Any = None) -> Any:
    data = b"" if body is None else json.dumps(body).encode()
    return await opened.request(method, f"/v1/conversations{path}", data)


async def test_a_conversation_has_the_fields_of_the_api() -> None:
    async with open_application() as opened:
        created = document_of(await send(opened, "POST", "", {"metadata": {"a": "b"}}))
        assert created.keys() == {"id", "object", "created_at", "metadata"}
        assert (created["object"], created["metadata"]) == ("conversation", {"a": "b"})
        listed = document_of(await send(opened, "GET", f"/{created['id']}/items"))
    assert listed == {
        "object": "list",
        "data": [],
        "first_id": "",
        "last_id": "",
        "has_more": False,
    }


async def test_encrypted_reasoning_is_not_shown_by_default() -> None:
    async with open_application() as opened:
        created = document_of(await send(opened, "POST", "", {"items": [REASONING, HELLO]}))
        path = f"/{created['id']}/items"
        shown = {"type": "reasoning", "id": "rs_1", "summary": []}
        assert document_of(await send(opened, "GET", f"{path}/rs_1")) == shown
        listed = document_of(await send(opened, "GET", path))
        assert listed["data"][1] == shown
        more = {"items": [{**REASONING, "id": "rs_2"}]}
        added = document_of(await send(opened, "POST", path, more))
        assert added["data"] == [{**shown, "id": "rs_2"}]


async def test_an_item_may_refer_to_a_stored_one() -> None:
    async with open_application() as opened:
        answer = document_of(await opened.create())
        said = answer["output"][0]
        reference = {"type": "item_reference", "id": said["id"]}
        created = document_of(await send(opened, "POST", "", {"items": [reference]}))
        item = document_of(await send(opened, "GET", f"/{created['id']}/items/{said['id']}"))
    assert (item["id"], item["content"]) == (said["id"], said["content"])


@table(
    ("method", "path", "body"),
    [
        ("GET", "/conv_1", None),
        ("POST", "/conv_1", {"metadata": {}}),
        ("DELETE", "/conv_1", None),
        ("GET", "/conv_1/items", None),
        ("POST", "/conv_1/items", {"items": [HELLO]}),
        ("GET", "/conv_1/items/msg_1", None),
        ("DELETE", "/conv_1/items/msg_1", None),
    ],
)
async def test_an_unknown_conversation_is_404(method: str, path: str, body: Any) -> None:
    async with open_application() as opened:
        response = await send(opened, method, path, body)
    assert response.status == 404
    assert error_of(response)["message"] == "Conversation with id 'conv_1' not found."


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_an_unknown_item_is_404(method: str) -> None:
    async with open_application() as opened:
        id = document_of(await send(opened, "POST", "", {}))["id"]
        response = await send(opened, method, f"/{id}/items/msg_1")
    assert response.status == 404
    expected = f"Item with id 'msg_1' not found in conversation '{id}'."
    assert error_of(response)["message"] == expected


async def test_an_item_with_a_known_id_is_rejected() -> None:
    async with open_application() as opened:
        id = document_of(await send(opened, "POST", "", {"items": [REASONING]}))["id"]
        response = await send(opened, "POST", f"/{id}/items", {"items": [HELLO, REASONING]})
    assert (response.status, error_of(response)["param"]) == (400, "items")
