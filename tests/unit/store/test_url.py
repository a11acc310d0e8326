"""Selection of a store by URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.errors import StoreError
from antiphon.store.memory import MemoryStore
from antiphon.store.url import open_store
from tests.support.turns import Clock, turn

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_memory_url_selects_the_memory_store(clock: Clock) -> None:
    assert isinstance(open_store("memory://", now=clock), MemoryStore)


def test_no_file_is_created_before_the_store_is_opened(tmp_path: Path, clock: Clock) -> None:
    open_store(f"sqlite:///{tmp_path}/data/turns.sqlite", now=clock)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
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
