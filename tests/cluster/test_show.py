"""`make cluster`: a cluster to try, which stops everything that it has started."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.cluster.http_client import open_client, send
from tests.support.cluster.processes import find_processes
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

LIMIT_S = 60
PARTS = ("nginx: master", "nginx: worker", "redis-server", "postgres", "antiphon.cli.main serve")


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory for all temporary files, which PostgreSQL and nginx can read as other users."""
    with tempfile.TemporaryDirectory(prefix="antiphon-show-") as directory:
        os.chmod(directory, 0o755)
        yield Path(directory)


@asynccontextmanager
async def run_show(home: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the command; the test stops it, which leaves no process and no file."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.cluster.show", *arguments),
        env={**os.environ, "TMPDIR": str(home)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            yield process
            _, errors = await process.communicate()
        assert (process.returncode, errors.decode()) == (0, "")
        await until(lambda: not find_processes(home), "every process has ended")
        assert os.listdir(home) == []
    finally:
        if process.returncode is None:
            process.terminate()  # which stops its parts as well
            await process.communicate()


async def read_address(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


def list_missing(home: Path) -> list[str]:
    commands = [*find_processes(home).values()]
    return [part for part in PARTS if not any(part in each for each in commands)]


async def test_the_cluster_answers_behind_nginx_and_stops_with_ctrl_c(home: Path) -> None:
    async with run_show(home) as process, open_client() as client:
        url = await read_address(process)
        await until(lambda: not list_missing(home), "every part runs")  # nginx forks and renames
        assert list_missing(home) == []
        body = {"model": "echo/echo", "input": "Hello?"}
        for _ in range(3):
            status, response = await send(client, "POST", f"{url}/responses", body)
            assert (status, response["status"], response["store"]) == (200, "completed", True)
        process.send_signal(signal.SIGINT)


async def test_the_cluster_stops_with_sigterm_after_its_parts_have_died(home: Path) -> None:
    async with run_show(home) as process:
        await read_address(process)
        found = sorted(find_processes(home).items())
        for name in ("nginx: master", "redis-server", "bin/postgres", "antiphon.cli.main"):
            first = next(number for number, command in found if name in command)
            os.kill(first, signal.SIGKILL)
        assert process.returncode is None
        process.send_signal(signal.SIGTERM)


async def test_the_cluster_stops_while_it_is_starting(home: Path) -> None:
    async with run_show(home) as process:
        await until(lambda: find_processes(home), "PostgreSQL is being started")
        assert process.returncode is None
        process.send_signal(signal.SIGINT)


async def test_the_cluster_stops_by_itself_after_its_seconds(home: Path) -> None:
    async with run_show(home, "--seconds", "0.5") as process:
        assert (await read_address(process)).startswith("http://127.0.0.1:")
