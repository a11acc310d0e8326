"""`antiphon serve --workers N`: several processes on one port."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from antiphon.cli.terminal import print_error
from antiphon.config import Config
from antiphon.engine.routing import Router
from antiphon.errors import AntiphonError, ConfigError
from antiphon.server.auth import reject_open_bind
from antiphon.server.log_output import open_log
from antiphon.server.serve import serve
from antiphon.server.setup import make_checked_router
from antiphon.server.workers.listeners import bind_listeners
from antiphon.server.workers.shared_metrics import share_metrics
from antiphon.server.workers.supervisor import Supervisor
from antiphon.server.workers.worker_process import WorkerContext
from antiphon.stages.log import Entry

MAX_WORKERS = 256
_PER_WORKER = (
    "without [shared] url each worker learns by itself which API keys cool down, which circuit"
    " breakers are open and which parameters are rejected"
)

Announce: TypeAlias = Callable[[int, Router], None]
"""Called with the port and the router once connections are accepted."""


def serve_workers(
    config: Config,
    count: int,
    load: Callable[[], Config],
    emit: Callable[[Entry], None],
    announce: Announce,
) -> int:
    """Run so many workers until SIGINT or SIGTERM; raises `ConfigError` or `OSError` if they cannot
    be started."""
    _check_count(count)
    router = _check(config)

    def load_checked() -> Config:
        following = load()
        _check(following)
        return following

    if count > 1 and not config.shared.url:
        emit(Entry("shared.absent", "info", {"reason": _PER_WORKER}))
    server = config.server
    listeners = bind_listeners(server.host, server.port, count)
    port = listeners[0][0].getsockname()[1]
    with share_metrics() as forget:
        supervisor = Supervisor(
            config,
            listeners,
            load=load_checked,
            work=partial(_work, load_checked),
            emit=emit,
            announce=lambda: announce(port, router),
            on_end=forget,
        )
        return supervisor.run()


def make_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # not on Windows; the standard loop works too, a little slower
        return None
    return uvloop.new_event_loop


def _check_count(count: int) -> None:
    if not 1 <= count <= MAX_WORKERS:
        raise ConfigError(f"--workers {count}: must be a number from 1 to {MAX_WORKERS}")
    if not hasattr(os, "fork"):
        raise ConfigError("--workers: this operating system cannot fork processes; leave it out")


def _check(config: Config) -> Router:
    """Check a configuration before any worker uses it; raises `ConfigError`."""
    reject_open_bind(config)
    if config.store.url == "memory://":
        problem = "a store in memory cannot be shared by workers: use SQLite or leave out --workers"
        raise config.error_at(["store", "url"], problem)
    return make_checked_router(config, os.environ)


def _work(load: Callable[[], Config], config: Config, context: WorkerContext) -> int:
    """Run one worker until it is stopped; return its exit code. `load` reads the configuration
    again, and checks it."""
    write = open_log(config.log)

    def emit(entry: Entry) -> None:
        write(replace(entry, facts={**entry.facts, "worker": context.number}))

    try:
        with asyncio.Runner(loop_factory=make_loop_factory()) as runner:
            runner.run(
                serve(config, os.environ, emit, lambda *_: context.report_ready(), load, context)
            )
    except AntiphonError as error:
        print_error(error.message)
        return 2
    return 0
