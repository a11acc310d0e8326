"""Turns without an owner: counted in files of every version."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.errors import StoreDamaged
from antiphon.store.admin.sqlite_admin import TurnsWithoutOwner, count_turns_without_owner
from antiphon.store.sqlite.store import SQLiteStore
from tests.support.turns import Clock, turn


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turns.sqlite"


async def test_only_turns_without_an_owner_that_have_not_expired_are_counted(path: Path) -> None:
    store = SQLiteStore(path, now=Clock())
    await store.open()
    await store.save(turn("owned", client="me", expires_at=300))
    await store.save(turn("expired", expires_at=100))
    await store.save(turn("alive", expires_at=200))
    assert count_turns_without_owner(path, 150) == TurnsWithoutOwner(1, 200)
    await store.save(turn("for ever", expires_at=2**62))
    assert count_turns_without_owner(path, 150) == TurnsWithoutOwner(2, None)
    await store.close()


def test_a_missing_or_empty_file_has_none(path: Path) -> None:
    assert count_turns_without_owner(path, 0) == TurnsWithoutOwner()
    assert not path.exists()
    path.touch()
    assert count_turns_without_owner(path, 0) == TurnsWithoutOwner()


def test_a_damaged_file_is_an_error(path: Path) -> None:
    path.write_bytes(b"no database at all, " * 100)
    with pytest.raises(StoreDamaged):
        count_turns_without_owner(path, 0)
