"""The usage table in a SQLite file: read without the store, and by several processes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from antiphon.errors import StoreError
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.usage.sqlite import read_usage_file
from antiphon.store.usage.usage_table import COUNTS, UsageKey

pytestmark = pytest.mark.anyio

KEY = UsageKey(1000, "alice", "m", "up")
ONES = (1,) * len(COUNTS)


async def test_the_file_is_read_while_two_gateways_write_to_it(tmp_path: Path) -> None:
    path = tmp_path / "turns.db"
    stores = [SQLiteStore(path, now=lambda: 0) for _ in range(2)]
    for store in stores:
        await store.open()
        await store.usage.add({KEY: ONES})
    assert read_usage_file(path, 0, 2000) == {KEY: (2,) * len(COUNTS)}
    for store in stores:
        await store.close()


async def test_rows_of_a_closed_store_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "turns.db"
    for _ in range(2):
        store = SQLiteStore(path, now=lambda: 0)
        await store.open()
        await store.usage.add({KEY: ONES})
        await store.close()
    assert read_usage_file(path, 1000, 1000) == {KEY: (2,) * len(COUNTS)}


def test_a_file_of_an_earlier_version_has_no_usage(tmp_path: Path) -> None:
    path = tmp_path / "turns.db"
    sqlite3.connect(path).close()
    assert read_usage_file(path, 0, 2000) == {}


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"turns\.db"):
        read_usage_file(tmp_path / "turns.db", 0, 1)
