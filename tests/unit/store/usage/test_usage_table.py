"""The usage table of every backend: counts are added, read by hour, and deleted by age."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.store.store import Store
from antiphon.store.url import open_store
from antiphon.store.usage.usage_table import COUNTS, Counts, UsageKey, add_counts, merge_counts
from tests.support.postgres import PostgresServer
from tests.support.store_backends import NAMES, make_url

pytestmark = pytest.mark.anyio

ALICE = UsageKey(1000, "alice", "m", "up")
BOB = UsageKey(1001, "bob", "m", "up")


def counts(first: int) -> Counts:
    return tuple(range(first, first + len(COUNTS)))


@pytest.fixture(params=NAMES)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer | None
) -> AsyncIterator[Store]:
    url = make_url(request.param, tmp_path, postgres_server)
    store = open_store(url, now=lambda: 0)
    await store.open()
    yield store
    await store.close()


async def test_counts_are_added_to_those_of_their_row(store: Store) -> None:
    await store.usage.add({ALICE: counts(0), BOB: counts(5)})
    await store.usage.add({ALICE: counts(100)})
    rows = await store.usage.read(0, 5000)
    assert rows == {ALICE: add_counts(counts(0), counts(100)), BOB: counts(5)}


async def test_rows_are_read_by_their_hour(store: Store) -> None:
    await store.usage.add({ALICE: counts(0), BOB: counts(5)})
    assert list(await store.usage.read(1000, 1000)) == [ALICE]
    assert list(await store.usage.read(1001, 1001)) == [BOB]
    assert await store.usage.read(1002, 5000) == {}


async def test_old_rows_are_deleted(store: Store) -> None:
    await store.usage.add({ALICE: counts(0), BOB: counts(5)})
    await store.usage.delete_before(1001)
    assert list(await store.usage.read(0, 5000)) == [BOB]


def test_merging_adds_what_has_the_same_key() -> None:
    rows = {ALICE: counts(0)}
    merge_counts(rows, [(ALICE, counts(1)), (BOB, counts(2))])
    assert rows == {ALICE: add_counts(counts(0), counts(1)), BOB: counts(2)}
