"""Usage in PostgreSQL, when connections are lost."""

from __future__ import annotations

import pytest

from antiphon.store.postgres.usage import read_usage_database
from antiphon.store.usage.usage_table import COUNTS, UsageKey
from tests.support.postgres_proxy import PostgresProxy
from tests.unit.store.postgres.conftest import OpenStore

pytestmark = pytest.mark.anyio

KEY = UsageKey(1000, "ali\x00ce", "m", "up")
ONES = (1,) * len(COUNTS)


async def test_counts_whose_reply_was_lost_are_added_once(
    open_store: OpenStore, proxy: PostgresProxy
) -> None:
    store = await open_store()
    await store.usage.add({KEY: ONES})
    proxy.lose_replies = 1
    await store.usage.add({KEY: ONES})
    assert await store.usage.read(0, 5000) == {KEY: (2,) * len(COUNTS)}
    assert await read_usage_database(proxy.url, 1000, 1000) == {KEY: (2,) * len(COUNTS)}
    await store.usage.delete_before(1001)
    assert await store.usage.read(0, 5000) == {}
