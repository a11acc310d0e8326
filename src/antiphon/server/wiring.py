"""Resources: what a process opens once, closes in the end, and uses for every configuration."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from socket import socket
from typing import Protocol, TypeVar

import aiohttp
import msgspec

from antiphon.config import Config, data_directory, suggest
from antiphon.core.history.capsule import Sealer
from antiphon.engine.accounting import Accounting
from antiphon.engine.connections import open_session
from antiphon.engine.discovery.discovered_models import DiscoveredModels
from antiphon.engine.engine import Engine
from antiphon.engine.health import HealthRegistry
from antiphon.engine.mcp_calls import ClosingConnections
from antiphon.engine.media.image_description import (
    CreateRun,
    DescriptionCache,
    make_image_describer,
)
from antiphon.engine.media.pdf_text import ReadPDFs, make_pdf_reader
from antiphon.engine.prepare import Preparer
from antiphon.engine.rejections import RejectedModes, RejectedParameters
from antiphon.engine.routing import Router
from antiphon.engine.runtime import Runtime, WorkerThread
from antiphon.engine.services import INTERNAL_CLIENT, Caller, Services, find_nothing
from antiphon.engine.shared.sharing import Sharing
from antiphon.engine.tracing import Tracer, open_tracer
from antiphon.engine.upstream import EchoUpstream, HTTPUpstream
from antiphon.errors import StoreError
from antiphon.framing.limits import ResponseLimits
from antiphon.mcp.open_client import open_mcp
from antiphon.observe.accounting import apply_limits, make_counters, reload_costs, start_accounting
from antiphon.observe.counters import LimitCounters
from antiphon.observe.recorder import UsageRecorder
from antiphon.observe.span_export import SpanExport, start_spans
from antiphon.providers.registry import Provider
from antiphon.search.searcher import open_searcher
from antiphon.server.capsule_key import FILE_NAME, read_or_create_key, require_shared_key
from antiphon.server.setup import Setup, make_checked_router
from antiphon.stages.log import Entry
from antiphon.stages.pipeline import Stage, StageFactory
from antiphon.store.redact import Redactor
from antiphon.store.store import Store, StoreLimits
from antiphon.store.url import open_store, password_of


@dataclass(frozen=True)
class Resources:
    """What lives as long as the process, and is shared by the setups of its configurations."""

    services: Services
    """Those of the first configuration."""
    session: aiohttp.ClientSession
    """For web searches."""
    environment: Mapping[str, str]
    counters: LimitCounters
    """Behind the limits of clients."""
    usage: UsageRecorder
    discovered: DiscoveredModels
    sharing: Sharing
    """Applies what other processes learn to the engine in effect."""
    spans: SpanExport | None = None
    descriptions: DescriptionCache = field(default_factory=OrderedDict)
    read_pdfs: ReadPDFs | None = field(default_factory=make_pdf_reader)

    def make_setup(self, config: Config, router: Router) -> Setup:
        """Make the setup of the first configuration."""
        setup = Setup(config, self._make_engine(config, router, self.services), self)
        self.sharing.start(setup.engine)
        return setup

    async def follow(self, setup: Setup, config: Config) -> Setup:
        """Make the setup of another configuration; raises `ConfigError`, and then nothing has
        changed. Providers with the same address and keys keep their health."""
        router = make_checked_router(config, self.environment)
        sealer = make_sealer(config, data_directory(self.environment), self.services.runtime)
        await self._load_costs(config)
        before = setup.engine
        old = before.router.providers
        new = router.providers
        same = [
            each for name, each in new.items() if name in old and old[name].is_same_server(each)
        ]
        services = replace(
            before.services,
            health=before.services.health.carry_over(config.attempts, same),
            sealer=sealer,
            accounting=self._apply_limits(before.services, config),
        )
        following = Setup(config, self._make_engine(config, router, services), self)
        services.redactor.add(list_secrets(config, new))
        _forget(services, {*old, *new} - {provider.name for provider in same})
        if self.spans is not None:
            self.spans.add_providers(new)
        self.sharing.attach(following.engine)
        return following

    def discover(self, setup: Setup) -> list[str]:
        providers = setup.engine.router.providers
        self.discovered.refresh(providers, setup.config.discovery.refresh_s)
        return self.discovered.names(providers)

    def _apply_limits(self, before: Services, config: Config) -> Accounting:
        return apply_limits(before.accounting, config, self.counters, before.runtime, before.emit)

    def _make_engine(self, config: Config, router: Router, services: Services) -> Engine:
        services = replace(
            services,
            search=open_searcher(config, self.session) or find_nothing,
            mcp=open_mcp(config, services.runtime.monotonic),
            attempts=config.attempts,
            compatibility=config.compatibility,
            compaction_model=config.compaction.model,
            limits=msgspec.convert(config.limits, ResponseLimits, from_attributes=True),
        )
        create_run = _create_own_run(Preparer(router, services), services.runtime)
        preparer = Preparer(
            router,
            services,
            describe_images=make_image_describer(config, router, create_run, self.descriptions),
            read_pdfs=self.read_pdfs,
        )
        return Engine(services, preparer)

    async def _load_costs(self, config: Config) -> None:
        """Read what clients have spent, which limits of a configuration may count."""
        services = self.services
        now = services.runtime.epoch_s()
        try:
            await reload_costs(config, self.usage, services.store, self.counters, now)
        except StoreError as error:
            reason = f"{error.message}; limits of cost count from now on"
            services.emit(Entry("limits.costs_not_read", "warning", {"reason": reason}))


@asynccontextmanager
async def open_setup(
    config: Config,
    environment: Mapping[str, str],
    emit: Callable[[Entry], None],
    runtime: Runtime | None = None,
    *,
    stages: Sequence[StageFactory] = (),
    store: Store | None = None,
    tracer: Tracer | None = None,
    shared_limits: socket | None = None,
) -> AsyncIterator[Setup]:
    """Build and open everything that lives as long as the process; close it in the end. `store`, an
    open `tracer` and `shared_limits`, a worker's way to its parent, replace the configured ones."""
    runtime = runtime or Runtime()
    ready = _check_config(config, environment, runtime)
    async with AsyncExitStack() as opened:
        session = await opened.enter_async_context(open_session())
        worker = _stop_later(opened, WorkerThread())
        tracer = tracer or open_tracer(config.trace, ready.data, runtime, ready.redactor)
        _stop_later(opened, tracer)
        store = await _open_store(opened, store or ready.store)
        http = _close_later(opened, HTTPUpstream(config.limits.body_bytes, runtime.epoch_s))
        models = _close_later(opened, DiscoveredModels(session, runtime.monotonic, emit))
        counters = _close_later(opened, make_counters(config, runtime, emit, shared_limits))
        usage = await start_accounting(config, store, runtime, emit, counters)
        spans = start_spans(config, ready.router.providers, usage.accounting, emit)
        _close_later(opened, spans)
        _close_later(opened, usage)  # before the spans: it passes on the last requests
        sharing = _close_later(opened, Sharing(config.shared, runtime, emit))
        services = Services(
            store=store,
            tracer=tracer,
            emit=emit,
            redactor=ready.redactor,
            runtime=runtime,
            stages=[*ready.stages, *stages],
            in_process=_close_later(opened, EchoUpstream(runtime.sleep)),
            http=http,
            health=HealthRegistry(config.attempts, runtime.monotonic, sharing.send_health),
            rejected=RejectedParameters(sharing.send_parameter),
            rejected_modes=RejectedModes(sharing.send_mode),
            sealer=ready.sealer,
            accounting=usage.accounting,
            worker=worker,
            closing=_close_later(opened, ClosingConnections()),
        )
        resources = Resources(
            services, session, environment, counters, usage, models, sharing, spans
        )
        yield resources.make_setup(config, ready.router)


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
    """Open the engine of a configuration that does not change; as `open_setup`."""
    opening = open_setup(
        config, environment, emit, runtime, stages=stages, store=store, tracer=tracer
    )
    async with opening as setup:
        yield setup.engine


