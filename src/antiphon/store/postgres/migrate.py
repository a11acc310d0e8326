"""Versions of the schema: migrations run forward, in one transaction, by one process at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from antiphon.errors import StoreError
from antiphon.store.postgres.address import PostgresAddress
from antiphon.store.postgres.driver import import_asyncpg, is_driver_error, to_store_error
from antiphon.store.postgres.schema import MIGRATIONS

# Taken before the transaction, which then sees what another process created while it waited.
_LOCK = "SELECT pg_advisory_lock(hashtextextended('antiphon ' || $1, 0))"
_EXISTS = "SELECT to_regclass($1) IS NOT NULL"
# `CREATE SCHEMA IF NOT EXISTS` needs the right to create one, also if it exists.
_HAS_SCHEMA = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)"


async def connect(address: PostgresAddress) -> Any:
    """Open one connection; raises `StoreError`. If it is cancelled, no connection stays open."""
    address.check_files()
    connection = None
    try:
        connection = await import_asyncpg().connect(**address.options())
        await connection.execute(address.session(), timeout=address.connect_s)
    except BaseException as error:
        if connection is not None:
            connection.terminate()
        if not is_driver_error(error):
            raise
        raise to_store_error(address.name, error) from error
    return connection


@asynccontextmanager
async def connecting(address: PostgresAddress) -> AsyncIterator[Any]:
    """Open one connection, and close it in the end. An error of the driver, also of the
    statements run with it, becomes a `StoreError`."""
    connection = await connect(address)
    try:
        yield connection
    except Exception as error:
        if not is_driver_error(error):
            raise
        raise to_store_error(address.name, error) from error
    finally:
        await connection.close()


async def read_version(address: PostgresAddress) -> int:
    """Return the version of the schema in a database; 0 if there is none."""
    async with connecting(address) as connection:
        return await _read_version(connection, address)


async def migrate(address: PostgresAddress) -> tuple[int, int]:
    """Migrate a database to the newest version; return the versions before and after."""
    async with connecting(address) as connection:
        return await _migrate(connection, address)


async def _migrate(connection: Any, address: PostgresAddress) -> tuple[int, int]:
    newest = len(MIGRATIONS)
    version = await _read_version(connection, address)
    _check_known(address, version)
    if version == newest:
        return version, newest
    await connection.execute(_LOCK, address.schema)  # until the connection is closed
    async with connection.transaction():
        # Read again under the lock: another process may have migrated it since.
        version = await _read_version(connection, address)
        _check_known(address, version)
        for statements in MIGRATIONS[version:]:
            await _apply(connection, address, statements)
        await connection.execute("UPDATE schema_version SET version = $1", newest)
    return version, newest


async def _apply(connection: Any, address: PostgresAddress, statements: tuple[str, ...]) -> None:
    if not await connection.fetchval(_EXISTS, f'"{address.schema}".schema_version'):
        if not await connection.fetchval(_HAS_SCHEMA, address.schema):
            await connection.execute(f'CREATE SCHEMA "{address.schema}"')
        await connection.execute("CREATE TABLE schema_version (version integer NOT NULL)")
        await connection.execute("INSERT INTO schema_version VALUES (0)")
    for statement in statements:
        await connection.execute(statement)


async def _read_version(connection: Any, address: PostgresAddress) -> int:
    if not await connection.fetchval(_EXISTS, f'"{address.schema}".schema_version'):
        return 0
    return int(await connection.fetchval("SELECT version FROM schema_version"))


def _check_known(address: PostgresAddress, version: int) -> None:
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{address.name}: the database was migrated by a newer version of Antiphon (schema"
            f" {version}, known up to {len(MIGRATIONS)}). Upgrade Antiphon, or use another one."
        )
