"""Conversations in memory are bounded in number and bytes."""

from __future__ import annotations

import pytest

from antiphon.store.conversation import Conversation
from antiphon.store.memory import MemoryStore
from antiphon.store.turn import StoreLimits
from tests.support.turns import Clock

pytestmark = pytest.mark.anyio


async def create(store: MemoryStore, id: str, size: int = 1) -> None:
    item = {"type": "message", "id": "i", "role": "user", "content": "x" * size}
    await store.conversations.create(Conversation(id=id, created_at=0), [item])


async def present(store: MemoryStore, *wanted: str) -> list[str]:
    return [id for id in wanted if await store.conversations.load(id) is not None]


async def test_the_conversation_that_was_not_used_for_longest_is_removed_first() -> None:
    store = MemoryStore(now=Clock(), limits=StoreLimits(max_turns=2))
    await create(store, "a")
    await create(store, "b")
    await store.conversations.load("a")
    await create(store, "c")
    assert await present(store, "a", "b", "c") == ["a", "c"]


async def test_conversations_are_bounded_in_bytes_and_deleted_items_do_not_count() -> None:
    store = MemoryStore(now=Clock(), limits=StoreLimits(max_bytes=10_000))
    for _ in range(9):
        await create(store, "a", 6000)
        await store.conversations.delete_item("a", "i")
    await create(store, "b", 6000)
    assert await present(store, "a", "b") == ["a", "b"]
    await create(store, "c", 6000)
    assert await present(store, "a", "b", "c") == ["c"]
