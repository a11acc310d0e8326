"""Setup: everything that one configuration decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Protocol

import msgspec
from msgspec import structs

from antiphon.config import ClientConfig, Config, suggest
from antiphon.core.client_profile import (
    ALL_CLIENTS,
    PROFILES,
    Overrides,
    Profile,
    name_software,
    resolve_profile,
)
from antiphon.engine.compaction import check_compaction_model
from antiphon.engine.engine import Engine
from antiphon.engine.routing import Router, make_router
from antiphon.engine.shared.sharing import check_sharing
from antiphon.errors import InvalidRequest
from antiphon.observe.limits import check_limits
from antiphon.providers.registry import build_providers
from antiphon.server.auth import Authenticator
from antiphon.server.body import BodyLimits


class SetupMaker(Protocol):
    """Makes the setups of a process, whose long-lived parts they share."""

    def discover(self, setup: Setup) -> Sequence[str]:
        """Return the names of the models that providers have listed, and refresh them."""

    async def follow(self, setup: Setup, config: Config) -> Setup:
        """Make the setup of another configuration; raises `ConfigError`, and then nothing has
        changed."""


class Setup:
    """One configuration: its engine, its keys, its client profiles and its limits. It does not
    change: a request uses the one that it began with, from its API key to its last event."""

    def __init__(self, config: Config, engine: Engine, maker: SetupMaker) -> None:
        """Raises `ConfigError` for settings that cannot be used."""
        self.config = config
        self.server = config.server
        self.engine = engine
        self.authenticator = Authenticator(config.server.api_keys)
        self.resolve_profile = make_profile_resolver(config)
        self.body_limits = msgspec.convert(config.server, BodyLimits, from_attributes=True)
        self._maker = maker

    def discovered_models(self) -> Sequence[str]:
        """Return the names of the models that providers have listed; none where that is switched
        off. They are refreshed in the background."""
        return self._maker.discover(self) if self.config.discovery.enabled else ()

    async def follow(self, config: Config) -> Setup:
        """Make the setup of another configuration, which takes the place of this one; raises
        `ConfigError`, and then nothing has changed."""
        return await self._maker.follow(self, config)


def make_checked_router(config: Config, environment: Mapping[str, str]) -> Router:
    """Make the router of a configuration; raises `ConfigError` for anything in it that is wrong."""
    router = make_router(config, build_providers(config, environment))
    check_compaction_model(config, router)
    check_limits(config)
    check_sharing(config)
    make_profile_resolver(config)  # checks [clients]
    _check_small_models(config, router)
    return router


def _check_small_models(config: Config, router: Router) -> None:
    """Raise `ConfigError` for a model of small requests that the gateway does not have."""
    for name, client in config.clients.items():
        if client.small_model is not None:
            try:
                router.resolve(client.small_model)
            except InvalidRequest as error:
                raise config.error_at(("clients", name, "small_model"), error.message) from error


def make_profile_resolver(config: Config) -> Callable[[str, str], Profile]:
    """Make the function that recognises a client by its headers `originator` and `user-agent`, with
    the operator's overrides applied.

    Raises `ConfigError` for a [clients] table whose name is no profile."""
    for name in config.clients:
        if name not in PROFILES and name != ALL_CLIENTS:
            problem = f"there is no such profile; {suggest(name, [*PROFILES, ALL_CLIENTS])}"
            raise config.error_at(("clients", name), problem)
    overrides = {name: _read_overrides(each) for name, each in config.clients.items()}
    return lru_cache(maxsize=64)(partial(_resolve, overrides=overrides))


def _read_overrides(client: ClientConfig) -> dict[str, Any]:
    """The members of a profile in a [clients] table; the others are for commands that start one."""
    found = structs.asdict(client)
    return {name: found[name] for name in Profile.__struct_fields__ if name in found}


def _resolve(originator: str, user_agent: str, overrides: Overrides) -> Profile:
    profile = resolve_profile(originator, user_agent, overrides)
    return structs.replace(profile, software=name_software(originator, user_agent))
