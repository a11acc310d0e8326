"""The server process: start, signals, graceful shutdown, and limits of the operating system."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from antiphon.config import Config
from antiphon.engine.engine import Engine
from antiphon.engine.upstream import OUT_OF_FILES, is_out_of_files
from antiphon.pipeline.log import Entry
from antiphon.server.aiohttp_adapter import AiohttpServer
from antiphon.server.application import Application
from antiphon.server.auth import reject_open_bind
from antiphon.server.wiring import open_engine

_GC_THRESHOLDS = (5_000, 10, 160)  # few objects at a time; Python's defaults are 700, 10, 10
_SWITCH_INTERVAL_S = 0.0005  # Python's default is 0.005
_TERMINAL_EVENTS_S = 3.0  # for terminal events to reach their clients after the deadline


class GatewayServer:
    """The engine behind an open port."""

    def __init__(self, engine: Engine, config: Config) -> None:
        self._engine = engine
        self._config = config.server
        self._application = Application(engine, config)
        self._server = AiohttpServer(self._application, config.server)

    @property
    def port(self) -> int:
        return self._server.port

    async def start(self) -> None:
        reject_open_bind(self._config.host, self._config.api_keys)
        await self._server.start()

    async def stop(self) -> None:
        """Accept nothing new; let streams finish until the deadline, then end each with a terminal
        event."""
        self._application.stop_accepting()
        await self._server.stop_listening()
        await self._wait_until_idle(self._config.shutdown_s)
        self._engine.stop_all()
        await self._wait_until_idle(_TERMINAL_EVENTS_S)
        await self._server.close()

    async def _wait_until_idle(self, limit_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._engine.active.wait_idle()


async def serve(
    config: Config,
    environment: Mapping[str, str],
    emit: Callable[[Entry], None],
    announce: Callable[[GatewayServer, Engine], None],
) -> None:
    """Run the gateway until SIGINT or SIGTERM."""
    _raise_file_limit()
    stopping = asyncio.Event()
    _handle_signals(stopping, emit)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(partial(_report_loop_error, emit))
    async with open_engine(config, environment, emit) as engine:
        gateway = GatewayServer(engine, config)
        await gateway.start()
        announce(gateway, engine)
        _tune_interpreter()
        await stopping.wait()
        emit(Entry("gateway.stopping", "info", {"streams": len(engine.active)}))
        await gateway.stop()


def _handle_signals(stopping: asyncio.Event, emit: Callable[[Entry], None]) -> None:
    """Stop at SIGINT and SIGTERM; SIGHUP, which a closed terminal sends, is only logged."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    reason = "the configuration is read only at start; restart the gateway to apply changes"
    entry = Entry("gateway.signal_ignored", "warning", {"signal": "SIGHUP", "reason": reason})
    loop.add_signal_handler(signal.SIGHUP, emit, entry)


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
