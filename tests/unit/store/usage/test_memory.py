"""The usage table in memory keeps its own counts."""

from __future__ import annotations

import pytest

from antiphon.store.usage.memory import MemoryUsageTable
from antiphon.store.usage.usage_table import COUNTS, UsageKey

pytestmark = pytest.mark.anyio


async def test_rows_that_were_read_do_not_change_with_the_table() -> None:
    table, key = MemoryUsageTable(), UsageKey(1, "me", "m", "up")
    await table.add({key: (1,) * len(COUNTS)})
    before = await table.read(0, 2)
    await table.add({key: (1,) * len(COUNTS)})
    assert before[key] == (1,) * len(COUNTS)
