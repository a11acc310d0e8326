"""Batching SQLite writer: one thread, one connection, one transaction for all queued jobs.

Batching makes full durability cheap: a job completes when its commit is on disk, and a hundred
jobs share one commit. Jobs of one turn of the event loop are handed to the thread together: the
busier the loop, the fewer transactions, and the less the thread competes with it for the
interpreter. A job that fails by itself does not fail the rest of its batch. After a failure of the
file, each batch tries again with a new connection.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from antiphon.errors import AntiphonError, StoreError
from antiphon.store.sqlite.file import (
    WatchedConnection,
    is_file_failure,
    to_store_error,
)
from antiphon.store.sqlite.lock import WriteLock

T = TypeVar("T")
Job: TypeAlias = Callable[[sqlite3.Connection], T]

BATCH = 256
IDLE_S = 60.0  # time between maintenance runs while no job is queued

_log = logging.getLogger("antiphon.store")


class _QueuedJob(Struct, frozen=True):
    job: Job[Any]
    future: asyncio.Future[Any] | None


class _JobResult(Struct, frozen=True):
    future: asyncio.Future[Any] | None
    result: Any = None
    error: Exception | None = None


class BatchWriter:
    """Runs jobs in a thread. `maintain` runs between batches; True asks for another run soon."""

    def __init__(self, path: Path, connection: WatchedConnection, maintain: Job[bool]) -> None:
        self.transactions = 0
        """Number of transactions committed for jobs."""
        self._path = path
        self._connection = connection
        self._maintain = maintain
        self._lock = WriteLock()
        self._gathered: list[_QueuedJob] = []  # in this turn of the event loop
        self._queue: SimpleQueue[list[_QueuedJob] | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Start the thread; raises what connecting raises."""
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        opened: asyncio.Future[None] = self._loop.create_future()
        # A daemon thread, so that a process that exits without closing does not hang.
        Thread(
            target=self._main, args=(opened, self._ended), name=str(self._path), daemon=True
        ).start()
        try:
            await opened
        except BaseException:
            self._loop = None
            self._queue.put(None)  # ends the thread, if it has started
            raise

    async def run(self, job: Job[T]) -> T:
        """Run the job in the next transaction; returns once that is committed to disk. A job that
        refuses, by raising an `AntiphonError`, does not concern the others of its transaction."""
        loop = self._require_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._gather(_QueuedJob(job, future), loop)
        return await future

    def post(self, job: Job[object]) -> None:
        """Queue the job without waiting for it; a failure is only logged."""
        self._gather(_QueuedJob(job, None), self._require_loop())

    async def close(self) -> None:
        """Commit the queued jobs and end the thread. May be called twice."""
        if self._loop is not None and self._ended is not None:
            self._loop = None
            self._hand_over()
            self._queue.put(None)
            await self._ended

    def _gather(self, queued: _QueuedJob, loop: asyncio.AbstractEventLoop) -> None:
        if not self._gathered:
            loop.call_soon(self._hand_over)
        self._gathered.append(queued)

    def _hand_over(self) -> None:
        if self._gathered:
            self._queue.put(self._gathered)
            self._gathered = []

    def _require_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise StoreError(f"{self._path}: the store is not open")
        return self._loop

    # --- in the thread ----------------------------------------------------------------------------

    def _main(self, opened: asyncio.Future[None], ended: asyncio.Future[None]) -> None:
        loop = opened.get_loop()
        try:
            self._connection.get()
        except Exception as error:  # any error must reach the caller of `open`
            _deliver_results(loop, [_JobResult(opened, error=error)])
            return
        _deliver_results(loop, [_JobResult(opened)])
        try:
            self._process_batches(loop)
        finally:
            self._connection.close()
            _deliver_results(loop, [_JobResult(ended)])

    def _process_batches(self, loop: asyncio.AbstractEventLoop) -> None:
        is_open = busy = True
        while is_open:
            jobs, is_open = self._take_batch(0.0 if busy else IDLE_S)
            if jobs:
                _deliver_results(loop, self._commit(jobs))
            connect = self._connection.last if jobs else self._connection.get
            busy = is_open and self._run_maintenance(connect)

    def _take_batch(self, timeout_s: float) -> tuple[list[_QueuedJob], bool]:
        """Return everything that is queued now, until there are `BATCH` jobs, and whether more may
        come; waits for the first."""
        jobs: list[_QueuedJob] = []
        queue = self._queue
        try:
            taken = queue.get(timeout=timeout_s)
        except Empty:
            return jobs, True
        while taken is not None:
            jobs += taken
            if len(jobs) >= BATCH or queue.empty():
                return jobs, True
            taken = queue.get_nowait()  # only this thread takes jobs
        return jobs, False

    def _commit(self, jobs: list[_QueuedJob]) -> list[_JobResult]:
        try:
            return self._run_jobs(jobs)
        except (sqlite3.OperationalError, StoreError) as error:  # true of every job
            return [self._failure(queued, error) for queued in jobs]
        except Exception as error:  # one job is at fault: run each in its own transaction
            if len(jobs) == 1:
                return [self._failure(jobs[0], error)]
            return [each for queued in jobs for each in self._commit([queued])]

    def _run_jobs(self, jobs: list[_QueuedJob]) -> list[_JobResult]:
        """Run jobs in one transaction. A failure of the file closes the connection: it may have
        been opened when the file could not be written."""
        connection = self._connection.get()
        try:
            with self._lock.transaction(connection):
                results = [_run_job(queued, connection) for queued in jobs]
            self.transactions += 1
            return results
        except sqlite3.Error as error:
            if is_file_failure(error):
                self._connection.close()
            raise

    def _failure(self, queued: _QueuedJob, error: Exception) -> _JobResult:
        failure = to_store_error(self._path, error)
        failure.__cause__ = error if failure is not error else error.__cause__
        if queued.future is None:
            _log.warning("%s", failure)
        return _JobResult(queued.future, error=failure)

    def _run_maintenance(self, connect: Callable[[], sqlite3.Connection]) -> bool:
        try:
            return self._maintain(connect())
        except (sqlite3.Error, StoreError) as error:  # retried in the next round; writes continue
            _log.warning("%s: maintenance failed, will be retried: %s", self._path, error)
            return False


MakeWriter: TypeAlias = Callable[[Path, WatchedConnection, Job[bool]], BatchWriter]
"""Makes the writer of a store from its path, its connection and its maintenance."""


def _run_job(queued: _QueuedJob, connection: sqlite3.Connection) -> _JobResult:
    """Run one job of a transaction; a refusal is for its caller alone, if there is one."""
    try:
        return _JobResult(queued.future, queued.job(connection))
    except AntiphonError as error:
        if queued.future is None:
            raise
        return _JobResult(queued.future, error=error)


def _deliver_results(loop: asyncio.AbstractEventLoop, results: list[_JobResult]) -> None:
    """Resolve all futures of a batch with a single wake-up of the event loop."""
    try:
        loop.call_soon_threadsafe(_set_futures, results)
    except RuntimeError:  # the loop is closed, and every waiting task with it
        _log.debug("the event loop is closed; %d results discarded", len(results))


def _set_futures(results: list[_JobResult]) -> None:
    for each in results:
        if each.future is None or each.future.done():
            continue
        if each.error is None:
            each.future.set_result(each.result)
        else:
            each.future.set_exception(each.error)
