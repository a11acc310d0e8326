"""The batching writer: transactions, failures of single jobs, and closing."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from antiphon.errors import StoreDamaged, StoreError
from antiphon.store.sqlite.file import WatchedConnection
from antiphon.store.sqlite.writer import BATCH, BatchWriter, Job
from tests.support.waiting import LIMIT_S

pytestmark = pytest.mark.anyio


def writer_of(path: Path, maintain: Job[bool] = lambda _: False) -> BatchWriter:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("CREATE TABLE IF NOT EXISTS number (value INTEGER UNIQUE)")
        return connection

    return BatchWriter(Path("numbers"), WatchedConnection(path, connect), maintain)


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[BatchWriter]:
    writer = writer_of(tmp_path / "numbers.sqlite")
    await writer.open()
    yield writer
    await writer.close()


def insert(value: object) -> Job[int]:
    statement = "INSERT INTO number VALUES (?)"
    return lambda connection: connection.execute(statement, (value,)).rowcount


def count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM number").fetchone()[0])


async def test_a_job_returns_its_result_after_its_commit(writer: BatchWriter) -> None:
    assert await writer.run(insert(1)) == 1
    assert (await writer.run(count), writer.transactions) == (1, 2)


async def test_jobs_queued_together_share_transactions(writer: BatchWriter) -> None:
    await asyncio.gather(*(writer.run(insert(number)) for number in range(2 * BATCH)))
    assert writer.transactions < BATCH
    assert await writer.run(count) == 2 * BATCH


async def test_jobs_of_one_turn_of_the_event_loop_share_one_transaction(
    writer: BatchWriter,
) -> None:
    await asyncio.gather(*(writer.run(insert(number)) for number in range(BATCH)))
    assert writer.transactions == 1


async def test_a_job_that_fails_does_not_fail_its_batch(writer: BatchWriter) -> None:
    jobs = (writer.run(insert(value)) for value in (1, 2, 1, object(), 3))
    results = await asyncio.gather(*jobs, return_exceptions=True)
    assert [isinstance(result, StoreError) for result in results] == [0, 0, 1, 1, 0]
    assert str(results[2]) == "numbers: UNIQUE constraint failed: number.value"
    assert await writer.run(count) == 3


async def test_an_error_of_the_database_fails_every_job_of_a_batch(writer: BatchWriter) -> None:
    await writer.run(lambda connection: connection.execute("DROP TABLE number"))
    jobs = (writer.run(insert(value)) for value in (1, 2))
    results = await asyncio.gather(*jobs, return_exceptions=True)
    assert {str(result) for result in results} == {"numbers: no such table: number"}


async def test_a_posted_job_is_run_and_its_failure_logged(
    writer: BatchWriter, caplog: pytest.LogCaptureFixture
) -> None:
    for value in (1, 1):
        writer.post(insert(value))
        assert await writer.run(count) == 1
    assert caplog.messages == ["numbers: UNIQUE constraint failed: number.value"]


async def test_closing_commits_what_is_queued(tmp_path: Path) -> None:
    writer = writer_of(tmp_path / "numbers.sqlite")
    await writer.open()
    for number in range(10):
        writer.post(insert(number))
    await writer.close()
    await writer.close()
    again = writer_of(tmp_path / "numbers.sqlite")
    await again.open()
    assert await again.run(count) == 10
    await again.close()


async def test_a_writer_that_is_not_open_refuses_jobs(tmp_path: Path) -> None:
    writer = writer_of(tmp_path / "numbers.sqlite")
    with pytest.raises(StoreError, match="numbers: the store is not open"):
        await writer.run(count)
    with pytest.raises(StoreError, match="numbers: the store is not open"):
        writer.post(count)


async def test_an_error_while_connecting_reaches_the_caller_of_open(tmp_path: Path) -> None:
    writer = writer_of(tmp_path / "no" / "such" / "directory.sqlite")
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        await writer.open()
    with pytest.raises(StoreError, match="is not open"):
        await writer.run(count)


async def test_maintenance_runs_again_at_once_while_there_is_more_to_do(tmp_path: Path) -> None:
    runs = 0
    enough = asyncio.Event()
    loop = asyncio.get_running_loop()

    def maintain(connection: sqlite3.Connection) -> bool:
        nonlocal runs
        runs += 1
        if runs == 3:
            loop.call_soon_threadsafe(enough.set)
        return runs < 3

    writer = writer_of(tmp_path / "numbers.sqlite", maintain)
    await writer.open()
    await asyncio.wait_for(enough.wait(), LIMIT_S)
    await writer.close()
    assert runs == 3


# Failures of the file


async def test_a_file_that_was_moved_is_not_written_any_more(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    writer = writer_of(tmp_path / "data" / "numbers.sqlite")
    await writer.open()
    await writer.run(insert(1))
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="numbers: unable to open database file"):
        await writer.run(insert(2))
    (tmp_path / "elsewhere").rename(tmp_path / "data")
    await writer.run(insert(3))
    assert await writer.run(count) == 2
    await writer.close()


async def test_a_connection_that_cannot_write_is_replaced_by_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "numbers.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE number (value INTEGER UNIQUE)")
    modes = iter(["ro", "rw"])  # as if the file system was read-only at first

    def connect() -> sqlite3.Connection:
        url = f"{path.as_uri()}?mode={next(modes)}"
        return sqlite3.connect(url, uri=True, isolation_level=None)

    writer = BatchWriter(path, WatchedConnection(path, connect), lambda _: False)
    await writer.open()
    with pytest.raises(StoreError, match="attempt to write a readonly database"):
        await writer.run(insert(1))
    await writer.run(insert(2))
    assert await writer.run(count) == 1
    await writer.close()


async def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "numbers.sqlite"
    writer = BatchWriter(
        path, WatchedConnection(path, lambda: sqlite3.connect(path)), lambda _: False
    )
    await writer.open()
    path.write_bytes(b"no database at all, " * 100)
    with pytest.raises(StoreDamaged, match=r"the file is damaged, .* move it away"):
        await writer.run(insert(1))
    await writer.close()
