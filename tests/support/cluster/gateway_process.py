"""A gateway of a cluster: `antiphon serve` in a process of its own, which can be killed."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.commands import COMMAND, environment
from tests.support.ports import ReservedPort

START_S = 60.0
STOP_S = 60.0
CONFIG = """
[server]
port = {port}
shutdown_s = 2
[log]
format = "json"
level = "warning"
[store]
url = "{settings.store}"
[shared]
url = "{settings.shared}"
[capsule]
keys = ["a key that only tests use, in every gateway"]
[background]
lease_s = {settings.lease_s}
max_running = {settings.max_running}
[attempts]
max_attempts = {settings.max_attempts}
[providers.up]
kind = "chat"
base_url = "{settings.upstream}"
api_keys = ["sk-{name}"]
"""
LIMITED = """
[providers.limited{number}]
kind = "chat"
base_url = "{settings.upstream}"
api_keys = ["sk-limited", "sk-free"]
"""
LIMITED_COUNT = 3
"""Number of providers with a key that the provider may refuse: each can be learned of once."""


@dataclass(frozen=True)
class Settings:
    """What the gateways of a cluster have in common."""

    store: str
    shared: str
    upstream: str
    lease_s: float = 2.0
    max_running: int = 64
    max_attempts: int = 1


class GatewayProcess:
    """One gateway on a port of its own, which it keeps when it is started again."""

    def __init__(self, name: str, home: Path, settings: Settings) -> None:
        """`name` is part of its API key, by which the provider knows who asks."""
        self.name = name
        home.mkdir(parents=True)
        self._home = home
        self._reserved = ReservedPort()
        self._port = self._reserved.number
        config = CONFIG.format(name=name, port=self._port, settings=settings)
        for number in range(LIMITED_COUNT):
            config += LIMITED.format(number=number, settings=settings)
        (home / "antiphon.toml").write_text(config)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def process_id(self) -> int | None:
        """None if it does not run."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}/v1"

    @property
    def log(self) -> Path:
        return self._home / "gateway.log"

    async def start(self) -> None:
        """Start it; returns when it accepts requests. Raises `ChildProcessError` if it ends."""
        with self.log.open("ab") as log:
            self._process = process = await asyncio.create_subprocess_exec(
                *COMMAND,
                "serve",
                cwd=self._home,
                env=environment(self._home),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the cluster
            )
        assert process.stdout is not None
        async with asyncio.timeout(START_S):
            if not await process.stdout.readline():
                await process.wait()
                raise ChildProcessError(f"{self.name} did not start: {self.log.read_text()}")

    async def kill(self) -> None:
        """End it with SIGKILL."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """End it for good, as an operator does."""
        try:
            await self._end(signal.SIGTERM)
        finally:
            self._reserved.release()

    async def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)  # `send_signal` would take its status from the loop
        try:
            async with asyncio.timeout(STOP_S):
                await process.communicate()
        except TimeoutError:
            process.kill()
            await process.communicate()
            raise
