"""The index of items in the SQLite store: what it costs, and what becomes of it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.errors import StoreError
from antiphon.store.sqlite import FIND_ITEM, SCHEMA, SQLiteStore
from antiphon.store.sqlite_file import DatabaseSchema, connect
from tests.support.turns import Clock, ids, turn

pytestmark = pytest.mark.anyio

ITEM = {"type": "message", "id": "x", "role": "assistant", "content": "Hi"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turns.sqlite"


@pytest.fixture
async def sqlite(path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(path, now=Clock())
    await store.open()
    yield store
    await store.close()


async def test_an_item_in_an_unreadable_row_is_an_error_and_the_store_goes_on(
    sqlite: SQLiteStore, path: Path
) -> None:
    await sqlite.save(turn("a", output=(ITEM,)))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER items_replaced")
        connection.execute("UPDATE turn SET body = x'789c00'")
    for _ in range(5):  # more often than there are readers
        with pytest.raises(StoreError, match=r"turns\.sqlite"):
            await sqlite.load_items(["x"])
    await sqlite.save(turn("b", output=({**ITEM, "id": "y"},)))
    assert set(await sqlite.load_items(["y"])) == {"y"}


async def test_no_item_costs_a_scan(sqlite: SQLiteStore, path: Path) -> None:
    statements: list[tuple[str, Any]] = [
        (FIND_ITEM, {"id": "x", "client": "", "now": 0}),
        ("DELETE FROM item WHERE turn = ?", (1,)),
    ]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement, values in statements:
            plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
            steps = [row[3] for row in plan]
            assert steps
            assert [step for step in steps if not step.startswith("SEARCH")] == []


async def test_a_file_of_the_version_before_is_brought_up_to_date(path: Path) -> None:
    before = DatabaseSchema(SCHEMA.application_id, SCHEMA.migrations[:1])
    old = connect(path, before, synchronous="FULL")
    body = msgspec.json.encode(turn("old"))
    old.execute("INSERT INTO turn (id, body) VALUES ('old', ?)", (body,))
    old.close()
    store = SQLiteStore(path, now=Clock())
    await store.open()
    await store.save(turn("new", "old", output=(ITEM,)))
    assert await ids(store, "new") == ["old", "new"]
    assert await store.load_items(["x"]) == {"x": ITEM}
    await store.delete("new")
    await store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute("SELECT count(*) FROM item").fetchone() == (0,)
