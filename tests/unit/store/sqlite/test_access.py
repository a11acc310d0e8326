"""Jobs on the connections of one file: refusals, readers, and compressed bodies."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.errors import StoreError, StoreRefused
from antiphon.store.sqlite.access import FileAccess, compress, decompress
from antiphon.store.sqlite.file import WatchedConnection
from antiphon.store.sqlite.writer import BatchWriter, Job

pytestmark = pytest.mark.anyio


@pytest.fixture
async def access(tmp_path: Path) -> AsyncIterator[FileAccess]:
    path = tmp_path / "new" / "numbers.sqlite"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("CREATE TABLE IF NOT EXISTS number (value INTEGER)")
        return connection

    access = FileAccess(path, BatchWriter(path, WatchedConnection(path, connect), lambda _: False))
    await access.open()
    yield access
    await access.close()


def insert(value: int, is_refused: bool = False) -> Job[int]:
    def job(connection: sqlite3.Connection) -> int:
        if is_refused:
            raise StoreRefused(f"{value} is refused")
        return connection.execute("INSERT INTO number VALUES (?)", (value,)).rowcount

    return job


async def test_a_refusal_reaches_its_caller_and_no_other_job(access: FileAccess) -> None:
    jobs = (access.write(insert(n, is_refused=n == 3)) for n in range(6))
    results = await asyncio.gather(*jobs, return_exceptions=True)
    assert [str(result) for result in results] == ["1", "1", "1", "3 is refused", "1", "1"]
    count = await access.read(
        lambda connection: connection.execute("SELECT count(*) FROM number").fetchone()[0]
    )
    assert count == 5


async def test_errors_of_readers_name_the_file(access: FileAccess) -> None:
    with pytest.raises(StoreError, match=r"numbers\.sqlite: no such table: word"):
        await access.read(lambda connection: connection.execute("SELECT * FROM word"))
    await access.close()
    with pytest.raises(StoreError, match="the store is not open"):
        await access.read(lambda connection: connection.execute("SELECT 1"))


@pytest.mark.parametrize("size", [2, 100_000])
def test_a_body_is_the_same_after_compression(size: int) -> None:
    body = b"{" + b" " * size + b"}"
    assert decompress(compress(body)) == body
    assert len(compress(body)) < 1000
