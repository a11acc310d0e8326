"""Running the gateway: wiring, listening, and going down without hurting anybody."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web

from antiphon.config import Config, data_directory
from antiphon.core.history.capsule import Sealer
from antiphon.engine.engine import Engine
from antiphon.engine.health import HealthRegistry
from antiphon.engine.image_description import CreateRun, make_image_describer
from antiphon.engine.routing import make_router
from antiphon.engine.runtime import Runtime
from antiphon.engine.searches import find_nothing
from antiphon.engine.services import Caller, Services
from antiphon.engine.tracing import open_tracer
from antiphon.engine.upstream import EchoUpstream, HTTPUpstream
from antiphon.errors import ConfigError
from antiphon.pipeline.log import Entry
from antiphon.providers.registry import Provider, build_providers
from antiphon.search.searcher import open_searcher
from antiphon.server.application import make_app
from antiphon.server.auth import refuse_open_door
from antiphon.store.store import Store, StoreLimits
from antiphon.store.url import open_store

# The HTTP library logs what it cannot parse, word by word: words of a client.
_MUTE = logging.Logger("antiphon.http", logging.CRITICAL + 1)
_COLLECT_AFTER = (20_000, 20, 20)  # objects, and rounds of each generation
_LAST_WORDS_S = 3.0  # for terminal events to reach their clients once the deadline has passed
_LAST_BYTES_S = 1.0  # for what is still under way then: nobody reads it


@asynccontextmanager
async def open_engine(
    config: Config,
    environment: Mapping[str, str],
    emit: Callable[[Entry], None],
    rim: Runtime | None = None,
) -> AsyncIterator[Engine]:
    """Everything long-lived, opened and closed in order."""
    providers = build_providers(config, environment)
    rim = rim or Runtime()
    data = data_directory(environment)
    store = _store(config, data, rim)
    await store.open()
    tracer = open_tracer(config.trace, data, rim, _secrets(config, providers))
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        router = make_router(config, providers)
        services = Services(
            search=open_searcher(config, session) or find_nothing,
            http=HTTPUpstream(),
            in_process=EchoUpstream(),
            store=store,
            tracer=tracer,
            emit=emit,
            sealer=_sealer(config, data, rim),
            health=HealthRegistry(config.attempts, rim.monotonic),
            attempts=config.attempts,
            runtime=rim,
        )
        engine = Engine(router, services)
        try:
            create = _create_own_run(engine)
            engine.describe_images = make_image_describer(config, engine.router, create)
            yield engine
        finally:
            await engine.close()


def _secrets(config: Config, providers: Mapping[str, Provider]) -> list[str]:
    """What must never be seen in a trace."""
    keys = [key for provider in providers.values() for key in provider.api_keys]
    return [*keys, *config.server.api_keys.values(), *filter(None, [config.search.api_key])]


def _create_own_run(engine: Engine) -> CreateRun:
    """Return how the gateway itself creates a run."""
    new_id = engine.services.runtime.new_id
    return lambda request: engine.create(request, Caller("antiphon", new_id("req")))


def _store(config: Config, data: Path, rim: Runtime) -> Store:
    limits = StoreLimits(
        ttl_s=config.store.ttl_s,
        max_turn_bytes=config.store.max_turn_bytes,
        max_turns=config.store.max_turns,
        max_chain=config.store.max_chain,
    )
    url = config.store.url or f"sqlite:///{data / 'turns.db'}"
    return open_store(url, limits=limits, now=rim.now)


def _sealer(config: Config, data: Path, rim: Runtime) -> Sealer:
    keys = config.capsule.keys or [_kept_key(data / "capsule.key", rim)]
    return Sealer(keys, new_nonce=rim.new_nonce, now=rim.now, ttl_s=config.capsule.ttl_s)


def _kept_key(path: Path, rim: Runtime) -> str:
    """The key in this file, made on first use: what was sealed yesterday opens today."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError), open(path, "x", opener=_private) as file:
            file.write(rim.new_nonce(32).hex())
        return path.read_text()
    except OSError as error:
        raise ConfigError(
            f"{path}: the key for capsules cannot be kept ({error.strerror}); set [capsule] keys."
        ) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class Gateway:
    """The engine behind an open port."""

    def __init__(self, engine: Engine, config: Config) -> None:
        self._engine = engine
        self._config = config
        app, self._routes = make_app(engine, config)
        self._runner = web.AppRunner(
            app,
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=_LAST_BYTES_S,
            max_field_size=64 * 1024,
            logger=_MUTE,
        )
        self._site: web.TCPSite | None = None

    @property
    def port(self) -> int:
        """The port that was bound; asked for 0, the system chose it."""
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        server = self._config.server
        refuse_open_door(server.host, server.api_keys)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, server.host, server.port, backlog=2048)
        await self._site.start()

    async def stop(self) -> None:
        """No new work; streams may finish until the deadline, then each ends with a last word."""
        self._routes.ready = False
        site, self._site = self._site, None
        if site is not None:
            await site.stop()
        await self._idle(self._config.server.shutdown_s)
        self._engine.stop_all()
        await self._idle(_LAST_WORDS_S)
        await self._runner.cleanup()

    async def _idle(self, limit_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._engine.active.wait_idle()


def _allow_many_lines() -> None:
    """A stream takes two lines, and many systems begin with a limit of 1,024 that may be raised."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _calm_the_collector() -> None:
    """An answer leaves no cycles behind, so there is little to look for: not in what was there
    before the first request, and not as often as usual."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


async def serve(
    config: Config,
    environment: Mapping[str, str],
    emit: Callable[[Entry], None],
    announce: Callable[[Gateway, Engine], None],
) -> None:
    """Run until told to stop."""
    _allow_many_lines()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    async with open_engine(config, environment, emit) as engine:
        gateway = Gateway(engine, config)
        await gateway.start()
        announce(gateway, engine)
        _calm_the_collector()
        await stopping.wait()
        emit(Entry("gateway.stopping", "info", {"streams": len(engine.active)}))
        await gateway.stop()
