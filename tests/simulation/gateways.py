"""The gateway as a simulated process: start, SIGTERM, and SIGKILL."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from contextvars import copy_context

from antiphon.config import Config
from antiphon.engine.engine import Engine
from antiphon.engine.runtime import RandomIds, Runtime
from antiphon.engine.tracing import Tracer
from antiphon.pipeline.log import Entry
from antiphon.server.serve import GatewayServer
from antiphon.server.wiring import open_engine
from tests.simulation.disk import Disk, LoopWriter, TraceRows, make_store
from tests.simulation.records import History
from tests.simulation.virtual_loop import EPOCH, PROCESS, Process, VirtualLoop


def make_runtime(loop: VirtualLoop, rng: random.Random) -> Runtime:
    """Make a runtime whose clock is virtual and whose ids and randomness come from the seed."""
    return Runtime(
        new_id=RandomIds(rng.randbytes),
        new_nonce=rng.randbytes,
        now=lambda: EPOCH + int(loop.time()),
        now_ms=lambda: EPOCH * 1000 + int(loop.time() * 1000),
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
        self._config = config
        self._history = history
        self._rng = rng
        self._runtime = make_runtime(loop, rng)
        self._writer: LoopWriter
        self._disk = disk
        keys = [key for entry in config.providers.values() for key in entry.api_keys]
        self.trace = TraceRows(self._runtime.now_ms, [*keys, *config.server.api_keys.values()])
        self._resources = AsyncExitStack()
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process; returns once it accepts connections."""
        context = copy_context()
        context.run(PROCESS.set, self.process)
        started = self._loop.create_future()
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

    async def kill(self) -> None:
        """Send SIGKILL, and keep the disk as it was at that moment."""
        assert self._running is not None
        self.is_stopping = True
        self._writer.kill(self._rng)
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
        store, self._writer = make_store(self._disk, self._runtime.now)
        tracer = Tracer(self.trace, self._runtime.now_ms)
        opened = open_engine(self._config, {}, self.emit, self._runtime, store=store, tracer=tracer)
        async with opened as self.engine:
            gateway = GatewayServer(self.engine, self._config)
            await gateway.start()
            started.set_result(None)
            await self._stop.wait()
            await gateway.stop()
        self.stopped_at = self._loop.time()
