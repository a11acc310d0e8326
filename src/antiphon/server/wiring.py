"""Open everything that lives as long as the process, and make the first engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from antiphon.config import Config, data_directory
from antiphon.engine.connections import open_session
from antiphon.engine.engine import Engine
from antiphon.engine.health import HealthRegistry
from antiphon.engine.runtime import Runtime
from antiphon.engine.services import Services
from antiphon.engine.shared.sharing import open_sharing
from antiphon.engine.tracing import Tracer, open_tracer
from antiphon.engine.upstream import EchoUpstream, HTTPUpstream
from antiphon.observe.accounting import make_counters, start_accounting
from antiphon.observe.recorder import UsageRecorder
from antiphon.observe.span_export import SpanExport, start_spans
from antiphon.pipeline.log import Entry
from antiphon.pipeline.stage import StageFactory
from antiphon.server.reload.engine_parts import (
    EngineParts,
    list_secrets,
    make_checked_router,
    make_sealer,
)
from antiphon.server.stage_plugins import load_stages
from antiphon.store.redact import Redactor
from antiphon.store.store import Store, StoreLimits
from antiphon.store.url import open_store


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
    router = make_checked_router(config, environment)
    runtime, data = runtime or Runtime(), data_directory(environment)
    sealer = make_sealer(config, data, runtime)
    store = store or _make_store(config, data, runtime)
    stages, counters = [*load_stages(config), *stages], make_counters(config, runtime)
    redactor = Redactor(list_secrets(config, router.providers))
    async with open_session() as session:
        async with _opening(store):
            usage = await start_accounting(config, store, runtime, emit, counters)
            spans = start_spans(config, router.providers, usage.accounting, runtime, emit)
            services = Services(
                store=store,
                tracer=tracer or open_tracer(config.trace, data, runtime, redactor),
                emit=emit,
                redactor=redactor,
                runtime=runtime,
                stages=stages,
                **_make_upstreams(config, runtime),
                sealer=sealer,
                accounting=usage.accounting,
            )
        parts = EngineParts(services, session, environment, counters, usage, spans)
        async with _closing(Engine(router, services), parts, usage, spans):
            engine = parts.make_engine(config, router)
            async with open_sharing(config.shared, engine) as parts.share:
                yield engine


@asynccontextmanager
async def _opening(store: Store) -> AsyncIterator[None]:
    """Open a store, and close it again if what is opened after it fails."""
    await store.open()
    try:
        yield
    except BaseException:
        await store.close()
        raise


def _make_upstreams(config: Config, runtime: Runtime) -> dict[str, Any]:
    """Make the services that call providers, and what is known of those."""
    return {
        "in_process": EchoUpstream(runtime.sleep),
        "http": HTTPUpstream(config.limits.body_bytes, runtime.epoch_s),
        "health": HealthRegistry(config.attempts, runtime.monotonic),
    }


def _closing(
    engine: Engine, parts: EngineParts, usage: UsageRecorder, spans: SpanExport | None
) -> AsyncExitStack:
    """Write usage and spans, and close the engine in the end. No generator: a loop that ends would
    close it a second time."""
    closing = AsyncExitStack()
    closing.push_async_callback(engine.close)
    closing.push_async_callback(parts.discovered.close)
    if spans is not None:
        closing.push_async_callback(spans.close)
    closing.push_async_callback(usage.close)
    return closing


def _make_store(config: Config, data: Path, runtime: Runtime) -> Store:
    limits = StoreLimits(
        ttl_s=config.store.ttl_s,
        max_turn_bytes=config.store.max_turn_bytes,
        max_turns=config.store.max_turns,
        max_chain=config.store.max_chain,
        log_ttl_s=config.background.keep_s,
    )
    url = config.store.url or f"sqlite:///{data / 'turns.db'}"
    waiting = {"wait_s": config.store.wait_s, "pool_size": config.store.pool_size}
    return open_store(url, limits=limits, now=runtime.now, lease_now=runtime.epoch_s, **waiting)
