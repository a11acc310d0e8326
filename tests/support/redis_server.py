"""A real Redis on a private port, which can be stopped and started again."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.ports import ReservedPort
from tests.support.waiting import until_async


class RedisServer:
    def __init__(self, program: str, directory: Path) -> None:
        self._program = program
        self._directory = directory
        self._reserved = ReservedPort()
        self.port = self._reserved.number
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def process_id(self) -> int | None:
        """None if it does not run."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    async def start(self) -> None:
        self._spawn()
        await until_async(self._answers, "the server answers")

    def _spawn(self) -> None:
        options = ("--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
        self._process = subprocess.Popen(
            [self._program, "--port", str(self.port), *options, "--dir", str(self._directory)],
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the program that has started it
        )

    async def _answers(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.write(b"PING\r\n")
        answer = await reader.readline()
        writer.close()
        return answer == b"+PONG\r\n"

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.kill()
        self._reserved.release()


@asynccontextmanager
async def redis_server(directory: Path) -> AsyncIterator[RedisServer]:
    """Start a server. Without the program the test is skipped; `make redis` does not allow that."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        assert "ANTIPHON_REDIS" not in os.environ, "redis-server is not installed"
        pytest.skip("redis-server is not installed (make redis)")
    server = RedisServer(program, directory)
    try:
        await server.start()
        yield server
    finally:
        server.close()
