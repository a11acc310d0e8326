"""Where the providers of a gateway come from, and which keys of the environment are not used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from antiphon.config import Config
from antiphon.providers.registry import Provider, known_specs
from antiphon.providers.spec import Spec


def find_real_providers(providers: Iterable[Provider]) -> list[Provider]:
    """Leave out the built-in test provider."""
    return [provider for provider in providers if not provider.spec.in_process]


def describe_providers(
    providers: Iterable[Provider], config: Config, environment: Mapping[str, str]
) -> list[str]:
    """Name each provider, and why it is there: `deepseek (DEEPSEEK_API_KEY)`."""
    return [
        f"{provider.name} ({_find_source(provider, config, environment)})"
        for provider in find_real_providers(providers)
    ]


def _find_source(provider: Provider, config: Config, environment: Mapping[str, str]) -> str:
    if provider.name in config.providers:
        return "file"
    if provider.name in config.local:
        count = len(provider.models())
        return f"found at {provider.address}, {count} model{'' if count == 1 else 's'}"
    return next(_set_variables(provider.spec, environment), provider.address)


def _set_variables(spec: Spec, environment: Mapping[str, str]) -> Iterator[str]:
    return (name for name in spec.api_key_env if environment.get(name))


def find_unused_keys(
    providers: Mapping[str, Provider], config: Config, environment: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield each API key variable of the environment that no provider uses, and why."""
    used = {key for provider in providers.values() for key in provider.api_keys}
    for spec in known_specs().values():
        for variable in _set_variables(spec, environment):
            if environment[variable] not in used:
                yield variable, _explain_unused(spec, config)


def _explain_unused(spec: Spec, config: Config) -> str:
    if spec.name in config.providers:
        return f"[providers.{spec.name}] has other `api_keys`"
    if not spec.base_url:
        return f"{spec.title} needs an address: add [providers.{spec.name}] with `base_url`"
    if spec.ambient_key:
        return (
            f"other programs use this variable as well: add [providers.{spec.name}] to use"
            f" {spec.title}"
        )
    return f"`providers_from_environment` is false: set it to true, or add [providers.{spec.name}]"