@dataclass(frozen=True)
class _CheckedConfig:
    """What can fail because of the configuration: it is made before anything is opened."""

    router: Router
    data: Path
    sealer: Sealer
    store: Store
    stages: Sequence[StageFactory]
    redactor: Redactor


def _check_config(
    config: Config, environment: Mapping[str, str], runtime: Runtime
) -> _CheckedConfig:
    router = make_checked_router(config, environment)
    data = data_directory(environment)
    return _CheckedConfig(
        router=router,
        data=data,
        sealer=make_sealer(config, data, runtime),
        store=_make_store(config, data, runtime),
        stages=load_stages(config),
        redactor=Redactor(list_secrets(config, router.providers)),
    )


class _Closable(Protocol):
    async def close(self) -> None: ...


_Resource = TypeVar("_Resource", bound=_Closable | None)


class _ThreadOwner(Protocol):
    def close(self) -> None: ...


_Threaded = TypeVar("_Threaded", bound=_ThreadOwner)


def _stop_later(opened: AsyncExitStack, resource: _Threaded) -> _Threaded:
    """Have a resource that has a thread of its own closed in the end."""
    opened.callback(resource.close)
    return resource


def _close_later(opened: AsyncExitStack, resource: _Resource) -> _Resource:
    """Have a resource, if there is one, closed in the end: before those opened earlier."""
    if resource is not None:
        opened.push_async_callback(resource.close)
    return resource


