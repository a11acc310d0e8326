"""Copies of stores."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import StoreError
from antiphon.store.admin.copy import copy_store, open_admin
from antiphon.store.conversation import Conversation
from antiphon.store.run_log import LoggedBatch, RunStart
from antiphon.store.store import Store
from antiphon.store.url import open_store
from antiphon.store.usage.usage_table import COUNTS, UsageKey
from tests.support.turns import Clock, turn

pytestmark = pytest.mark.anyio


def item(id: str, text: str = "") -> dict[str, Any]:
    return {"type": "message", "id": id, "role": "user", "content": text}


async def fill(store: Store, turns: int) -> None:
    """Store everything that a store can contain."""
    for number in range(turns):
        previous = f"r{number - 1}" if number else None
        text = "x" * 20_000 if number % 100 == 0 else ""
        output = (item(f"msg_{number}", text),)
        await store.save(turn(f"r{number}", previous, output=output, client=f"c\x00{number % 3}"))
    await store.save(turn("odd \x00\x01", output=(item("i" * 3000),)))
    await store.delete("r1", client="c\x001")
    await store.runs.begin(turn("queued", status="queued"), RunStart(holder=None, request=b"{}"))
    start = RunStart(holder="p1", is_background=True, is_streamed=True)
    for id in ("running", "ended"):
        token = await store.runs.begin(turn(id, status="in_progress"), start)
        await store.runs.append(id, token, [LoggedBatch(n, n, b"%d\n\n" % n) for n in range(3)])
    await store.runs.finish(turn("ended"), token, [LoggedBatch(3, 4, b"\x00\n\n")])
    await store.usage.add({UsageKey(7, "c\x00", "m", "p"): tuple(range(len(COUNTS)))})
    await store.conversations.create(
        Conversation(id="conv_1", created_at=7, metadata={"a": "b"}, client="me"), [item("a")]
    )
    await store.conversations.append_items("conv_1", [item("c"), item("b" * 900)], client="me")


async def read_all(url: str) -> list[object]:
    return [row async for page in open_admin(url).read_pages() for row in page]


async def make_store(url: str, turns: int) -> None:
    store = open_store(url, now=Clock())
    await store.open()
    try:
        await fill(store, turns)
    finally:
        await store.close()


async def test_a_copy_is_identical(tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "ab"]
    await make_store(urls[0], 5)
    count = await copy_store(*map(open_admin, urls))
    rows = await read_all(urls[0])
    assert count == len(rows) > 15
    assert await read_all(urls[1]) == rows


async def test_only_an_empty_store_is_written(tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "ab"]
    for url in urls:
        await make_store(url, 2)
    before = await read_all(urls[1])
    with pytest.raises(StoreError, match=r"b\.db: the store is not empty \(5 responses, 1 conv"):
        await copy_store(*map(open_admin, urls))
    assert await read_all(urls[1]) == before


async def test_a_store_that_does_not_exist_is_not_copied_and_not_created(tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path}/{name}/turns.db" for name in "ab"]
    with pytest.raises(StoreError, match=r"a/turns\.db: there is no store\. Check its address"):
        await copy_store(*map(open_admin, urls))
    assert os.listdir(tmp_path) == []


async def test_a_store_that_has_usage_is_not_empty(tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "ab"]
    await make_store(urls[0], 2)
    store = open_store(urls[1], now=Clock())
    await store.open()
    await store.usage.add({UsageKey(7, "c\x00", "m", "p"): tuple(range(len(COUNTS)))})
    await store.close()
    with pytest.raises(StoreError, match=r"not empty \(0 responses, 0 conversations, 1 rows of us"):
        await copy_store(*map(open_admin, urls))


async def test_a_store_in_memory_cannot_be_copied() -> None:
    with pytest.raises(StoreError, match="'memory://' is not a store that is kept"):
        open_admin("memory://")


async def test_ten_thousand_chained_turns_survive_a_copy_to_postgresql_and_back(
    tmp_path: Path, postgres_url: str
) -> None:
    urls = [f"sqlite:///{tmp_path}/a.db", postgres_url, f"sqlite:///{tmp_path}/b.db"]
    await make_store(urls[0], 10_000)
    for source, target in pairwise(urls):
        await copy_store(open_admin(source), open_admin(target))
    first, middle, last = [await read_all(url) for url in urls]
    assert len(first) > 10_000
    assert first == middle == last
    store = open_store(postgres_url, now=Clock())
    await store.open()
    await store.save(turn("new", "odd \x00\x01"))  # its number is not that of another one
    assert [one.id for one in await store.chain("new")] == ["odd \x00\x01", "new"]
    assert set(await store.load_items(["i" * 3000, "msg_9"], client="c\x000")) == {
        "i" * 3000,
        "msg_9",
    }
    assert await store.conversations.load_item("conv_1", "b" * 900, client="me") is not None
    await store.close()
