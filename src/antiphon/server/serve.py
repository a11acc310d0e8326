"""The server process: start, signals, graceful shutdown, and limits of the operating system."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from antiphon.config import Config
from antiphon.engine.engine import Engine
from antiphon.engine.upstream import OUT_OF_FILES, is_out_of_files
from antiphon.server.aiohttp_adapter import AiohttpServer
from antiphon.server.application import Application
from antiphon.server.auth import reject_open_bind
from antiphon.server.gateway import GatewayProcess, Reloading
from antiphon.server.reload import FileReloading, LoadConfig, WorkerReloading, reload_and_log
from antiphon.server.setup import Setup
from antiphon.server.wiring import open_setup
from antiphon.server.workers.listeners import Listeners
from antiphon.server.workers.worker_process import RETIRE, WorkerContext
from antiphon.stages.log import Entry

_GC_THRESHOLDS = (5_000, 10, 160)  # few objects at a time; Python's defaults are 700, 10, 10
_SWITCH_INTERVAL_S = 0.0005  # Python's default is 0.005
_TERMINAL_EVENTS_S = 3.0  # for terminal events to reach their clients after the deadline


class GatewayServer:
    """A gateway behind an open port."""

    def __init__(
        self,
        setup: Setup,
        *,
        environment: Mapping[str, str] | None = None,
        reloading: Reloading | None = None,
        listeners: Listeners = (),
    ) -> None:
        """`environment` and `reloading`: see `GatewayProcess`. `listeners` replace the port of the
        configuration."""
        self.process = GatewayProcess(setup, environment=environment, reloading=reloading)
        self._engine = setup.engine
        self._config = setup.config
        self._server = AiohttpServer(Application(self.process), setup.server, listeners)

    @property
    def port(self) -> int:
        return self._server.port

    async def start(self) -> None:
        reject_open_bind(self._config)
        await self._server.start()
        await self.process.start()

    async def retire(self, report_retired: Callable[[], None] = lambda: None) -> None:
        """Leave new connections to another process, report it, and have open ones closed with their
        next response; returns when there are none left, or at the deadline."""
        self.process.retire()
        await self._server.stop_listening()
        report_retired()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._config.server.shutdown_s):
                await self._server.wait_disconnected()

    async def stop(self) -> None:
        """Accept nothing new; let streams finish until the deadline, then end each with a terminal
        event."""
        self.process.stop_accepting()
        await self._server.stop_listening()
        await self._wait_until_idle(self._config.server.shutdown_s)
        self._engine.stop_all()
        await self._wait_until_idle(_TERMINAL_EVENTS_S)
        await self._server.close()
        await self.process.close()

    async def _wait_until_idle(self, limit_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._engine.active.wait_idle()


async def serve(
    config: Config,
    environment: Mapping[str, str],
    emit: Callable[[Entry], None],
    announce: Callable[[GatewayServer, Engine], None],
    load: LoadConfig | None = None,
    context: WorkerContext | None = None,
) -> None:
    """Run the gateway until SIGINT or SIGTERM. `load` reads the configuration again; `context` is
    that of a worker, which is replaced instead."""
    _raise_file_limit()
    stopping = asyncio.Event()
    hangups = asyncio.Event()
    _handle_signals(stopping, hangups)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(partial(_report_loop_error, emit))
    limits = None if context is None else context.inherited.limits
    async with open_setup(config, environment, emit, shared_limits=limits) as setup:
        gateway = GatewayServer(
            setup,
            environment=environment,
            reloading=_make_reloading(config, load, emit, context),
            listeners=() if context is None else context.listeners,
        )
        await gateway.start()
        if context is not None:
            _follow_parent(context, gateway, stopping)
        announce(gateway, setup.engine)
        setup.discovered_models()  # so that the first list of models has them
        _tune_interpreter()
        reloading = loop.create_task(_reload_at_hangups(gateway.process, hangups))
        await stopping.wait()
        reloading.cancel()
        emit(Entry("gateway.stopping", "info", {"streams": len(setup.engine.active)}))
        await gateway.stop()


def _make_reloading(
    config: Config,
    load: LoadConfig | None,
    emit: Callable[[Entry], None],
    context: WorkerContext | None,
) -> Reloading | None:
    """A gateway reads its file again by itself; a worker has its parent replace all workers."""
    if context is None:
        return FileReloading(config, load or (lambda: config), emit)
    if load is None:
        return None
    return WorkerReloading(load, partial(os.kill, os.getppid(), signal.SIGHUP), emit)


def _handle_signals(stopping: asyncio.Event, hangups: asyncio.Event) -> None:
    """Stop at SIGINT and SIGTERM; SIGHUP, which a closed terminal sends as well, only reloads."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    loop.add_signal_handler(signal.SIGHUP, hangups.set)


async def _reload_at_hangups(process: GatewayProcess, hangups: asyncio.Event) -> None:
    """Reload after each SIGHUP; those that arrive during a reload count as one."""
    while True:
        await hangups.wait()
        hangups.clear()
        await reload_and_log(process)


def _follow_parent(context: WorkerContext, gateway: GatewayServer, stopping: asyncio.Event) -> None:
    """Stop if the parent is gone, retire when it says so; it handles SIGHUP for all workers."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    async def retire() -> None:
        await gateway.retire(context.report_retired)
        stopping.set()

    def on_parent_gone() -> None:
        loop.remove_reader(context.parent)
        stopping.set()

    loop.add_reader(context.parent, on_parent_gone)
    loop.add_signal_handler(RETIRE, lambda: tasks.add(loop.create_task(retire())))
    loop.add_signal_handler(signal.SIGHUP, lambda: None)


def _report_loop_error(
    emit: Callable[[Entry], None], loop: asyncio.AbstractEventLoop, context: dict[str, Any]
) -> None:
    """Log a connection that could not be accepted because the process has no file descriptor left;
    pass on every other error."""
    error = context.get("exception")
    if is_out_of_files(error):
        reason = f"{OUT_OF_FILES}; new connections wait"
        emit(Entry("gateway.out_of_files", "error", {"reason": reason}))
    else:
        loop.default_exception_handler(context)


def _raise_file_limit() -> None:
    """Raise the limit of open files to the maximum: a stream takes two sockets, and many systems
    start processes with a limit of 1,024."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems allow less than they report
        resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))


def _tune_interpreter() -> None:
    """Collect cycles less often, and never look at objects that exist before the first request:
    a response leaves no cycles behind. And let the event loop take the interpreter lock back from
    the worker thread soon: it gives the lock up at every read and write of a socket."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
