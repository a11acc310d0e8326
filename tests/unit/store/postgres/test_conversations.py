"""Conversations in PostgreSQL, when connections are lost."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.errors import InvalidRequest
from antiphon.store.conversation import Conversation
from tests.support.postgres_proxy import PostgresProxy
from tests.unit.store.postgres.conftest import OpenStore

pytestmark = pytest.mark.anyio


def item(id: str) -> dict[str, Any]:
    return {"type": "message", "id": id, "role": "user", "content": f"I am {id}"}


async def test_every_write_may_lose_its_reply_and_is_written_once(
    open_store: OpenStore, proxy: PostgresProxy
) -> None:
    conversations = (await open_store()).conversations
    assert await conversations.load("c1") is None  # the connection exists
    proxy.lose_replies = 1
    await conversations.create(Conversation(id="c1", created_at=1), [item("i1")])
    await conversations.append_items("c1", [item("i2")])
    proxy.lose_replies = 1
    await conversations.append_items("c1", [item("i3"), item("i4")])
    page = await conversations.list_items("c1")
    assert page is not None
    assert [each["id"] for each in page.items] == ["i1", "i2", "i3", "i4"]
    with pytest.raises(InvalidRequest, match="the id 'i4' already"):
        await conversations.append_items("c1", [item("i4")])
    proxy.lose_replies = 1
    assert await conversations.delete("c1") is True


async def test_an_item_may_have_a_long_id(open_store: OpenStore) -> None:
    conversations = (await open_store()).conversations
    long = "x" * 100_000
    await conversations.create(Conversation(id="c1", created_at=1), [item(long), item("i2")])
    assert await conversations.load_item("c1", long) == item(long)
    with pytest.raises(InvalidRequest, match="xxx"):
        await conversations.append_items("c1", [item(long)])
    page = await conversations.list_items("c1", after=long)
    assert page is not None
    assert page.items == [item("i2")]
