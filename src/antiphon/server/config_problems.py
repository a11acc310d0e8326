"""Problems of a configuration: whatever the gateway would reject, all at once, with its line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from antiphon.config import Config
from antiphon.engine.compaction import check_compaction_model
from antiphon.engine.media.image_description import check_vision_model
from antiphon.engine.routing import Router, inspect_routes, list_targets
from antiphon.engine.shared.sharing import check_sharing
from antiphon.errors import AntiphonError, ConfigError, StoreError
from antiphon.mcp.open_client import check_mcp
from antiphon.observe.limits import check_limits
from antiphon.providers.registry import Provider, inspect_providers
from antiphon.server.auth import reject_open_bind
from antiphon.server.capsule_key import require_shared_key
from antiphon.server.setup import make_profile_resolver
from antiphon.server.wiring import load_stages
from antiphon.store.url import open_store

Check = Callable[[], object]
"""Raises `AntiphonError` for something that is wrong."""


class InspectedConfig(Struct, frozen=True):
    """The providers that a configuration enables, and its problems."""

    providers: Mapping[str, Provider]
    problems: Sequence[str]


def find_config_problems(
    config: Config,
    found: Sequence[ConfigError],
    environment: Mapping[str, str],
    more: Sequence[Check] = (),
) -> InspectedConfig:
    """Find problems beside `found`, those of the file itself. Creates no file."""
    providers, invalid = inspect_providers(config, environment)
    router, unroutable = inspect_routes(config, providers)
    later = [*invalid, *unroutable]
    for check in (*_list_checks(config, router), *more):
        later += _find_problem(check)
    failed = {each.path[1] for each in [*found, *invalid] if each.path[:1] == ("providers",)}
    problems = [*found, *(each for each in later if not _follows(each, found, failed, config))]
    return InspectedConfig(providers, [*dict.fromkeys(each.message for each in problems)])


def _list_checks(config: Config, router: Router) -> Iterator[Check]:
    yield lambda: check_vision_model(config, router)
    yield lambda: check_compaction_model(config, router)
    yield lambda: make_profile_resolver(config)
    yield lambda: check_limits(config)
    yield lambda: check_sharing(config)
    yield lambda: check_mcp(config)
    yield lambda: load_stages(config)
    yield lambda: reject_open_bind(config)
    if config.store.url:
        yield lambda: _check_store(config)
    yield lambda: require_shared_key(config)


def _check_store(config: Config) -> None:
    try:
        open_store(config.store.url, now=lambda: 0)
    except StoreError as error:
        raise config.error_at(["store", "url"], error.message) from error


def _find_problem(check: Check) -> list[ConfigError]:
    try:
        check()
    except ConfigError as error:
        return [error]
    except AntiphonError as error:  # such as a file of stored responses that cannot be read
        return [ConfigError(error.message)]
    return []


def _follows(
    problem: ConfigError, found: Sequence[ConfigError], failed: Collection[str], config: Config
) -> bool:
    """Whether a problem only follows from others: a provider or a key that is invalid is missing
    later."""
    path = problem.path
    if path[:1] == ("providers",):
        return any(each.path[:2] == path[:2] for each in found)
    if path == ("server", "host"):
        return any(each.path[:2] == ("server", "api_keys") for each in found)
    if path == ("default_provider",):
        return config.default_provider in failed
    targets = {target for at, target in list_targets(config) if at == path}
    return bool(targets) and all(target.partition("/")[0] in failed for target in targets)
