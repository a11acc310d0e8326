"""The gateway as a simulated process: start, SIGTERM, and SIGKILL."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sized
from contextlib import AsyncExitStack
from contextvars import Context, copy_context
from typing import Any

from antiphon.config import Config
from antiphon.engine.engine import Engine
from antiphon.engine.runtime import RandomIds, Runtime
from antiphon.engine.services import Services
from antiphon.engine.tracing import Tracer
from antiphon.errors import ConfigError
from antiphon.server.reload import FileReloading, reload_and_log
from antiphon.server.serve import GatewayServer
from antiphon.server.wiring import open_setup
from antiphon.stages.log import Entry
from antiphon.store.store import StoreLimits
from tests.simulation.disk import Disk, LoopWriter, TraceRows, make_store
from tests.simulation.records import History
from tests.simulation.virtual_loop import EPOCH, PROCESS, Process, VirtualLoop


def make_runtime(loop: VirtualLoop, rng: random.Random) -> Runtime:
    """Make a runtime whose clock is virtual and whose ids and randomness come from the seed."""

    def now() -> int:
        return EPOCH + int(loop.time())

    return Runtime(
        new_id=RandomIds(rng.randbytes, now),
        new_nonce=rng.randbytes,
        now=now,
        epoch_s=lambda: EPOCH + loop.time(),
        monotonic=loop.time,
        random=rng.random,
        sleep=asyncio.sleep,
    )


class SimulatedGateway:
    """One process of the gateway, from its start to its end."""

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        config: Config,
        disk: Disk,
        history: History,
        rng: random.Random,
    ) -> None:
        self.process = Process(name)
        self.engine: Engine
        self.is_stopping = False
        self.stopped_at: float | None = None
        self._loop = loop
        self.config = config
        self._history = history
        self._rng = rng
        self._runtime = make_runtime(loop, rng)
        self._writer: LoopWriter
        self._server: GatewayServer
        self._started: asyncio.Future[None] | None = None
        self._disk = disk
        self._file: Config | None = None
        self._context: Context
        keys = [key for entry in config.providers.values() for key in entry.api_keys]
        secrets = [*keys, *config.server.api_keys.values()]
        payloads = config.mcp.enabled  # requests with credentials for servers
        self.trace = TraceRows(self._runtime.epoch_s, secrets, payloads=payloads)
        self._resources = AsyncExitStack()
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process; returns once it accepts connections."""
        context = self._context = copy_context()
        context.run(PROCESS.set, self.process)
        started = self._started = self._loop.create_future()
        self._running = asyncio.Task(self._main(started), loop=self._loop, context=context)
        await started

    async def terminate(self) -> None:
        """Send SIGTERM and wait for the end."""
        self.is_stopping = True
        self._stop.set()
        await self.wait()

    async def wait(self) -> None:
        assert self._running is not None
        await asyncio.wait((self._running,))
        if not self._running.cancelled():
            self._running.result()

    async def reload(self, file: Config | None) -> None:
        """Send SIGHUP and wait until it was handled; without a file, the configuration is wrong."""
        self._file = file
        reloading = reload_and_log(self._server.process)
        await asyncio.wait((self._loop.create_task(reloading, context=self._context),))

    def _load(self) -> Config:
        if self._file is None:
            raise ConfigError("the file cannot be read")
        return self._file

    @property
    def services(self) -> Services:
        """Those of the configuration in effect."""
        return self._server.process.setup.engine.services

    def stall(self, seconds: float) -> None:
        """Let its disk stand still for a while."""
        self._writer.stalled_until = self._loop.time() + seconds

    @property
    def holder(self) -> str:
        """The name under which it holds its runs."""
        return self._server.process.live.lease.holder

    @property
    def is_started(self) -> bool:
        return self._started is not None and self._started.done()

    def find_held(self) -> list[str]:
        """What the lifecycle of its responses still holds, although nothing runs."""
        process = self._server.process
        live = process.live
        background = live.background
        free = range(self.config.background.max_running)[background._queue.free :]
        held: dict[str, Sized] = {
            "live runs": live.runs,
            "leases of runs": live.lease._held - {""},  # the empty one is that of a claim
            "responses that wait for room": background._queue.ids(),
            "places of running responses": [] if background._tasks else free,
            "responses that wait for their client": process.attach._waiting,
            "locks of conversations": process.conversation_locks._held,
            "requests that count as running": self._counted(),
        }
        return [
            f"{self.process.name}: {len(found)} {name}" for name, found in held.items() if found
        ]

    def _counted(self) -> list[str]:
        """The requests of limited clients that count as running."""
        limiter: Any = self.services.accounting.limiter
        counts = () if limiter is None else limiter._counters._clients.values()
        return [request_id for each in counts for request_id in each.running]

    async def kill(self, *, is_alone: bool) -> None:
        """Send SIGKILL; if no other process uses the disk, keep it as it was at that moment."""
        assert self._running is not None
        self.is_stopping = True
        self._writer.kill(self._rng)
        if is_alone:
            self._disk.crash()
        self.process.kill()
        self._running.cancel()
        await asyncio.wait((self._running,))
        self.stopped_at = self._loop.time()

    def emit(self, entry: Entry) -> None:
        if not self.process.is_dead:
            self._history.log.append((self.process.name, entry))

    async def _main(self, started: asyncio.Future[None]) -> None:
        """What `antiphon serve` does, without its signals and its garbage collector."""
        runtime = self._runtime
        limits = StoreLimits(max_history_items=self.config.store.max_history_items)
        store, self._writer = make_store(self._disk, runtime.now, runtime.epoch_s, limits)
        tracer = Tracer(self.trace, self._runtime.epoch_s)
        opened = open_setup(self.config, {}, self.emit, self._runtime, store=store, tracer=tracer)
        async with opened as setup:
            self.engine = setup.engine
            reloading = FileReloading(self.config, self._load, self.emit)
            self._server = GatewayServer(setup, reloading=reloading)
            await self._server.start()
            started.set_result(None)
            await self._stop.wait()
            await self._server.stop()
        self.stopped_at = self._loop.time()
