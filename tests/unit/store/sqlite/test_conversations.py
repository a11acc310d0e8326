"""Conversations in SQLite: what stays in the file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from antiphon.store.conversation import Conversation
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.turn import StoreLimits
from tests.support.turns import Clock
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


def count_rows(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("conversation", "conversation_item")
        ]


async def test_deleted_and_expired_conversations_leave_no_rows(tmp_path: Path) -> None:
    path, clock = tmp_path / "turns.sqlite", Clock()
    items = [{"type": "message", "id": f"i{n}", "role": "user", "content": "x"} for n in range(3)]
    store = SQLiteStore(path, now=clock, limits=StoreLimits(ttl_s=100))
    await store.open()
    for id in ("a", "b"):
        await store.conversations.create(Conversation(id=id, created_at=0), items)
    assert count_rows(path) == [2, 6]
    await store.conversations.delete("a")
    assert count_rows(path) == [1, 3]
    await store.close()
    clock.now += 100
    store = SQLiteStore(path, now=clock, limits=StoreLimits(ttl_s=100))
    await store.open()
    await until(lambda: count_rows(path) == [0, 0], "the maintenance in the writer's thread")
    await store.close()
