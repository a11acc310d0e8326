"""Reading the configuration again: validated first, then swapped between two requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from antiphon.config import Config
from antiphon.errors import ConfigError
from antiphon.pipeline.log import Entry
from antiphon.server.application import Application
from antiphon.server.auth import reject_open_bind
from antiphon.server.endpoints.context import Reload, Reloaded

LoadConfig = Callable[[], Config]
"""Reads the configuration file; raises `ConfigError`."""

_RESTART = (
    *("server.host", "server.port", "server.header_timeout_s", "server.shutdown_s"),
    *("server.max_connections_per_address", "limits.body_bytes"),
    *("store", "shared", "background", "attach", "trace", "pipeline", "log", "metrics", "otel"),
)
"""Settings of what is opened once, when the process starts."""


class Reloader:
    """Replaces the configuration of an application. One reload at a time."""

    def __init__(self, application: Application, load: LoadConfig) -> None:
        self._application = application
        self._load = load
        self._started = application.service.configuration
        self._emit = application.service.engine.services.emit
        self._one_at_a_time = asyncio.Lock()

    async def reload(self) -> Reloaded:
        """Read the file and use it for new requests; raises `ConfigError` for a file that cannot be
        used, and then nothing has changed."""
        async with self._one_at_a_time:
            try:
                config = await asyncio.to_thread(self._load)
                for host in (config.server.host, self._started.server.host):
                    reject_open_bind(host, config.server.api_keys)
                await self._apply(config)
            except ConfigError as error:
                self._emit(_describe_failure(error))
                raise
        restarts = find_restarts(self._started, config)
        reloaded = Reloaded(file=_file_name(config), needs_restart=restarts)
        facts = {"file": reloaded.file, "needs_restart": restarts}
        self._emit(Entry("config.reloaded", "info", facts))
        return reloaded

    async def _apply(self, config: Config) -> None:
        prepare = self._application.service.engine.before_reload
        if prepare is not None:
            await prepare(config)
        self._application.reconfigure(config)

    async def reload_and_log(self) -> None:
        """Reload as a signal asks for it: a failure is logged, and nothing else happens."""
        try:
            await self.reload()
        except ConfigError:
            pass  # logged
        except Exception as error:
            facts = {"reason": f"{type(error).__name__}: {error}"}
            self._emit(Entry("config.reload_failed", "error", facts))


def make_worker_reload(
    load: LoadConfig, ask_parent: Callable[[], object], emit: Callable[[Entry], None]
) -> Reload:
    """Make how one worker of several reloads: it validates the file, and then asks its parent to
    replace all workers."""

    async def reload() -> Reloaded:
        try:
            config = await asyncio.to_thread(load)
        except ConfigError as error:
            emit(_describe_failure(error))
            raise
        ask_parent()
        return Reloaded(file=_file_name(config), replaces_workers=True)

    return reload


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
