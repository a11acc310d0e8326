"""Usage table in the PostgreSQL database of a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from antiphon.store.postgres.address import parse_address
from antiphon.store.postgres.connections import SLOW_S, Connections
from antiphon.store.postgres.migrate import migrate
from antiphon.store.postgres.text import decode_text, encode_text
from antiphon.store.usage.usage_table import COUNTS, Counts, UsageKey

_KEY = UsageKey._fields
_WAIT_S = 10.0

_NOTE = "INSERT INTO usage_addition (id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id"
_FORGET = "DELETE FROM usage_addition WHERE added_at < now() - interval '1 hour'"
_ADD = f"""
    INSERT INTO usage ({", ".join((*_KEY, *COUNTS))})
    VALUES ({", ".join(f"${number + 1}" for number in range(len(_KEY) + len(COUNTS)))})
    ON CONFLICT ({", ".join(_KEY)}) DO UPDATE SET
        {", ".join(f"{name} = usage.{name} + excluded.{name}" for name in COUNTS)}
"""
_READ = f"SELECT {', '.join((*_KEY, *COUNTS))} FROM usage WHERE hour BETWEEN $1 AND $2"
_DELETE = "DELETE FROM usage WHERE hour < $1"


class PostgresUsageTable:
    """A `UsageTable` in the database of a store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def add(self, rows: Mapping[UsageKey, Counts]) -> None:
        id = uuid4().hex
        # In one order for all gateways, so that they do not wait for each other's rows.
        values = sorted((key.hour, *map(encode_text, key[1:]), *rows[key]) for key in rows)

        async def work(connection: Any, is_repeated: bool) -> None:
            async with connection.transaction():
                if await connection.fetchval(_NOTE, id) is not None:
                    await connection.executemany(_ADD, values)

        await self._connections.run(work)

    async def read(self, first_hour: int, last_hour: int) -> dict[UsageKey, Counts]:
        width = len(_KEY)
        return {
            UsageKey(row[0], *map(decode_text, row[1:width])): tuple(row[width:])
            for row in await self._connections.fetch(_READ, first_hour, last_hour, timeout_s=SLOW_S)
        }

    async def delete_before(self, hour: int) -> None:
        await self._connections.fetch(_DELETE, hour, timeout_s=SLOW_S)
        await self._connections.fetch(_FORGET, timeout_s=SLOW_S)


async def read_usage_database(url: str, first_hour: int, last_hour: int) -> dict[UsageKey, Counts]:
    """Read the rows from a database, also while gateways write to it."""
    address = parse_address(url)
    await migrate(address)
    connections = Connections(address, wait_s=_WAIT_S, pool_size=1)
    await connections.open()
    try:
        return await PostgresUsageTable(connections).read(first_hour, last_hour)
    finally:
        await connections.close()
