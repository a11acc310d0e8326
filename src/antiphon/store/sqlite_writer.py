"""One thread, one connection, one transaction for everything that is queued at a moment.

Batching makes full durability cheap: a job is answered when its commit is on the disk, and a
hundred jobs share the wait. A job that fails for a reason of its own fails alone.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from antiphon.errors import StoreError
from antiphon.store.sqlite_file import transaction

T = TypeVar("T")
Job: TypeAlias = Callable[[sqlite3.Connection], T]

BATCH = 256
IDLE_S = 60.0  # how long the thread sleeps when there is nothing to do

_log = logging.getLogger("antiphon.store")


class _Order(Struct, frozen=True):
    job: Job[Any]
    future: asyncio.Future[Any] | None


class _Outcome(Struct, frozen=True):
    future: asyncio.Future[Any] | None
    result: Any = None
    error: Exception | None = None


class Writer:
    """`connect` opens the file; `tend` keeps house between batches and says if there is more."""

    def __init__(
        self, name: str, connect: Callable[[], sqlite3.Connection], tend: Job[bool]
    ) -> None:
        self.transactions = 0
        """How many were committed for jobs: far fewer than jobs when many come at once."""
        self._name = name
        self._connect = connect
        self._tend = tend
        self._queue: SimpleQueue[_Order | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Start; raises what `connect` raises."""
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        opened: asyncio.Future[None] = self._loop.create_future()
        # A daemon: a process that ends without closing must not hang. Commits were answered.
        Thread(target=self._main, args=(opened, self._ended), name=self._name, daemon=True).start()
        try:
            await opened
        except BaseException:
            self._loop = None
            self._queue.put(None)  # nobody will use the thread, if it did start
            raise

    async def run(self, job: Job[T]) -> T:
        """Do the job in the next transaction; returns once that is on the disk."""
        future: asyncio.Future[T] = self._running().create_future()
        self._queue.put(_Order(job, future))
        return await future

    def post(self, job: Job[object]) -> None:
        """Do the job some time soon; nobody waits, and a failure is only logged."""
        self._running()
        self._queue.put(_Order(job, None))

    async def close(self) -> None:
        """Commit what is queued and end the thread. Closing twice is allowed."""
        if self._loop is not None and self._ended is not None:
            self._loop = None
            self._queue.put(None)
            await self._ended

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise StoreError(f"{self._name}: is not open")
        return self._loop

    # --- in the thread ----------------------------------------------------------------------------

    def _main(self, opened: asyncio.Future[None], ended: asyncio.Future[None]) -> None:
        loop = opened.get_loop()
        try:
            connection = self._connect()
        except Exception as error:  # whatever it is, the one who waits must hear of it
            _answer(loop, [_Outcome(opened, error=error)])
            return
        _answer(loop, [_Outcome(opened)])
        try:
            self._serve(connection, loop)
        finally:
            connection.close()
            _answer(loop, [_Outcome(ended)])

    def _serve(self, connection: sqlite3.Connection, loop: asyncio.AbstractEventLoop) -> None:
        busy = True
        while True:
            taken = self._take(0.0 if busy else IDLE_S)
            orders = [order for order in taken if order is not None]
            if orders:
                _answer(loop, self._commit(connection, orders))
            if len(orders) < len(taken):
                return
            busy = self._keep_house(connection)

    def _take(self, timeout_s: float) -> list[_Order | None]:
        """Everything that is queued now; waits for the first."""
        taken: list[_Order | None] = []
        try:
            taken.append(self._queue.get(timeout=timeout_s))
            while len(taken) < BATCH:
                taken.append(self._queue.get_nowait())
        except Empty:
            pass
        return taken

    def _commit(self, connection: sqlite3.Connection, orders: list[_Order]) -> list[_Outcome]:
        try:
            with transaction(connection):
                results = [order.job(connection) for order in orders]
        except sqlite3.OperationalError as error:  # locked, full, read-only: so for all of them
            return [self._failure(order, error) for order in orders]
        except Exception as error:  # a job's own fault, which those it shares a batch with survive
            if len(orders) == 1:
                return [self._failure(orders[0], error)]
            return [outcome for order in orders for outcome in self._commit(connection, [order])]
        self.transactions += 1
        return [
            _Outcome(order.future, result) for order, result in zip(orders, results, strict=True)
        ]

    def _failure(self, order: _Order, error: Exception) -> _Outcome:
        failure = StoreError(f"{self._name}: {error}")
        failure.__cause__ = error
        if order.future is None:
            _log.warning("%s", failure)
        return _Outcome(order.future, error=failure)

    def _keep_house(self, connection: sqlite3.Connection) -> bool:
        try:
            return self._tend(connection)
        except sqlite3.Error as error:  # the next round may fare better; saving goes on
            _log.warning("%s: %s", self._name, error)
            return False


def _answer(loop: asyncio.AbstractEventLoop, outcomes: list[_Outcome]) -> None:
    """Tell everybody at once: a wake-up of the loop per batch, not per job."""
    try:
        loop.call_soon_threadsafe(_settle, outcomes)
    except RuntimeError:  # the loop has been closed, and everybody who waited went with it
        _log.debug("nobody is left to hear of %d writes", len(outcomes))


def _settle(outcomes: list[_Outcome]) -> None:
    for outcome in outcomes:
        if outcome.future is None or outcome.future.done():
            continue
        if outcome.error is None:
            outcome.future.set_result(outcome.result)
        else:
            outcome.future.set_exception(outcome.error)
