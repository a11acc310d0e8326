"""Selection of a store by URL."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from antiphon.errors import StoreError
from antiphon.store.url import hide_password, is_shared, open_store, password_of
from tests.support.tables import table
from tests.support.turns import Clock, turn

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_a_memory_url_selects_a_store_without_a_file(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("memory://", now=clock)
    assert store.name == "memory"
    await store.open()
    await store.save(turn("a"))
    await store.close()
    assert os.listdir(tmp_path) == []


def test_no_file_is_created_before_the_store_is_opened(tmp_path: Path, clock: Clock) -> None:
    open_store(f"sqlite:///{tmp_path}/data/turns.sqlite", now=clock)
    assert not list(tmp_path.iterdir())


@table(
    "url", ["", "sqlite://", "sqlite:///", "sqlite:///:memory:", "turns.sqlite", "memory:", "x://y"]
)
def test_an_unsupported_url_is_refused_with_the_supported_forms(url: str, clock: Clock) -> None:
    with pytest.raises(StoreError, match="is not a supported store URL") as caught:
        open_store(url, now=clock)
    assert repr(url) in caught.value.message


async def test_a_path_after_three_slashes_is_relative_and_after_four_absolute(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite:///here/a b?.sqlite", f"sqlite:///{tmp_path}/there/c%20d.sqlite"):
        store = open_store(url, now=clock)
        await store.open()
        await store.save(turn("a"))
        assert await store.load("a") is not None
        await store.close()
    assert (tmp_path / "here" / "a b?.sqlite").exists()
    assert (tmp_path / "there" / "c%20d.sqlite").exists()


def test_a_postgresql_url_is_a_shared_store_and_its_password_stays_hidden(clock: Clock) -> None:
    url = "postgresql://me:s%40fe@db.example:5433/main"
    assert open_store(url, now=clock, wait_s=1.0).name == "postgresql://db.example:5433/main"
    assert is_shared(url)
    assert not is_shared("sqlite:///turns.db")
    assert hide_password(url) == "postgresql://db.example:5433/main"
    assert hide_password("postgresql:///main?password=x") == "postgresql:///main"
    assert hide_password("sqlite:////data/a?b@c.db") == "sqlite:////data/a?b@c.db"
    assert password_of(url) == ["s%40fe", "s@fe"]
    assert password_of("memory://") == []


def test_a_database_without_its_driver_is_refused_before_it_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(StoreError, match=f"pip --python {sys.executable} install asyncpg"):
        open_store("postgresql://me@db/x", now=lambda: 0)
