"""Recent turns: chains over connection and store, limits, eviction and item references."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from antiphon.errors import ChainNotFound
from antiphon.server.websocket.recent_turns import RecentTurns, RememberedBytes
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.store import Turn
from tests.support.stores import OpenMemory


def turn(id: str, parent: str | None = None, **items: Any) -> Turn:
    return Turn(
        id=id,
        previous_response_id=parent,
        created_at=0,
        status="completed",
        model="m",
        provider="p",
        encoded=Raw(b"{}"),
        **items,
    )


async def make_turns(open_memory: OpenMemory, **limits: int) -> tuple[RecentTurns, SQLiteStore]:
    store = await open_memory()
    return RecentTurns(store, RememberedBytes(), "", **limits), store


def add(turns: RecentTurns, each: Turn, size: int = 1, lane: str | None = None) -> None:
    turns.add(each, size, lane, turns.find(each.previous_response_id))


def knows(turns: RecentTurns, response_id: str) -> bool:
    return turns.find(response_id) is not None


async def ids(turns: RecentTurns, response_id: str) -> list[str]:
    return [each.id for each in await turns.chain(response_id)]


async def test_a_chain_begins_in_the_store_and_goes_on_in_the_connection(
    open_memory: OpenMemory,
) -> None:
    turns, store = await make_turns(open_memory)
    await store.save(turn("stored", None))
    add(turns, turn("a", "stored"))
    add(turns, turn("b", "a"))
    assert await ids(turns, "b") == ["stored", "a", "b"]
    assert await ids(turns, "stored") == ["stored"]
    assert knows(turns, "b")
    assert not knows(turns, "stored")


async def test_the_turns_of_one_client_are_limited_on_all_its_connections(
    open_memory: OpenMemory,
) -> None:
    store = await open_memory()
    remembered = RememberedBytes(10)
    idle, busy = (RecentTurns(store, remembered, "a") for _ in range(2))
    other = RecentTurns(store, remembered, "b")
    for turns, id in ((idle, "one"), (idle, "two"), (busy, "three"), (other, "four")):
        add(turns, turn(id), size=4)
    assert [knows(idle, "one"), knows(idle, "two"), knows(busy, "three")] == [False, True, True]
    assert knows(other, "four")
    add(busy, turn("five"), size=4)
    assert [knows(idle, "two"), knows(busy, "three"), knows(busy, "five")] == [False, True, True]
    busy.evict("five", None)
    add(idle, turn("six"), size=4)
    assert [knows(busy, "three"), knows(idle, "six")] == [True, True]
    busy.close()
    add(idle, turn("seven"), size=6)
    assert [knows(idle, "six"), knows(idle, "seven")] == [True, True]
    add(idle, turn("eight"), size=11)
    assert not knows(idle, "eight")


async def test_a_turn_is_loaded_from_the_connection_or_the_store(open_memory: OpenMemory) -> None:
    turns, store = await make_turns(open_memory)
    recent = turn("recent")
    await store.save(turn("stored"))
    add(turns, recent)
    assert await turns.load("recent") is recent
    assert await turns.load("stored") == await store.load("stored") is not None
    assert await turns.load("nothing") is None


async def test_an_unknown_turn_is_not_found(open_memory: OpenMemory) -> None:
    turns, _ = await make_turns(open_memory)
    with pytest.raises(ChainNotFound):
        await turns.chain("nothing")


async def test_the_oldest_turns_are_forgotten_but_not_out_of_a_chain(
    open_memory: OpenMemory,
) -> None:
    turns, _ = await make_turns(open_memory, max_turns=2)
    add(turns, turn("a"))
    add(turns, turn("b", "a"))
    add(turns, turn("c", "b"))
    assert not knows(turns, "a")
    assert await ids(turns, "c") == ["a", "b", "c"]


async def test_a_turn_that_is_continued_is_forgotten_last(open_memory: OpenMemory) -> None:
    turns, _ = await make_turns(open_memory, max_turns=2)
    add(turns, turn("a"))
    add(turns, turn("b"))
    await turns.chain("a")
    add(turns, turn("c"))
    assert (knows(turns, "a"), knows(turns, "b")) == (True, False)


async def test_the_bytes_of_all_turns_are_limited(open_memory: OpenMemory) -> None:
    turns, _ = await make_turns(open_memory, max_bytes=10)
    add(turns, turn("a"), 6)
    add(turns, turn("b"), 5)
    assert (knows(turns, "a"), knows(turns, "b")) == (False, True)
    add(turns, turn("c", "b"), 6)
    assert (knows(turns, "b"), knows(turns, "c")) == (False, False)


async def test_a_failed_continuation_evicts_its_parent_on_the_same_lane(
    open_memory: OpenMemory,
) -> None:
    turns, _ = await make_turns(open_memory)
    add(turns, turn("a"), lane="lane")
    turns.evict("a", None)
    assert knows(turns, "a")
    turns.evict("a", "lane")
    turns.evict("unknown", "lane")
    assert not knows(turns, "a")


async def test_an_evicted_turn_is_read_from_the_store_if_it_is_there(
    open_memory: OpenMemory,
) -> None:
    turns, store = await make_turns(open_memory)
    await store.save(turn("a"))
    add(turns, turn("a"))
    turns.evict("a", None)
    assert await ids(turns, "a") == ["a"]


async def test_items_are_found_in_the_connection_and_in_the_store(open_memory: OpenMemory) -> None:
    turns, store = await make_turns(open_memory)
    await store.save(turn("stored", output=({"id": "s", "type": "message"},)))
    given, made = {"id": "i", "type": "message"}, {"id": "o", "type": "message", "n": 1}
    add(turns, turn("a", input=(given,), output=(made,)))
    reference = {"id": "o", "type": "item_reference"}
    add(turns, turn("b", "a", input=(reference, {**made, "n": 2})))
    found = await turns.load_items(["s", "i", "o", "unknown"])
    assert found["s"] == {"id": "s", "type": "message"}
    assert found["i"] == given
    assert found["o"] == made, "output items come before input items"
    assert "unknown" not in found
    assert await turns.load_items(["o"]) == {"o": made}


async def test_a_turn_that_is_forgotten_while_it_is_continued_stays_in_the_chain(
    open_memory: OpenMemory,
) -> None:
    turns, _ = await make_turns(open_memory, max_turns=1)
    add(turns, turn("a"))
    parent = turns.find("a")
    add(turns, turn("other"))
    assert not knows(turns, "a")
    turns.add(turn("b", "a"), 1, None, parent)
    assert await ids(turns, "b") == ["a", "b"]
