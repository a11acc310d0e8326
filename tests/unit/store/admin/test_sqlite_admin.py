"""Work on a SQLite store as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.store.admin.sqlite_admin import SQLiteAdmin
from antiphon.store.sqlite.schema import SCHEMA
from antiphon.store.sqlite.store import SQLiteStore
from tests.support.turns import Clock, turn

pytestmark = pytest.mark.anyio

NEWEST = len(SCHEMA.migrations)


async def test_the_state_of_a_store_is_read_without_creating_it(tmp_path: Path) -> None:
    path = tmp_path / "turns.db"
    admin = SQLiteAdmin(path)
    state = await admin.read_state()
    assert (state.version, state.newest_version, state.is_empty) == (0, NEWEST, True)
    assert not path.exists()
    assert await admin.migrate() == (0, NEWEST)
    assert await admin.migrate() == (NEWEST, NEWEST)


async def test_what_has_expired_is_pruned(tmp_path: Path) -> None:
    clock = Clock()
    store = SQLiteStore(tmp_path / "turns.db", now=clock)
    await store.open()
    for number in range(3):
        await store.save(turn(f"r{number}", expires_at=clock.now + 10 * number + 10))
    await store.close()
    admin = SQLiteAdmin(tmp_path / "turns.db")
    assert (await admin.read_state()).responses == 3
    assert await admin.prune(clock.now + 20) == 2
    assert await admin.prune(clock.now + 20) == 0
    assert (await admin.read_state()).responses == 1
