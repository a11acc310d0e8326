"""The memory store: expiry, eviction and its index of items."""

from __future__ import annotations

import pytest

from antiphon.store.memory import MAX_TURNS, PURGE_EVERY_S, MemoryStore
from antiphon.store.store import Store, StoreLimits
from tests.support.turns import Clock, build_chain, chain_ids, turn

pytestmark = pytest.mark.anyio


async def present(store: Store, *wanted: str) -> list[str]:
    return [id for id in wanted if await store.load(id) is not None]


async def test_expired_turns_are_removed_before_any_is_evicted() -> None:
    clock = Clock()
    store = MemoryStore(now=clock, limits=StoreLimits(max_turns=2))
    await store.save(turn("oldest"))
    await store.save(turn("brief", expires_at=clock.now + 1))
    clock.now += PURGE_EVERY_S
    await store.save(turn("new"))
    assert await present(store, "oldest", "brief", "new") == ["oldest", "new"]


async def test_a_continued_chain_is_evicted_last() -> None:
    store = MemoryStore(now=Clock(), limits=StoreLimits(max_turns=3))
    for one in (turn("a"), turn("b", "a"), turn("lonely")):
        await store.save(one)
    assert await chain_ids(store, "b") == ["a", "b"]
    await store.save(turn("c", "b"))
    assert await present(store, "a", "b", "lonely", "c") == ["a", "b", "c"]


async def test_evicted_turns_leave_no_entry_in_the_item_index() -> None:
    store = MemoryStore(now=Clock(), limits=StoreLimits(max_turns=2))
    for number in range(5):
        item = {"type": "message", "id": f"i{number}", "role": "assistant", "content": "Hi"}
        await store.save(turn(f"r{number}", output=(item,)))
    assert set(await store.load_items([f"i{number}" for number in range(5)])) == {"i3", "i4"}
    assert len(store._turns_by_item) == 2


async def test_the_memory_store_is_bounded_by_default() -> None:
    store = MemoryStore(now=Clock())
    for one in build_chain(MAX_TURNS + 2):
        await store.save(one)
    assert await present(store, "r0", "r1", "r2", f"r{MAX_TURNS + 1}") == [
        "r2",
        f"r{MAX_TURNS + 1}",
    ]
