"""Access to the SQLite file of a store: one thread writes, in batches; a few others read, each with
its own connection."""

from __future__ import annotations

import asyncio
import sqlite3
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from antiphon.errors import AntiphonError, StoreError
from antiphon.store.sqlite.file import (
    WatchedConnection,
    connect_reader,
    convert_errors,
    create_directory,
)
from antiphon.store.sqlite.writer import BatchWriter, Job, T

READERS = 3
_COMPRESS_FROM_BYTES = 16 * 1024  # from this size on, compression saves more than it costs


class SQLiteAccess:
    """Runs jobs on the connections of one file."""

    def __init__(self, path: Path, writer: BatchWriter) -> None:
        self.path = path
        self.writer = writer
        self._readers: ThreadPoolExecutor | None = None
        self._idle: list[WatchedConnection] = []  # reader connections that are not in use

    async def open(self) -> None:
        await asyncio.to_thread(create_directory, self.path)
        await self.writer.open()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="antiphon-store")

    async def close(self) -> None:
        readers, self._readers = self._readers, None
        if readers is not None:
            await asyncio.to_thread(self._close_readers, readers)
        await self.writer.close()

    async def write(self, job: Job[T]) -> T:
        """Run a job in the next transaction; returns once that is committed to disk.

        A job may refuse by raising an `AntiphonError` before it has written anything: the other
        jobs of the transaction are not affected.
        """
        result = await self.writer.run(_return_refusal(job))
        if isinstance(result, AntiphonError):
            raise result
        return result

    def post(self, job: Job[object]) -> None:
        """Queue a job without waiting for it; a failure is only logged."""
        self.writer.post(job)

    async def read(self, job: Job[T]) -> T:
        if self._readers is None:
            raise StoreError(f"{self.path}: the store is not open")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._run_reader, job)

    # --- in the threads ---------------------------------------------------------------------------

    def _run_reader(self, job: Job[T]) -> T:
        with convert_errors(self.path):
            try:
                file = self._idle.pop()
            except IndexError:
                file = WatchedConnection(self.path, lambda: connect_reader(self.path))
            try:
                return job(file.get())
            finally:
                self._idle.append(file)

    def _close_readers(self, readers: ThreadPoolExecutor) -> None:
        readers.shutdown()
        while self._idle:
            self._idle.pop().close()


def _return_refusal(job: Job[T]) -> Job[T | AntiphonError]:
    def guarded(connection: sqlite3.Connection) -> T | AntiphonError:
        try:
            return job(connection)
        except AntiphonError as error:
            return error

    return guarded


def compress(body: bytes) -> bytes:
    """Compress a large JSON body."""
    return body if len(body) < _COMPRESS_FROM_BYTES else zlib.compress(body, 1)


def decompress(body: bytes) -> bytes:
    """Return the JSON body. JSON starts with a brace, zlib data never does."""
    return body if body.startswith(b"{") else zlib.decompress(body)
