"""Connections to a PostgreSQL database: a pool that survives the loss of the database.

A call waits for the database at most `wait_s` seconds, and tries again with a growing delay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from antiphon.errors import StoreError
from antiphon.store.postgres.address import PostgresAddress
from antiphon.store.postgres.driver import (
    READ_ONLY_STATE,
    import_asyncpg,
    is_conflict,
    is_driver_error,
    is_transient,
    to_store_error,
)

T = TypeVar("T")

_FIRST_DELAY_S = 0.05
_MAX_DELAY_S = 1.0
SLOW_S = 30.0
"""Maximum duration of a statement that no request waits for."""
_IDLE_S = 300.0
_RELEASE_S = 1.0
"""How long a statement that took too long may take to be cancelled; its connection is closed
then."""
_TRANSACTION_IDLE = "15s"
"""After so long without a statement the server ends a transaction: the process was suspended, and
others wait for its locks."""


class Connections:
    """A pool of connections. `wait_s` is how long a call waits for a database that is away."""

    def __init__(self, address: PostgresAddress, *, wait_s: float, pool_size: int) -> None:
        self.address = address
        self.wait_s = wait_s
        self.failed_at: float | None = None
        """When the database was last away, in the time of the event loop."""
        self._pool_size = pool_size
        self._pool: Any = None

    async def open(self) -> None:
        """Make the pool; the first call connects."""
        self._pool = import_asyncpg().create_pool(
            **self.address.options(),
            min_size=0,
            max_size=self._pool_size,
            max_inactive_connection_lifetime=_IDLE_S,
            max_cached_statement_lifetime=0,
            command_timeout=SLOW_S,
            init=self._set_up,
            reset=_keep_state,
        )
        await self._pool

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                async with asyncio.timeout(self.wait_s):
                    await pool.close()
            except TimeoutError:
                pool.terminate()

    async def run(self, work: Callable[[Any, bool], Awaitable[T]]) -> T:
        """Run `work(connection, is_repeated)`, again if the connection is lost before it ends.
        It is repeated if its effect on the database is not known."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.wait_s
        delay_s = _FIRST_DELAY_S
        is_repeated = False
        while True:
            sent = [False]
            try:
                return await self.attempt(work, is_repeated, sent)
            except StoreError as error:
                is_repeated = is_repeated or sent[0]
                if not self.may_repeat(error) or loop.time() + delay_s > deadline:
                    raise
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, _MAX_DELAY_S)

    async def attempt(
        self, work: Callable[[Any, bool], Awaitable[T]], is_repeated: bool, sent: list[bool]
    ) -> T:
        """Run `work` once; sets `sent[0]` if it may have had an effect."""
        if self._pool is None:
            raise StoreError(f"{self.address.name}: the store is not open")
        try:
            connection = await self._pool.acquire(timeout=self.wait_s)
            sent[0] = True
            return await self._use(self._pool, connection, work, is_repeated)
        except Exception as error:
            if not is_driver_error(error):
                raise
            if is_transient(error) and not is_conflict(error):
                self.failed_at = asyncio.get_running_loop().time()
            raise to_store_error(self.address.name, error) from error

    @staticmethod
    async def _use(
        pool: Any, connection: Any, work: Callable[[Any, bool], Awaitable[T]], is_repeated: bool
    ) -> T:
        try:
            result = await work(connection, is_repeated)
        except BaseException as error:
            if getattr(error, "sqlstate", None) == READ_ONLY_STATE:
                await pool.expire_connections()
            with suppress(Exception):  # a connection that cannot be released is closed
                await pool.release(connection, timeout=_RELEASE_S)
            raise
        await pool.release(connection, timeout=_RELEASE_S)
        return result

    async def _set_up(self, connection: Any) -> None:
        """Prepare a new connection."""
        settings = {"idle_in_transaction_session_timeout": _TRANSACTION_IDLE}
        await connection.execute(self.address.session(**settings))

    @staticmethod
    def may_repeat(error: StoreError) -> bool:
        return error.__cause__ is not None and is_transient(error.__cause__)

    async def fetch(self, query: str, *values: Any, timeout_s: float | None = None) -> list[Any]:
        """Run one statement that may be repeated; return its rows. It may take `wait_s`, or as long
        as `timeout_s`: a server that does not answer is like one that is away."""
        limit_s = timeout_s or self.wait_s
        rows: list[Any] = await self.run(
            lambda connection, _: connection.fetch(query, *values, timeout=limit_s)
        )
        return rows

    async def fetch_row(self, query: str, *values: Any, timeout_s: float | None = None) -> Any:
        """Run a statement as `fetch` does; return its first row."""
        limit_s = timeout_s or self.wait_s
        return await self.run(
            lambda connection, _: connection.fetchrow(query, *values, timeout=limit_s)
        )


async def _keep_state(connection: Any) -> None:
    """Do nothing between two uses of a connection: no call leaves any state behind."""
