"""Engines of one process: each has a configuration of its own; the long-lived parts are shared."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from antiphon.config import Config, data_directory
from antiphon.core.history.capsule import Sealer
from antiphon.engine.compaction.model import check_compaction_model
from antiphon.engine.discovery.discovered_models import DiscoveredModels
from antiphon.engine.engine import Engine
from antiphon.engine.media.image_description import (
    CreateRun,
    DescriptionCache,
    make_image_describer,
)
from antiphon.engine.media.pdf_text import ReadPDFs, make_pdf_reader
from antiphon.engine.routing import Router, make_router
from antiphon.engine.runtime import Runtime
from antiphon.engine.searches import find_nothing
from antiphon.engine.services import Caller, Services
from antiphon.engine.shared.sharing import Share, check_sharing, share_nothing
from antiphon.engine.tracing import Accounting
from antiphon.errors import StoreError
from antiphon.observe.accounting import apply_limits, reload_costs
from antiphon.observe.counters import LimitCounters
from antiphon.observe.limits import check_limits
from antiphon.observe.recorder import UsageRecorder
from antiphon.observe.span_export import SpanExport
from antiphon.pipeline.log import Entry
from antiphon.providers.registry import Provider, build_providers
from antiphon.search.searcher import open_searcher
from antiphon.server.capsule_key import FILE_NAME, read_or_create_key, require_shared_key
from antiphon.server.clients import make_profile_resolver
from antiphon.store.url import password_of
from antiphon.wire.limits import ResponseLimits


@dataclass
class EngineParts:
    """What the engines of a process share: store, trace, connections, descriptions of images."""

    services: Services
    """Those of the first configuration."""
    session: aiohttp.ClientSession
    """For web searches."""
    environment: Mapping[str, str]
    counters: LimitCounters
    """Behind the limits of clients."""
    usage: UsageRecorder
    spans: SpanExport | None = None
    share: Share = share_nothing
    descriptions: DescriptionCache = field(default_factory=OrderedDict)
    read_pdfs: ReadPDFs | None = field(default_factory=make_pdf_reader)
    discovered: DiscoveredModels = field(init=False)

    def __post_init__(self) -> None:
        services = self.services
        clock, emit = services.runtime.monotonic, services.emit
        self.discovered = DiscoveredModels(self.session, clock, emit)

    def make_engine(self, config: Config, router: Router) -> Engine:
        """Make the engine of the first configuration."""
        return self._make_engine(config, router, self.services)

    def reconfigure(self, before: Engine, config: Config) -> Engine:
        """Make the engine of another configuration; raises `ConfigError`, and then nothing has
        changed. Providers with the same address and keys keep their health."""
        router = make_checked_router(config, self.environment)
        sealer = make_sealer(config, data_directory(self.environment), self.services.runtime)
        old, new = before.router.providers, router.providers
        same = [
            each for name, each in new.items() if name in old and old[name].is_same_server(each)
        ]
        health = before.services.health.carry_over(config.attempts, same)
        accounting = self._apply_limits(before, config)
        services = replace(before.services, health=health, sealer=sealer, accounting=accounting)
        engine = self._make_engine(config, router, services)
        services.redactor.add(list_secrets(config, new))
        _forget(services, {*old, *new} - {provider.name for provider in same})
        self._announce(engine)
        return engine

    def _announce(self, engine: Engine) -> None:
        """Tell others of the engine in effect: other processes, and spans of its providers."""
        if self.spans is not None:
            self.spans.add_providers(engine.router.providers)
        self.share(engine)

    def _apply_limits(self, before: Engine, config: Config) -> Accounting:
        services = before.services
        runtime, emit = services.runtime, services.emit
        return apply_limits(services.accounting, config, self.counters, runtime, emit)

    def _make_engine(self, config: Config, router: Router, services: Services) -> Engine:
        search = open_searcher(config, self.session) or find_nothing
        services = replace(services, search=search, **_read_choices(config))
        engine = Engine(router, services, read_pdfs=self.read_pdfs)
        create_run = _create_own_run(engine)
        engine.describe_images = make_image_describer(config, router, create_run, self.descriptions)
        if config.discovery.enabled:
            engine.discovered = partial(self._discover, router, config.discovery.refresh_s)
        engine.reconfigure = lambda following: self.reconfigure(engine, following)
        engine.before_reload = self._before_reload
        return engine

    async def _before_reload(self, config: Config) -> None:
        services = self.services
        now, store = services.runtime.epoch_s(), services.store
        try:
            await reload_costs(config, self.usage, store, self.counters, now)
        except StoreError as error:
            reason = f"{error.message}; limits of cost count from now on"
            services.emit(Entry("limits.costs_not_read", "warning", {"reason": reason}))

    def _discover(self, router: Router, refresh_s: float) -> list[str]:
        """Return the discovered models as far as they are known, and ask for new lists."""
        self.discovered.refresh(router.providers, refresh_s)
        return self.discovered.names(router.providers)


def _forget(services: Services, providers: Iterable[str]) -> None:
    """Forget what providers have rejected: other servers have their names now."""
    for name in providers:
        services.rejected.forget(name)
        services.rejected_modes.forget(name)


def make_checked_router(config: Config, environment: Mapping[str, str]) -> Router:
    """Make the router of a configuration; raises `ConfigError` for anything in it that is wrong."""
    router = make_router(config, build_providers(config, environment))
    check_compaction_model(config, router)
    check_limits(config)
    check_sharing(config)
    make_profile_resolver(config)  # checks [clients]
    return router


def make_sealer(config: Config, data: Path, runtime: Runtime) -> Sealer:
    require_shared_key(config)
    keys = config.capsule.keys or [read_or_create_key(data / FILE_NAME, runtime.new_nonce)]
    ttl_s = config.capsule.ttl_s
    return Sealer(keys, new_nonce=runtime.new_nonce, now=runtime.now, ttl_s=ttl_s)


def _read_choices(config: Config) -> dict[str, Any]:
    """Return the services that are settings of the configuration."""
    return {
        "attempts": config.attempts,
        "compatibility": config.compatibility,
        "compaction_model": config.compaction.model,
        "limits": msgspec.convert(config.limits, ResponseLimits, from_attributes=True),
    }


def list_secrets(config: Config, providers: Mapping[str, Provider]) -> list[str]:
    """Every secret of the configuration, for the redaction of log and trace.

    A SigV4 key is a key pair: a provider may quote either half."""
    keys = [key for provider in providers.values() for key in provider.api_keys]
    halves = [half for key in keys for half in key.split(":")]
    headers = [text for entry in config.providers.values() for text in entry.headers.values()]
    own = [*config.server.api_keys.values(), *config.capsule.keys, config.search.api_key]
    own += [config.server.admin_key, config.shared.password, *config.otel.headers.values()]
    own += password_of(config.store.url)
    return [*filter(None, [*keys, *halves, *headers, *own])]


def _create_own_run(engine: Engine) -> CreateRun:
    """Return how the gateway itself creates a run, such as for image descriptions."""
    new_id = engine.services.runtime.new_id
    return lambda request: engine.create(request, Caller("antiphon", new_id("req")))
