"""Routing: from a model name to a provider and its model.

Tried in this order: an alias; `provider/model`; an alias with `*` in it, such as `claude-*`; a
model that a provider lists by this name, the default provider's first; the alias `*`; the default
provider, for a name without a slash. `VIA` may stand before any name.

A server that was only found on this machine is any program that listens at a usual port: it gets no
name that the alias `*` or a chosen provider has.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from msgspec import Struct, structs

from antiphon.config import Config, raise_problems, suggest
from antiphon.core.capabilities import Capabilities
from antiphon.errors import ConfigError, InvalidRequest
from antiphon.providers.prices import Price
from antiphon.providers.registry import Provider, known_specs

_MAX_UNLISTED = 256


class Target(Struct, frozen=True, dict=True):
    """A provider, and the model's name there."""

    provider: Provider
    model: str

    @cached_property
    def name(self) -> tuple[str, str]:
        return self.provider.name, self.model

    @cached_property
    def issuer(self) -> str:
        return self.provider.issuer

    @cached_property
    def capabilities(self) -> Capabilities:
        """What the model supports, under its full name. Looked up once for each target."""
        found = self.provider.capabilities(self.model)
        return structs.replace(found, model_name="/".join(self.name))

    @cached_property
    def price(self) -> Price | None:
        """The price of the model; None: unknown. Looked up once for each target."""
        return self.provider.price(self.model)


VIA = "claude-via-"
"""May stand before the name of any model: there are clients that list no names but those that begin
with `claude`."""


class Router:
    """Finds the targets of model names, by the aliases and fallbacks of one configuration."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        aliases: Mapping[str, str],
        default_provider: str = "",
        fallbacks: Mapping[str, Sequence[str]] = MappingProxyType({}),
        *,
        discovers: bool = True,
        found: Collection[str] = (),
        chosen_model: str = "",
    ) -> None:
        """Without `default_provider`, the first provider is the default. `discovers`: an API key in
        the environment enables its provider. `found`: names of providers that were only found.
        `chosen_model`: the default model, as long as a provider has it."""
        self._chosen_model = chosen_model
        self._discovers = discovers
        self._found = {*found} - {default_provider}
        self._fallbacks = fallbacks
        self.providers = providers
        self._aliases = aliases
        self._patterns = [
            (_compile_pattern(alias), target)
            for alias, target in aliases.items()
            if "*" in alias and alias != "*"
        ]
        self._default = providers[default_provider or next(iter(providers))]
        self._full: dict[str, Target] = {}
        self._bare: dict[str, Target] = {}
        self._unlisted: dict[str, Target] = {}
        """Targets of models that no provider lists, kept for their capabilities."""
        self._targets_by_name: dict[str, tuple[Target, ...]] = {}
        """What `targets` has returned; names come from clients, so that it is bounded."""
        for provider in (self._default, *providers.values()):
            for model in provider.models():
                target = self._full.setdefault(f"{provider.name}/{model}", Target(provider, model))
                self._bare.setdefault(model, target)

    def resolve(self, name: str) -> Target:
        """Return the target of a name; raises 404 `model_not_found` with similar names."""
        asked = name.removeprefix(VIA)
        target = self._known(asked) or self._fallback(asked)
        if target is None:
            raise InvalidRequest(
                self._describe_unknown_model(name),
                param="model",
                code="model_not_found",
                status=404,
            )
        return target

    def targets(self, name: str) -> tuple[Target, ...]:
        """Return the targets to try in order: the one of the name, then its fallbacks."""
        known = self._targets_by_name.get(name)
        if known is not None:
            return known
        first = self.resolve(name)
        following = self._fallbacks.get(name) or self._fallbacks.get("/".join(first.name), ())
        found = [first, *filter(None, map(self.direct, following))]
        targets = tuple({target.name: target for target in found}.values())
        if len(self._targets_by_name) >= _MAX_UNLISTED:
            self._targets_by_name.clear()  # bounded, and cheap to make again
        self._targets_by_name[name] = targets
        return targets

    @property
    def aliases(self) -> Mapping[str, str]:
        return self._aliases

    @property
    def fallbacks(self) -> Mapping[str, Sequence[str]]:
        return self._fallbacks

    def names(self) -> list[str]:
        """Return every known model name, aliases first."""
        aliases = [alias for alias in self._aliases if "*" not in alias]
        known = [
            f"{provider.name}/{model}"
            for provider in self.providers.values()
            for model in provider.models()
        ]
        return [*dict.fromkeys([*aliases, *known])]

    def listed_names(self, discovered: Sequence[str] = ()) -> list[str]:
        """Return the names that lists show: aliases, then the models of each provider, with those
        of its own list (`discovered`). Of the built-in test models there is one, and none beside a
        real provider."""
        is_test = {name: each.spec.in_process for name, each in self.providers.items()}
        names = [*self.names(), *discovered]
        order = {name: place for place, name in enumerate(self.providers)}
        real = [name for name in names if not is_test.get(self._owner(name), False)]
        shown = real if not all(is_test.values()) else names[:1]
        return sorted(dict.fromkeys(shown), key=lambda name: order.get(self._owner(name), -1))

    def _owner(self, name: str) -> str:
        """The provider in `provider/model`; empty for an alias."""
        return "" if name in self._aliases else name.partition("/")[0]

    def default_name(self) -> str:
        """Return the default model: the target of the alias `*`, else the model that was chosen on
        the page, else the first model."""
        if "*" in self._aliases:
            return self._aliases["*"]
        if self._chosen_model and self._known(self._chosen_model) is not None:
            return self._chosen_model
        known = self._default.models()
        return f"{self._default.name}/{known[0]}" if known else self.names()[0]

    def _known(self, name: str) -> Target | None:
        alias = self._aliases.get(name) if "*" not in name else None
        return self.direct(alias or name) or self._matching(name) or self._listed(name)

    def _listed(self, name: str) -> Target | None:
        """Return the target of a model that a provider lists by this name."""
        target = self._bare.get(name)
        is_found = target is not None and target.provider.name in self._found
        return None if is_found and self._is_claimed(name) else target

    def _is_claimed(self, name: str) -> bool:
        """Whether a name is one for the alias `*`, or for a provider that was chosen: its data have
        the model, or an older one of the same name."""
        chosen = (each.spec for each in self.providers.values() if each.name not in self._found)
        listing = (each for each in chosen if each.models and not each.in_process)
        return "*" in self._aliases or any(each.knows(name) for each in listing)

    def _matching(self, name: str) -> Target | None:
        """Return the target of the first alias with a `*` that a name fits."""
        found = (target for pattern, target in self._patterns if pattern.fullmatch(name))
        target = next(found, None)
        return None if target is None else self.direct(target)

    def direct(self, name: str) -> Target | None:
        """Return the target of `provider/model`; a model's name may contain slashes."""
        if name in self._full:
            return self._full[name]
        if name not in self._unlisted:
            prefix, _, model = name.partition("/")
            provider = self.providers.get(prefix)
            if not model or provider is None or not provider.serves(model):
                return None
            if len(self._unlisted) >= _MAX_UNLISTED:
                self._unlisted.clear()  # names come from clients: bounded, and cheap to make again
            self._unlisted[name] = Target(provider, model)
        return self._unlisted[name]

    def _fallback(self, name: str) -> Target | None:
        if "*" in self._aliases:
            return self.direct(self._aliases["*"])
        return None if "/" in name else self.direct(f"{self._default.name}/{name}")

    def _describe_unknown_model(self, name: str) -> str:
        missing = _explain_missing_provider(name, self.providers, discovers=self._discovers)
        if missing:
            return f"The model {name!r} is not available: {missing}."
        near = difflib.get_close_matches(name, self.names(), n=3, cutoff=0.4)
        if near:
            return f"The model {name!r} does not exist. Did you mean {', '.join(near)}?"
        return f"The model {name!r} does not exist. GET /v1/models lists the models."


