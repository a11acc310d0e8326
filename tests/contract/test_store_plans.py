"""Plans of the statements of the PostgreSQL store: none of them reads a whole table.

Plans for any parameters (`force_generic_plan`), as PostgreSQL makes them for prepared statements.
"""

from __future__ import annotations

import re

import pytest

from antiphon.store.postgres import claims, conversations, retention, runs, store
from antiphon.store.postgres.address import parse_address
from antiphon.store.postgres.migrate import connect, migrate

pytestmark = pytest.mark.anyio

FILL = """
    INSERT INTO turn (id, previous_response_id, expires_at, owner, body)
        SELECT 'r' || n, 'r' || n - 1, n, 'o' || n % 50, '' FROM generate_series(1, 20000) AS n;
    INSERT INTO item SELECT 'i' || n, n % 2 = 0, n, 0 FROM generate_series(1, 20000) AS n;
    INSERT INTO run (turn, status, holder, is_background, is_streamed, request, log_expires_at)
        SELECT n, CASE WHEN n > 19990 THEN 'queued' WHEN n > 19980 THEN 'in_progress'
            ELSE 'completed' END, CASE WHEN n BETWEEN 19981 AND 19990 THEN 'p' || n % 2 END,
            true, true, '', CASE WHEN n <= 19980 THEN n END FROM generate_series(1, 20000) AS n;
    INSERT INTO event_batch SELECT n, k, k, '' FROM generate_series(1, 5000) AS n,
        generate_series(0, 4) AS k;
    INSERT INTO lease VALUES ('p0', 1e12), ('p1', 1e12);
    INSERT INTO conversation (id, owner, created_at, expires_at, metadata)
        SELECT 'c' || n, 'o' || n % 50, 1, n, '' FROM generate_series(1, 5000) AS n;
    INSERT INTO conversation_item (conversation, id, body)
        SELECT n, 'm' || k, '' FROM generate_series(1, 5000) AS n, generate_series(1, 5) AS k;
    INSERT INTO call_state (owner, call, expires_at, body)
        SELECT 'o' || n % 50, 'c' || n, n, '' FROM generate_series(1, 20000) AS n;
    ANALYZE
"""
KEY = "'r7', 'o7', 1"
STATEMENTS = {
    "load a turn": (store._LOAD, KEY),
    "delete a turn": (store._DELETE, KEY),
    "read a chain": (store._CHAIN, f"{KEY}, 10, 1000"),
    "find items": (store._ITEMS, "ARRAY['i7'], 'o7', 1"),
    "find items of conversations": (store._CONVERSATION_ITEMS, "ARRAY['m1'], 'o7', 1"),
    "read turns": (store._BODY, "ARRAY[7]::bigint[]"),
    "renew turns": (store._RENEW, "1, ARRAY['r7']"),
    "claim queued runs": (claims._NEXT, "10"),
    "claim one run": (claims._QUEUED, "'r19995'"),
    "claim expired runs": (claims._EXPIRED, "NULL, 10"),
    "find claimed runs": (claims._CLAIMED, "'p1', 'c'"),
    "read events": (runs._EVENTS, f"{KEY}, 3"),
    "cancel a run": (runs._CANCEL, KEY),
    "list items": (conversations._LIST_DESCENDING, "'c7', 'o7', 1, NULL, 20, 1000"),
    "list all items": (conversations._LIST_ALL, "'c7', 'o7', 1, NULL, 20, 1000"),
    "load an item": (conversations._ITEM, "'c7', 'o7', 1, 'm1'"),
    "unlock": (conversations._UNLOCK, "'c7', 'r7'"),
    "evict": (retention._EVICT, "100"),
    **{f"purge {n}": (query, "100") for n, query in enumerate(retention._PURGES)},
}


async def test_no_statement_reads_a_whole_table(postgres_url: str) -> None:
    address = parse_address(postgres_url)
    await migrate(address)
    connection = await connect(address)
    await connection.execute(FILL)
    await connection.execute("SET plan_cache_mode TO force_generic_plan")
    whole: dict[str, set[str]] = {}
    for name, (query, values) in STATEMENTS.items():
        await connection.execute(f"PREPARE s AS {query}")
        rows = await connection.fetch(f"EXPLAIN EXECUTE s({values})")
        await connection.execute("DEALLOCATE s")
        plan = "\n".join(row[0] for row in rows)
        if found := {*re.findall(r"Seq Scan on (\w+)", plan)} - {"lease", "served_client"}:
            whole[name] = found
    await connection.close()
    assert whole == {}
