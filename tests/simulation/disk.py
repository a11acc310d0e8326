"""Simulated disk: the real SQLite store on a file in memory, with a writer that runs on the loop.

Writes take virtual time and can fail: the k-th, all of them for a while (a full disk), or those
in flight when the process is killed. Then the next process finds the files as they were at that
moment, perhaps with a torn record at the end of the write-ahead log.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from antiphon.errors import StoreError
from antiphon.store.redact import Redactor
from antiphon.store.run_log import UNFINISHED
from antiphon.store.sqlite.file import WatchedConnection, connect
from antiphon.store.sqlite.schema import SCHEMA
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.sqlite.writer import BatchWriter, Job, T, _QueuedJob, _run_job, _set_futures
from antiphon.store.store import StoreLimits
from antiphon.store.trace.table import EncodedRow
from antiphon.store.trace.trace_store import TraceOptions, TraceStore

_WRITES = ("BEGIN IMMEDIATE", "COMMIT")
_DISORDER = "do not follow event"


def memory_directory() -> str | None:
    """Return a directory in memory, if the system has one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


class Disk:
    """The files of one world, and the failures of its writes."""

    def __init__(self, rng: random.Random, directory: Path) -> None:
        self._rng = rng
        self._directory = directory
        self._generation = 0
        self.writes = 0
        self.fail_at: set[int] = set()
        """Numbers of the writes that fail."""
        self.is_full = False
        self.delay: Callable[[], float] = lambda: 0.001
        self.faults: dict[str, int] = {}
        self.disorders: list[str] = []
        """Refusals of events that do not follow the log of their run."""
        self._reader: sqlite3.Connection | None = None
        self.path.write_bytes(_empty_database())

    @property
    def path(self) -> Path:
        return self._directory / f"turns-{self._generation}.db"

    def check_write(self) -> None:
        """Count one write, and fail it if it is its turn."""
        self.writes += 1
        if self.is_full:
            self.count("disk full")
            raise sqlite3.OperationalError("database or disk is full")
        if self.writes in self.fail_at:
            self.count("disk write failed")
            raise sqlite3.OperationalError("disk I/O error")

    def count(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def crash(self) -> None:
        """Keep the files as they are now for the next process; tear the end of the log."""
        self.close()
        before = self.path
        self._generation += 1
        shutil.copyfile(before, self.path)
        log = Path(f"{before}-wal")
        if log.exists():
            torn = b""
            if self._rng.random() < 0.5:
                torn = self._rng.randbytes(self._rng.randrange(1, 5000))
                self.count("torn write-ahead log")
            Path(f"{self.path}-wal").write_bytes(log.read_bytes() + torn)

    def read_response(self, response_id: str) -> dict[str, Any] | None:
        """Read a stored response from the file; None if there is none, or it has not ended."""
        rows = self.query("SELECT body FROM turn WHERE id = ?", response_id)
        if not rows:
            return None
        row = rows[0]
        body = row[0] if row[0].startswith(b"{") else zlib.decompress(row[0])
        turn: dict[str, Any] = msgspec.json.decode(body)
        response: dict[str, Any] = turn["response"]
        if response["status"] in UNFINISHED:
            return None
        if not response["output"]:  # it is stored once, beside the response object
            response["output"] = turn["output"]
            if response.get("output_text") == "":
                response["output_text"] = "".join(_texts_of(turn["output"]))
        return response

    def dump(self) -> bytes:
        """Everything that the files hold, with the turns uncompressed."""
        bodies = [body for (body,) in self.query("SELECT body FROM turn")]
        plain = [each if each.startswith(b"{") else zlib.decompress(each) for each in bodies]
        log = Path(f"{self.path}-wal")
        files = [self.path.read_bytes(), log.read_bytes() if log.exists() else b""]
        return b"\n".join([*plain, *files])

    def query(self, statement: str, *values: object) -> list[Any]:
        """Read rows from the file."""
        if self._reader is None:
            self._reader = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        return self._reader.execute(statement, values).fetchall()


def _texts_of(output: list[dict[str, Any]]) -> Iterator[str]:
    for item in output:
        if item["type"] == "message":
            yield from (part["text"] for part in item["content"] if part["type"] == "output_text")


@cache
def _empty_database() -> bytes:
    """Make a database with its schema, once: every world begins with a copy."""
    with tempfile.TemporaryDirectory(dir=memory_directory()) as directory:
        path = Path(directory) / "turns.db"
        connect(path, SCHEMA, synchronous="FULL").close()
        return path.read_bytes()


class _FailingConnection:
    """A SQLite connection whose writes the disk may fail."""

    def __init__(self, connection: sqlite3.Connection, disk: Disk) -> None:
        self._connection = connection
        self._disk = disk

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement in _WRITES:
            self._disk.check_write()
        return self._connection.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class _FailingFile(WatchedConnection):
    """A connection of the store that is opened again after a failure, as in production."""

    def __init__(self, file: WatchedConnection, disk: Disk) -> None:
        super().__init__(file._path, file._connect)
        self._disk = disk

    def get(self) -> Any:
        return _FailingConnection(super().get(), self._disk)

    def get_working(self) -> sqlite3.Connection:
        return super().get()


class LoopWriter(BatchWriter):
    """The store's writer without its thread: batches are committed on the virtual loop."""

    def __init__(self, disk: Disk, file: WatchedConnection, maintain: Job[bool]) -> None:
        self._file = _FailingFile(file, disk)
        super().__init__(Path("turns.db"), self._file, maintain)
        self._disk = disk
        self._is_scheduled = False
        self._is_dead = False
        self.stalled_until = 0.0

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._file.get()

    async def run(self, job: Job[T]) -> T:
        if self._is_dead:
            raise asyncio.CancelledError  # nothing of a killed process goes on
        waiting = super().run(job)
        self._schedule()
        result = await waiting
        if isinstance(result, StoreError) and _DISORDER in result.message:
            self._disk.disorders.append(result.message)
        return result

    def post(self, job: Job[object]) -> None:
        super().post(job)
        self._schedule()

    async def close(self) -> None:
        if self._loop is not None:
            self._flush()
            self._loop = None
            self._file.close()

    def kill(self, rng: random.Random) -> None:
        """End without warning: what is queued is lost, or stored although nobody hears of it."""
        self._is_dead = True
        queued = self._take_jobs()
        outcome = rng.choice(("lost", "torn", "stored"))
        if queued and outcome != "lost":
            connection = self._file.get_working()
            connection.execute("BEGIN IMMEDIATE")
            for each in queued:
                _run_job(each, connection)
            connection.execute("COMMIT" if outcome == "stored" else "ROLLBACK")
        if queued:
            self._disk.count(f"save {outcome} at a kill")

    def _schedule(self) -> None:
        if not self._is_scheduled and self._loop is not None:
            self._is_scheduled = True
            stalled_s = self.stalled_until - self._loop.time()
            self._loop.call_later(max(self._disk.delay(), stalled_s), self._flush)

    def _take_jobs(self) -> list[_QueuedJob]:
        self._hand_over()
        jobs, _ = self._take_batch(0.0)
        return jobs

    def _flush(self) -> None:
        self._is_scheduled = False
        if self._is_dead:
            return
        while jobs := self._take_jobs():
            _set_futures(self._commit(jobs))
        self._run_maintenance(self._file.get)


class TraceRows(TraceStore):
    """The trace store without its thread and file: encoded and redacted rows, kept in a list."""

    def __init__(
        self, epoch_s: Callable[[], float], secrets: Sequence[str], *, payloads: bool
    ) -> None:
        super().__init__(
            Path("trace"),
            epoch_s=epoch_s,
            redactor=Redactor(secrets),
            options=TraceOptions(payloads=payloads),
        )
        self.rows: list[EncodedRow] = []

    def open(self) -> None:
        return

    def flush(self) -> None:
        self._flush()

    def close(self, timeout_s: float = 5.0) -> None:
        self._flush()

    def _write(self, records: Sequence[EncodedRow]) -> None:
        self.rows.extend(records)


def make_store(
    disk: Disk,
    now: Callable[[], int],
    lease_now: Callable[[], float] | None = None,
    limits: StoreLimits | None = None,
) -> tuple[SQLiteStore, LoopWriter]:
    """Make the real store with a writer on the loop."""
    writers: list[LoopWriter] = []

    def make_writer(path: Path, file: WatchedConnection, maintain: Job[bool]) -> LoopWriter:
        writers.append(LoopWriter(disk, file, maintain))
        return writers[0]

    store = SQLiteStore(
        disk.path, now=now, lease_now=lease_now, limits=limits, make_writer=make_writer
    )
    return store, writers[0]