def _compile_pattern(alias: str) -> re.Pattern[str]:
    """Make the pattern of an alias in which each `*` stands for any characters."""
    return re.compile(".*".join(map(re.escape, alias.split("*"))), re.DOTALL)


def make_router(config: Config, providers: Mapping[str, Provider]) -> Router:
    """Make the router of a configuration; a name in it without a target raises `ConfigError`."""
    router, problems = inspect_routes(config, providers)
    raise_problems(problems)
    return router


def inspect_routes(
    config: Config, providers: Mapping[str, Provider]
) -> tuple[Router, Sequence[ConfigError]]:
    """Make a router, and list the names in the configuration that have no target."""
    default = config.default_provider
    discovers = config.providers_from_environment
    problems: list[ConfigError] = []
    if default and default not in providers:
        problem = f"there is no provider {default!r}; {suggest(default, providers)}"
        if default in known_specs():
            problem = _explain_missing_provider(default, providers, discovers=discovers) or problem
        problems.append(config.error_at(("default_provider",), problem))
        default = ""
    router = Router(
        providers,
        config.models,
        default,
        config.fallbacks,
        discovers=discovers,
        found=config.local.keys() - config.providers.keys(),
        chosen_model=config.chosen_model,
    )
    for path, target in list_targets(config):
        if router.direct(target) is None:
            problem = _explain_unknown(target, providers, discovers=discovers)
            problems.append(config.error_at(path, problem))
    return router, problems


def list_targets(config: Config) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield every `provider/model` of the aliases and fallbacks, with the key that it stands at."""
    for alias, target in config.models.items():
        yield ("models", alias), target
    for name, following in config.fallbacks.items():
        for target in following:
            yield ("fallbacks", name), target


def _explain_missing_provider(
    name: str, providers: Mapping[str, Provider], *, discovers: bool
) -> str | None:
    """Explain how to enable the known provider that a name belongs to; None if there is none."""
    prefix = name.partition("/")[0]
    specs = [spec for spec in known_specs().values() if spec.name not in providers]
    listed = (s for s in specs if any(m.id == name for m in s.models))
    spec = next((each for each in specs if each.name == prefix), None) or next(listed, None)
    if spec is None:
        return None
    keys = " or ".join(spec.api_key_env)
    if discovers and keys and spec.base_url and not spec.ambient_key:
        return f"the provider {spec.name} has no API key: set {keys} and start again"
    advice = f"add [providers.{spec.name}] to the configuration"
    if keys:
        return f"the provider {spec.name} is not configured: {advice}, and set {keys}"
    return f"the provider {spec.name} is not configured: {advice}"


def _explain_unknown(target: str, providers: Mapping[str, Provider], *, discovers: bool) -> str:
    prefix, _, model = target.partition("/")
    if not model:
        return f"{target!r} is not of the form provider/model"
    if prefix not in providers and (
        missing := _explain_missing_provider(target, providers, discovers=discovers)
    ):
        return missing
    if prefix not in providers:
        return f"there is no provider {prefix!r}; {suggest(prefix, providers)}"
    return f"{prefix!r} has no model {model!r}; {suggest(model, providers[prefix].models())}"
