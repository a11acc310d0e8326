"""Migrations of the PostgreSQL schema."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.errors import StoreError
from antiphon.store.postgres.address import parse_address
from antiphon.store.postgres.migrate import connect, migrate, read_version
from antiphon.store.postgres.schema import MIGRATIONS
from tests.support.postgres_proxy import PostgresProxy
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

NEWEST = len(MIGRATIONS)


async def test_an_empty_database_is_migrated_once(postgres_url: str) -> None:
    address = parse_address(postgres_url)
    assert await read_version(address) == 0
    found = await asyncio.gather(*(migrate(address) for _ in range(4)))
    assert sorted(found) == [(0, NEWEST), *[(NEWEST, NEWEST)] * 3]
    assert await read_version(address) == NEWEST


async def test_a_newer_schema_is_refused(postgres_url: str) -> None:
    address = parse_address(postgres_url)
    await migrate(address)
    connection = await connect(address)
    await connection.execute("UPDATE schema_version SET version = version + 1")
    await connection.close()
    with pytest.raises(StoreError, match=r"by a newer version of Antiphon \(schema"):
        await migrate(address)


async def test_a_schema_that_an_administrator_has_created_is_used(postgres_url: str) -> None:
    schema = parse_address(postgres_url).schema
    administrator = await connect(parse_address(postgres_url))
    await administrator.execute(f"CREATE ROLE {schema} LOGIN")
    await administrator.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {schema}")
    await administrator.close()
    address = parse_address(postgres_url.replace("postgres@", f"{schema}@"))
    assert await migrate(address) == (0, NEWEST)


async def test_a_database_that_does_not_exist_is_reported(postgres_url: str) -> None:
    address = parse_address(postgres_url.replace("/postgres?", "/missing?"))
    with pytest.raises(StoreError, match='/missing: database "missing" does not exist'):
        await migrate(address)


async def test_a_version_that_cannot_be_read_is_reported(postgres_url: str) -> None:
    address = parse_address(postgres_url)
    await migrate(address)
    administrator = await connect(address)
    await administrator.execute(f"CREATE ROLE {address.schema} LOGIN")
    await administrator.close()
    stranger = parse_address(postgres_url.replace("postgres@", f"{address.schema}@"))
    with pytest.raises(StoreError, match=f"permission denied for schema {address.schema}"):
        await read_version(stranger)


async def test_a_connection_whose_opening_is_cancelled_is_closed(proxy: PostgresProxy) -> None:
    address = parse_address(proxy.url)
    cancelled = 0
    while True:
        proxy.replies_left = cancelled
        proxy.has_withheld = False
        opening = asyncio.ensure_future(connect(address))
        await until(lambda: proxy.has_withheld or opening.done(), "the server has replied")  # noqa: B023
        if opening.done():
            break
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await until(lambda: proxy.connection_count == 0, "the connection is closed")
        cancelled += 1
    await opening.result().close()
    assert cancelled > 1, "the opening was never cancelled between two replies"
