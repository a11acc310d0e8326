"""Client profiles: recognise the client by its headers, with the operator's overrides applied."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from msgspec import structs

from antiphon.config import Config, suggest
from antiphon.core.client_profile import (
    ALL_CLIENTS,
    PROFILES,
    Overrides,
    Profile,
    name_software,
    resolve_profile,
)


def make_profile_resolver(config: Config) -> Callable[[str, str], Profile]:
    """Return a cached function from the headers `originator` and `user-agent` to a profile.

    Raises `ConfigError` for a [clients] table whose name is no profile."""
    for name in config.clients:
        if name not in PROFILES and name != ALL_CLIENTS:
            problem = f"there is no such profile; {suggest(name, [*PROFILES, ALL_CLIENTS])}"
            raise config.error_at(("clients", name), problem)
    overrides = {name: structs.asdict(each) for name, each in config.clients.items()}
    return lru_cache(maxsize=64)(partial(_resolve, overrides=overrides))


def _resolve(originator: str, user_agent: str, overrides: Overrides) -> Profile:
    profile = resolve_profile(originator, user_agent, overrides)
    return structs.replace(profile, software=name_software(originator, user_agent))
