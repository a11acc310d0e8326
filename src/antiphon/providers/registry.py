"""The provider registry: built-in provider data and plugins, combined with the configuration."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Literal
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import Struct

from antiphon.config import (
    Config,
    ModelConfig,
    PriceConfig,
    ProviderConfig,
    TimeoutConfig,
    WebSearch,
    raise_problems,
    suggest,
)
from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.plan import Outbound
from antiphon.dialects.bedrock.sigv4 import authorize
from antiphon.dialects.dialect import Dialect
from antiphon.errors import ConfigError
from antiphon.providers import (
    anthropic,
    azure,
    bedrock,
    cerebras,
    chat,
    cohere,
    deepseek,
    echo,
    fireworks,
    gemini,
    github,
    groq,
    huggingface,
    llamacpp,
    lmstudio,
    minimax,
    mistral,
    moonshot,
    nvidia,
    ollama,
    openai,
    openrouter,
    perplexity,
    qwen,
    responses,
    sglang,
    together,
    vertex,
    vllm,
    xai,
    xiaomi,
    zhipu,
)
from antiphon.providers.dialect_plugins import make_dialect
from antiphon.providers.plugin import Plugins, load_plugins
from antiphon.providers.prices import FREE, Price, find_listed_price, read_price
from antiphon.providers.spec import Spec
from antiphon.search.table import read_search_limits

_log = logging.getLogger("antiphon.providers")

# In order of preference: of several with keys in the environment, the first is the default.
_MODULES = (
    *(deepseek, zhipu, minimax, xiaomi, moonshot, qwen),
    *(openai, anthropic, gemini, xai, mistral, cohere),
    *(openrouter, groq, together, fireworks, cerebras, perplexity, nvidia, huggingface, github),
    *(azure, vertex, bedrock),
    *(vllm, sglang, ollama, llamacpp, lmstudio, chat, responses, echo),
)
SPECS: Mapping[str, Spec] = {module.SPEC.name: module.SPEC for module in _MODULES}
"""Built-in providers by name."""


class Provider(Struct, frozen=True, kw_only=True):
    """A provider with its configuration."""

    name: str
    spec: Spec
    dialect: Dialect
    base_url: str
    api_keys: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    timeouts: TimeoutConfig = TimeoutConfig()
    overrides: Mapping[str, ModelConfig] = {}
    web_search: WebSearch | None = None
    search_limits: frozenset[str] | None = None
    """Tool settings that the gateway's own search supports; None without such a search."""
    prices: Mapping[str, PriceConfig] = {}
    """Configured prices by model; `*` applies to the other models."""

    def __repr__(self) -> str:
        return f"Provider({self.name!r})"  # keeps keys out of tracebacks and logs

    @property
    def address(self) -> str:
        """Host and port of the server, for messages: no credentials, no path."""
        parts = urlsplit(self.base_url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        return f"{parts.hostname}:{port}"

    @property
    def issuer(self) -> str:
        """The owner of provider state in responses: a known provider, or one particular server."""
        return self.spec.name if self.spec.base_url else f"{self.spec.name} {self.base_url}"

    def is_same_server(self, other: Provider) -> bool:
        """Whether another configuration of the provider has the same address and credentials."""
        names = ("name", "spec", "base_url", "api_keys", "headers", "query")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def request_url(self, outbound: Outbound) -> str:
        """Return the URL of a request, with the configured query parameters."""
        if not self.query:
            return self.base_url + outbound.path
        query = urlencode({name: value for name, value in self.query.items() if value})
        separator = "&" if "?" in outbound.path else "?"
        return self.base_url + outbound.path + (separator + query if query else "")

    def authorization(
        self, key: str, outbound: Outbound, now: Callable[[], str]
    ) -> Mapping[str, str]:
        """Return the headers that authenticate with `key`; `now` returns the time of a SigV4
        signature, such as `20150830T123600Z`."""
        auth = self.spec.auth
        if not key:
            return {}
        if auth.scheme == "sigv4":
            headers = {**self.headers, **outbound.headers}
            url = self.request_url(outbound)
            body = outbound.body
            service = auth.service
            return authorize(key, "POST", url, headers, body, service=service, timestamp=now())
        return {auth.header: f"Bearer {key}" if auth.scheme == "bearer" else key}

    def models(self) -> list[str]:
        """Return the model names in the provider's data and in the configuration."""
        known = [model.id for model in self.spec.models if not model.family]
        return [*dict.fromkeys([*known, *(name for name in self.overrides if name != "*")])]

    def serves(self, model: str) -> bool:
        return self.spec.any_model or model in self.models()

    def capabilities(self, model: str) -> Capabilities:
        """Return the capabilities of a model: the provider's data with configured overrides."""
        found = self.spec.capabilities_of(model)
        if (how := self._search_mode(found)) != found.web_search:
            limits = self.search_limits if how == "managed" else found.web_search_limits
            found = msgspec.structs.replace(found, web_search=how, web_search_limits=limits)
        override = self.overrides.get(model) or self.overrides.get("*")
        return found if override is None else _apply_override(found, override)

    def price(self, model: str) -> Price | None:
        """Return the price of a model; None: unknown. The listed prices are those of the provider's
        own address."""
        is_own = bool(self.spec.base_url) and self.base_url == self.spec.base_url.rstrip("/")
        listed = None
        if is_own:
            listed = FREE if self.spec.in_process else find_listed_price(self.spec.name, model)
        override = self.prices.get(model) or self.prices.get("*")
        return listed if override is None else read_price(override, listed)

    def _search_mode(self, found: Capabilities) -> WebSearch | Literal["none"]:
        """Return how to search: the gateway's own search replaces a missing one of the model."""
        if self.web_search is not None:
            return self.web_search
        use_own = found.web_search == "none" and self.search_limits is not None
        return "managed" if use_own else found.web_search


def _apply_override(base: Capabilities, override: ModelConfig) -> Capabilities:
    given = {
        name: value for name, value in msgspec.structs.asdict(override).items() if value is not None
    }
    if "efforts" in given:
        given["efforts"] = {effort: value or None for effort, value in given["efforts"].items()}
    return msgspec.convert({**msgspec.structs.asdict(base), **given}, Capabilities)


def build_providers(config: Config, environment: Mapping[str, str]) -> dict[str, Provider]:
    """Build the configured providers, and those with a key in the environment.

    The echo provider is always added.
    """
    providers, problems = inspect_providers(config, environment)
    raise_problems(problems)
    return providers


def inspect_providers(
    config: Config, environment: Mapping[str, str]
) -> tuple[dict[str, Provider], Sequence[ConfigError]]:
    """Build the providers whose configuration is valid, and list the problems of the others."""
    entries = {name: _add_found(config, name, each) for name, each in config.providers.items()}
    if config.providers_from_environment:
        others = {**_discover_providers(environment), **config.local}
        entries |= {name: each for name, each in others.items() if name not in entries}
    if echo.SPEC.name not in entries:
        entries = {**entries, echo.SPEC.name: ProviderConfig()}
    providers: dict[str, Provider] = {}
    problems = [*_find_misnamed_prices(config, entries)]
    for name, entry in entries.items():
        try:
            providers[name] = _build_provider(name, entry, config, environment)
        except ConfigError as error:
            problems.append(error)
    return providers, problems


def _add_found(config: Config, name: str, entry: ProviderConfig) -> ProviderConfig:
    """Add what a configured server on this machine says of its models; the file has precedence."""
    if name not in config.local:
        return entry
    found = config.local[name]
    models = {**found.models, **entry.models}
    base_url = entry.base_url or found.base_url
    return msgspec.structs.replace(entry, base_url=base_url, models=models)


@cache
def installed_plugins() -> Plugins:
    """Load provider plugins once, and log each problem once."""
    found = load_plugins(SPECS)
    for problem in found.problems.values():
        _log.warning("%s", problem)
    return found


def known_specs() -> Mapping[str, Spec]:
    """Return all built-in and plugin providers by name."""
    return {**SPECS, **installed_plugins().specs}


def is_enabled_by_environment(spec: Spec, environment: Mapping[str, str]) -> bool:
    """Whether environment variables alone suffice to enable a provider."""
    has_key = any(environment.get(variable) for variable in spec.api_key_env)
    return has_key and bool(spec.base_url) and not spec.ambient_key


def _discover_providers(environment: Mapping[str, str]) -> dict[str, ProviderConfig]:
    specs = known_specs().values()
    return {
        spec.name: ProviderConfig()
        for spec in specs
        if is_enabled_by_environment(spec, environment)
    }


def _build_provider(
    name: str, entry: ProviderConfig, config: Config, environment: Mapping[str, str]
) -> Provider:
    spec = _find_spec(name, entry, config)
    base_url = (entry.base_url or spec.base_url).rstrip("/")
    if not base_url:
        problem = f'required for kind = "{spec.name}": set it to the base URL of the server'
        raise config.error_at(("providers", name, "base_url"), problem)
    if not _is_address(base_url):
        problem = (
            "is not the address of a server: it must be a URL such as https://host:8080/v1, with a"
            " port from 1 to 65535 if it has one"
        )
        raise config.error_at(("providers", name, "base_url"), problem)
    search_limits = read_search_limits(config)
    if entry.web_search == "managed" and search_limits is None:
        problem = '"managed" requires a search backend: set `backend` in [search]'
        raise config.error_at(("providers", name, "web_search"), problem)
    _check_hosted_tools(name, entry, spec, config)
    keys = entry.api_keys or list(filter(None, map(environment.get, spec.api_key_env)))
    if spec.needs_key and not keys:
        problem = f"required: set an API key here or in {' or '.join(spec.api_key_env)}"
        raise config.error_at(("providers", name, "api_keys"), problem)
    return Provider(
        name=name,
        spec=spec,
        dialect=make_dialect(spec),
        base_url=base_url,
        api_keys=tuple(keys),
        headers={**spec.headers, **_lowercase_names(entry.headers)},
        query={**spec.query, **entry.query},
        timeouts=entry.timeouts,
        overrides=entry.models,
        web_search=entry.web_search,
        search_limits=search_limits,
        prices=_select_prices(name, config),
    )


def _is_address(url: str) -> bool:
    """Whether a URL has a host, and a port that can exist. A password with a slash in it would be
    taken for a port."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _select_prices(name: str, config: Config) -> dict[str, PriceConfig]:
    """Return the configured prices of a provider by model."""
    prefix = f"{name}/"
    return {
        key.removeprefix(prefix): price
        for key, price in config.prices.items()
        if key.startswith(prefix)
    }


def _find_misnamed_prices(config: Config, providers: Iterable[str]) -> Iterator[ConfigError]:
    """Find prices of providers that do not exist: without the error, their cost stays unknown."""
    names = {*providers, *known_specs()}
    for key in config.prices:
        provider, _, model = key.partition("/")
        if not model:
            yield config.error_at(("prices", key), "must be of the form provider/model")
        elif provider not in names:
            problem = f"there is no provider {provider!r}; {suggest(provider, names)}"
            yield config.error_at(("prices", key), problem)


def _check_hosted_tools(name: str, entry: ProviderConfig, spec: Spec, config: Config) -> None:
    for model, override in entry.models.items():
        if override.hosted_tools and spec.dialect != "responses":
            problem = f"{name!r} is not a Responses API, so it cannot be sent hosted tools"
            raise config.error_at(("providers", name, "models", model, "hosted_tools"), problem)


def _find_spec(name: str, entry: ProviderConfig, config: Config) -> Spec:
    """Return the data for a configured provider; raises `ConfigError` if its name or kind is
    invalid. A slash separates provider and model in `provider/model`."""
    if "/" in name or not name:
        raise config.error_at(
            ("providers", name), "a provider name must not be empty or contain a slash"
        )
    kind = entry.kind or name
    specs = known_specs()
    if kind not in specs:
        path = ("providers", name, "kind") if entry.kind else ("providers", name)
        unknown = (
            f"unknown kind {kind!r}; {suggest(kind, specs)}"
            ' (use kind = "chat" for any Chat Completions server)'
        )
        raise config.error_at(path, installed_plugins().problems.get(kind, unknown))
    return specs[kind]


def _lowercase_names(headers: Mapping[str, str]) -> dict[str, str]:
    """Lowercase header names, so that a configured header replaces ours whatever its case."""
    return {name.lower(): value for name, value in headers.items()}
