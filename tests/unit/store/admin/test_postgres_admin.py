"""Work on a PostgreSQL store as a whole."""

from __future__ import annotations

import pytest

from antiphon.store.admin.postgres_admin import PostgresAdmin
from antiphon.store.postgres.address import parse_address
from antiphon.store.postgres.schema import MIGRATIONS
from antiphon.store.postgres.store import PostgresStore
from antiphon.store.usage.usage_table import COUNTS, UsageKey
from tests.support.turns import Clock, turn

pytestmark = pytest.mark.anyio

NEWEST = len(MIGRATIONS)


async def test_the_state_of_a_database_is_read_and_it_is_pruned(postgres_url: str) -> None:
    admin = PostgresAdmin(parse_address(postgres_url))
    state = await admin.read_state()
    assert (state.version, state.newest_version, state.is_empty) == (0, NEWEST, True)
    assert await admin.migrate() == (0, NEWEST)
    clock = Clock()
    store = PostgresStore(postgres_url, now=clock)
    await store.open()
    for number in range(3):
        await store.save(turn(f"r{number}", expires_at=clock.now + 10 * number + 10))
    await store.usage.add({UsageKey(7, "c", "m", "p"): tuple(range(len(COUNTS)))})
    await store.close()
    assert (await admin.read_state()).responses == 3
    assert await admin.prune(clock.now + 20) == 2
    state = await admin.read_state()
    assert (state.responses, state.usage_rows) == (1, 1)
