"""Conversations in PostgreSQL: lost connections, and writes of several conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from antiphon.errors import InvalidRequest
from antiphon.store.conversation import Conversation
from antiphon.store.postgres.address import parse_address
from antiphon.store.postgres.migrate import connect
from antiphon.store.postgres.store import PostgresStore
from tests.support.postgres_proxy import PostgresProxy
from tests.support.turns import turn
from tests.support.waiting import LIMIT_S, until_async
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


WRITES: dict[str, Callable[[PostgresStore, str], Awaitable[object]]] = {
    "update": lambda store, id: store.conversations.update(id, {}),
    "append": lambda store, id: store.conversations.append_items(id, [item("i1")]),
    "lock": lambda store, id: store.conversations.lock(id, f"response of {id}", "p1"),
    "add": lambda store, id: store.conversations.add_turn(id, turn(f"response of {id}")),
    "save": lambda store, id: store.save(turn(f"response of {id}"), conversation_id=id),
}
_ROW = "SELECT id FROM conversation WHERE id = $1 FOR UPDATE NOWAIT"
_WAITING = """
    SELECT count(*) FROM pg_locks AS lock JOIN pg_class ON pg_class.oid = lock.relation
    WHERE pg_class.oid = 'conversation'::regclass AND lock.locktype = 'tuple'
"""


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_conversations_of_a_batch_are_locked_in_one_order(
    open_store: OpenStore,
    postgres_url: str,
    write: Callable[[PostgresStore, str], Awaitable[object]],
) -> None:
    """Two batches in different orders would wait for each other: a deadlock."""
    store = await open_store(wait_s=LIMIT_S)
    for id in ("c1", "c2"):
        await store.conversations.create(Conversation(id=id, created_at=1), [])
    other = await connect(parse_address(postgres_url))
    async with other.transaction():
        await other.execute(_ROW, "c1")
        writing = asyncio.gather(write(store, "c2"), write(store, "c1"))

        async def is_waiting() -> bool:
            return bool(await other.fetchval(_WAITING))

        await until_async(is_waiting, "it waits for the first conversation")
        assert await other.fetchval(_ROW, "c2") == "c2", "nobody has locked it"
    await writing
    await other.close()
