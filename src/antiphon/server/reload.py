"""Reading the configuration again: validated first, then swapped between two requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from antiphon.config import Config
from antiphon.errors import ConfigError
from antiphon.server.auth import reject_open_bind
from antiphon.server.gateway import GatewayProcess, Reloaded
from antiphon.stages.log import Entry

LoadConfig = Callable[[], Config]
"""Reads the configuration file; raises `ConfigError`."""

_RESTART = (
    "server.host",
    "server.port",
    "server.header_timeout_s",
    "server.shutdown_s",
    "server.max_connections_per_address",
    "limits.body_bytes",
    "store",
    "shared",
    "background",
    "attach",
    "trace",
    "pipeline",
    "log",
    "metrics",
    "otel",
)
"""Settings of parts that are opened once, when the process starts."""


class FileReloading:
    """Replaces the setup of a process by that of its file, as it is now. One reload at a time."""

    def __init__(self, started: Config, load: LoadConfig, emit: Callable[[Entry], None]) -> None:
        """`started` is the configuration that the process was started with."""
        self._started = started
        self._load = load
        self._emit = emit
        self._one_at_a_time = asyncio.Lock()

    async def reload(self, process: GatewayProcess) -> Reloaded:
        async with self._one_at_a_time:
            try:
                config = await asyncio.to_thread(self._load)
                for host in (config.server.host, self._started.server.host):
                    reject_open_bind(config, host)
                await process.reconfigure(config)
            except ConfigError as error:
                self._emit(_describe_failure(error))
                raise
        restarts = find_restarts(self._started, config)
        reloaded = Reloaded(file=_file_name(config), needs_restart=restarts)
        facts = {"file": reloaded.file, "needs_restart": restarts}
        self._emit(Entry("config.reloaded", "info", facts))
        return reloaded


class WorkerReloading:
    """How one worker of several reloads: it validates the file, and has its parent replace all
    workers."""

    def __init__(
        self,
        load: LoadConfig,
        ask_parent: Callable[[], object],
        emit: Callable[[Entry], None],
    ) -> None:
        self._load = load
        self._ask_parent = ask_parent
        self._emit = emit

    async def reload(self, process: GatewayProcess) -> Reloaded:
        try:
            config = await asyncio.to_thread(self._load)
            for host in (config.server.host, process.setup.server.host):
                reject_open_bind(config, host)
        except ConfigError as error:
            self._emit(_describe_failure(error))
            raise
        self._ask_parent()
        return Reloaded(file=_file_name(config), replaces_workers=True)


async def reload_and_log(process: GatewayProcess) -> None:
    """Reload as a signal asks for it: a failure is logged, and nothing else happens."""
    try:
        await process.reload()
    except ConfigError:
        pass  # logged
    except Exception as error:
        facts = {"reason": f"{type(error).__name__}: {error}"}
        process.setup.engine.services.emit(Entry("config.reload_failed", "error", facts))


def _describe_failure(error: ConfigError) -> Entry:
    facts = {"reason": error.message, "effect": "the configuration has not changed"}
    return Entry("config.reload_failed", "error", facts)


def _file_name(config: Config) -> str | None:
    return None if config.source is None else config.source.name


def find_restarts(started: Config, config: Config) -> list[str]:
    """List the settings that have changed since the start and need another one."""
    return [path for path in _RESTART if _value(started, path) != _value(config, path)]


def _value(config: Config, path: str) -> Any:
    value: Any = config
    for name in path.split("."):
        value = getattr(value, name)
    return value
