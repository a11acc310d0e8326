"""Build an engine from a configuration: providers, store, trace, sealer and search."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from antiphon.config import Config, data_directory
from antiphon.core.history.capsule import Sealer
from antiphon.engine.connections import open_session
from antiphon.engine.engine import Engine
from antiphon.engine.health import HealthRegistry
from antiphon.engine.media.image_description import CreateRun, make_image_describer
from antiphon.engine.media.pdf_text import make_pdf_reader
from antiphon.engine.routing import make_router
from antiphon.engine.runtime import Runtime
from antiphon.engine.searches import find_nothing
from antiphon.engine.services import Caller, Services
from antiphon.engine.tracing import Tracer, open_tracer
from antiphon.engine.upstream import EchoUpstream, HTTPUpstream
from antiphon.pipeline.log import Entry
from antiphon.pipeline.stage import StageFactory
from antiphon.providers.registry import Provider, build_providers
from antiphon.search.searcher import open_searcher
from antiphon.server.capsule_key import FILE_NAME, read_or_create_key
from antiphon.server.stage_plugins import load_stages
from antiphon.store.redact import Redactor
from antiphon.store.store import Store, StoreLimits
from antiphon.store.url import open_store
from antiphon.wire.limits import ResponseLimits


@asynccontextmanager
async def open_engine(
    config: Config,
    environment: Mapping[str, str],
    emit: Callable[[Entry], None],
    runtime: Runtime | None = None,
    *,
    stages: Sequence[StageFactory] = (),
    store: Store | None = None,
    tracer: Tracer | None = None,
) -> AsyncIterator[Engine]:
    """Build and open everything that lives as long as the process; close it in the end.

    `store` and an open `tracer` replace those of the configuration."""
    # What can fail because of the configuration is built before anything is opened.
    providers = build_providers(config, environment)
    router = make_router(config, providers)
    runtime = runtime or Runtime()
    data = data_directory(environment)
    sealer = _make_sealer(config, data, runtime)
    store = store or _make_store(config, data, runtime)
    stages = [*load_stages(config), *stages]
    await store.open()
    redactor = Redactor(_list_secrets(config, providers))
    async with open_session() as session:
        services = Services(
            search=open_searcher(config, session) or find_nothing,
            in_process=EchoUpstream(),
            store=store,
            tracer=tracer or open_tracer(config.trace, data, runtime, redactor),
            emit=emit,
            sealer=sealer,
            redactor=redactor,
            runtime=runtime,
            stages=stages,
            **_make_limited(config, runtime),
        )
        engine = Engine(router, services, read_pdfs=make_pdf_reader())
        async with _closing(engine):
            engine.describe_images = make_image_describer(config, router, _create_own_run(engine))
            yield engine


def _make_limited(config: Config, runtime: Runtime) -> dict[str, Any]:
    """Make the services that apply limits of the configuration."""
    return {
        "http": HTTPUpstream(config.limits.body_bytes, runtime.epoch_s),
        "health": HealthRegistry(config.attempts, runtime.monotonic),
        "attempts": config.attempts,
        "compatibility": config.compatibility,
        "limits": ResponseLimits(**msgspec.structs.asdict(config.limits)),
    }


def _closing(engine: Engine) -> AsyncExitStack:
    """Close the engine in the end. No generator: a loop that ends would close it a second time."""
    closing = AsyncExitStack()
    closing.push_async_callback(engine.close)
    return closing


def _list_secrets(config: Config, providers: Mapping[str, Provider]) -> list[str]:
    """Every secret of the configuration, for the redaction of log and trace.

    A SigV4 key is a key pair: a provider may quote either half."""
    keys = [key for provider in providers.values() for key in provider.api_keys]
    halves = [half for key in keys for half in key.split(":")]
    headers = [text for entry in config.providers.values() for text in entry.headers.values()]
    own = [*config.server.api_keys.values(), *config.capsule.keys, config.search.api_key]
    return [*filter(None, [*keys, *halves, *headers, *own])]


def _create_own_run(engine: Engine) -> CreateRun:
    """Return how the gateway itself creates a run, such as for image descriptions."""
    new_id = engine.services.runtime.new_id
    return lambda request: engine.create(request, Caller("antiphon", new_id("req")))


def _make_store(config: Config, data: Path, runtime: Runtime) -> Store:
    limits = StoreLimits(
        ttl_s=config.store.ttl_s,
        max_turn_bytes=config.store.max_turn_bytes,
        max_turns=config.store.max_turns,
        max_chain=config.store.max_chain,
    )
    url = config.store.url or f"sqlite:///{data / 'turns.db'}"
    return open_store(url, limits=limits, now=runtime.now)


def _make_sealer(config: Config, data: Path, runtime: Runtime) -> Sealer:
    keys = config.capsule.keys or [read_or_create_key(data / FILE_NAME, runtime.new_nonce)]
    ttl_s = config.capsule.ttl_s
    return Sealer(keys, new_nonce=runtime.new_nonce, now=runtime.now, ttl_s=ttl_s)
