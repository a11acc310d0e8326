"""Access to the SQLite database of a store. In a file, one thread writes, in batches; a few others
read, each with its own connection."""

from __future__ import annotations

import asyncio
import sqlite3
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

from antiphon.errors import StoreError
from antiphon.store.sqlite.file import (
    WatchedConnection,
    connect_reader,
    convert_errors,
    create_directory,
)
from antiphon.store.sqlite.writer import BatchWriter, Job, T

K = TypeVar("K")
Bodies: TypeAlias = list[tuple[bytes, K]]
"""Bodies of rows as JSON, each with what belongs to it."""

READERS = 3
_COMPRESS_FROM_BYTES = 16 * 1024  # from this size on, compression saves more than it costs


class SQLiteAccess(Protocol):
    """Runs jobs on the connections of one database. Raises `StoreError`."""

    @property
    def path(self) -> Path:
        """Its file, or its name in messages."""

    @property
    def transactions(self) -> int:
        """Number of transactions committed for jobs."""

    async def open(self) -> None:
        """Open the database, and create what it lacks."""

    async def close(self) -> None:
        """Finish the queued jobs, and close every connection."""

    async def write(self, job: Job[T]) -> T:
        """Run a job in a transaction; returns once that is committed.

        A job may refuse by raising an `AntiphonError` before it has written anything.
        """

    def post(self, job: Job[object]) -> None:
        """Run a job in a transaction without waiting for it; a failure is only logged."""

    async def read(self, job: Job[T]) -> T:
        """Run a job that does not write."""

    async def read_bodies(self, job: Job[Bodies[K]], decode: Callable[[Bodies[K]], T]) -> T:
        """Run a job that reads bodies, and decode them; never on the event loop if they are
        large."""

    def compress(self, body: bytes) -> bytes:
        """Return a body as it is stored; see `decompress`."""


class FileAccess:
    """A `SQLiteAccess` to a file."""

    def __init__(self, path: Path, writer: BatchWriter) -> None:
        self.path = path
        self.writer = writer
        self.write = writer.run
        self.post = writer.post
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

    @property
    def transactions(self) -> int:
        return self.writer.transactions

    async def read(self, job: Job[T]) -> T:
        if self._readers is None:
            raise StoreError(f"{self.path}: the store is not open")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._run_reader, job)

    async def read_bodies(self, job: Job[Bodies[K]], decode: Callable[[Bodies[K]], T]) -> T:
        return await self.read(lambda connection: decode(job(connection)))

    def compress(self, body: bytes) -> bytes:
        """Compress a large body."""
        return compress(body)

    # --- in the threads ---------------------------------------------------------------------------

    def _run_reader(self, job: Job[T]) -> T:
        with convert_errors(self.path):
            try:
                file = self._idle.pop()
            except IndexError:
                file = WatchedConnection(self.path, self._connect_reader)
            try:
                return job(file.get())
            finally:
                self._idle.append(file)

    def _connect_reader(self) -> sqlite3.Connection:
        return add_functions(connect_reader(self.path))

    def _close_readers(self, readers: ThreadPoolExecutor) -> None:
        readers.shutdown()
        while self._idle:
            self._idle.pop().close()


def compress(body: bytes) -> bytes:
    """Compress a large JSON body."""
    return body if len(body) < _COMPRESS_FROM_BYTES else zlib.compress(body, 1)


def add_functions(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Add the function that `SIZE` calls."""
    connection.create_function("json_length", 1, _json_length, deterministic=True)
    return connection


def _json_length(body: bytes) -> int:
    return len(decompress(body))


def decompress(body: bytes) -> bytes:
    """Return the JSON body. JSON starts with a brace, zlib data never does."""
    return body if body.startswith(b"{") else zlib.decompress(body)