async def _open_store(opened: AsyncExitStack, store: Store) -> Store:
    """Open a store, and have it closed in the end."""
    await store.open()
    return _close_later(opened, store)


def _make_store(config: Config, data: Path, runtime: Runtime) -> Store:
    limits = StoreLimits(
        ttl_s=config.store.ttl_s,
        max_turn_bytes=config.store.max_turn_bytes,
        max_turns=config.store.max_turns,
        max_chain=config.store.max_chain,
        max_history_items=config.store.max_history_items,
        max_history_bytes=config.store.max_history_bytes,
        log_ttl_s=config.background.keep_s,
    )
    url = config.store.url or f"sqlite:///{data / 'turns.db'}"
    waiting = {"wait_s": config.store.wait_s, "pool_size": config.store.pool_size}
    try:
        return open_store(url, limits=limits, now=runtime.now, lease_now=runtime.epoch_s, **waiting)
    except StoreError as error:
        raise config.error_at(["store", "url"], error.message) from error


def _create_own_run(preparer: Preparer, runtime: Runtime) -> CreateRun:
    """Return how the gateway itself creates the run of an image description."""
    return lambda request: preparer.create_run(
        request, Caller(INTERNAL_CLIENT, runtime.new_id("req"))
    )


def _forget(services: Services, providers: Iterable[str]) -> None:
    """Forget what providers have rejected: other servers have their names now."""
    for name in providers:
        services.rejected.forget(name)
        services.rejected_modes.forget(name)


def make_sealer(config: Config, data: Path, runtime: Runtime) -> Sealer:
    require_shared_key(config)
    keys = config.capsule.keys or [read_or_create_key(data / FILE_NAME, runtime.new_nonce)]
    ttl_s = config.capsule.ttl_s
    return Sealer(keys, new_nonce=runtime.new_nonce, now=runtime.now, ttl_s=ttl_s)


_PLAIN_VALUE = re.compile(r"\d{4}-\d\d-\d\d(-preview)?|v?[\d.]+|[a-z]{1,8}")
"""Values of query parameters that are no secrets, such as the version of an API: redacted, they
would be missing in every trace."""


def list_secrets(config: Config, providers: Mapping[str, Provider]) -> list[str]:
    """Every secret of the configuration, for the redaction of log and trace.

    A SigV4 key is a key pair: a provider may quote either half."""
    keys = [key for provider in providers.values() for key in provider.api_keys]
    halves = [half for key in keys for half in key.split(":")]
    headers = [text for entry in config.providers.values() for text in entry.headers.values()]
    queries = [text for each in providers.values() for text in each.query.values()]
    queries = [text for text in queries if not _PLAIN_VALUE.fullmatch(text)]
    addresses = [word for each in providers.values() for word in password_of(each.base_url)]
    own = [*config.server.api_keys.values(), *config.capsule.keys, config.search.api_key]
    own += [config.server.admin_key, config.shared.password, *config.otel.headers.values()]
    own += password_of(config.store.url)
    mcp = [text for each in config.mcp.servers.values() for text in each.headers.values()]
    own += [word for text in mcp for word in (text, *text.split()[1:])]  # `Bearer` is no secret
    return [*filter(None, [*keys, *halves, *headers, *queries, *addresses, *own])]


GROUP = "antiphon.stages"
"""The group of entry points by which packages provide stages: the object of an entry point makes a
`Stage` for each response. A stage runs only where `[pipeline] stages` names it, in that order."""


def load_stages(config: Config, found: Iterable[EntryPoint] | None = None) -> list[StageFactory]:
    """Load the stages that the configuration names; one that cannot be used is a `ConfigError`."""
    names = config.pipeline.stages
    if not names:
        return []
    installed = entry_points(group=GROUP) if found is None else found
    entries = {entry.name: entry for entry in installed}
    return [_load_stage(name, entries, config) for name in names]


def _load_stage(name: str, entries: dict[str, EntryPoint], config: Config) -> StageFactory:
    path = ("pipeline", "stages")
    if name not in entries:
        advice = suggest(name, entries) if entries else "no package with a stage is installed"
        raise config.error_at(path, f"there is no stage {name!r}; {advice}")
    try:
        factory: StageFactory = entries[name].load()
        if not isinstance(factory(), Stage):
            raise TypeError("it does not make a Stage")
    except Exception as error:  # third-party code may raise anything
        problem = f"the stage {name!r} ({entries[name].value}) cannot be loaded: {error}"
        raise config.error_at(path, problem) from error
    return factory
