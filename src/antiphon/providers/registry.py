"""Which providers there are: the built-in data, and what configuration makes of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from antiphon.config import Config, ModelConfig, ProviderConfig, TimeoutConfig, WebSearch, hint
from antiphon.core.plan.plan import Capabilities, Outbound
from antiphon.dialects.dialect import Dialect, build
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
from antiphon.providers.plugin import Plugins, load_plugins
from antiphon.providers.spec import Spec
from antiphon.search.table import read_search_limits
from antiphon.wire.sigv4 import authorize

_log = logging.getLogger("antiphon.providers")

# Of several whose keys are in the environment, the first is the default.
_MODULES = (
    *(deepseek, zhipu, minimax, xiaomi, moonshot, qwen),
    *(openai, anthropic, gemini, xai, mistral, cohere),
    *(openrouter, groq, together, fireworks, cerebras, perplexity, nvidia, huggingface, github),
    *(azure, vertex, bedrock),
    *(vllm, sglang, ollama, llamacpp, lmstudio, chat, responses, echo),
)
SPECS: Mapping[str, Spec] = {module.SPEC.name: module.SPEC for module in _MODULES}
"""What is built in."""


class Provider(Struct, frozen=True, kw_only=True):
    """A provider as it is configured here."""

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
    """What the gateway's own search can be told; None: it has none."""

    def __repr__(self) -> str:
        return f"Provider({self.name!r})"  # a traceback or a log must not show its keys

    @property
    def issuer(self) -> str:
        """Whose state it is that comes with an answer: a well-known provider's, or a server's."""
        return self.spec.name if self.spec.base_url else f"{self.spec.name} {self.base_url}"

    def address(self, outbound: Outbound) -> str:
        """Where a request goes."""
        query = urlencode({name: value for name, value in self.query.items() if value})
        joint = "&" if "?" in outbound.path else "?"
        return self.base_url + outbound.path + (joint + query if query else "")

    def authorization(
        self, key: str, outbound: Outbound, now: Callable[[], str]
    ) -> Mapping[str, str]:
        """The headers that show a key; `now` is asked for the time of a signature, such as
        `20150830T123600Z`."""
        auth = self.spec.auth
        if not key:
            return {}
        if auth.scheme == "sigv4":
            headers = {**self.headers, **outbound.headers}
            url = self.address(outbound)
            body, service = outbound.body, auth.service
            return authorize(key, "POST", url, headers, body, service=service, at=now())
        return {auth.header: f"Bearer {key}" if auth.scheme == "bearer" else key}

    def models(self) -> list[str]:
        """The models that are known by name, here or in the provider's data."""
        known = [model.id for model in self.spec.models if not model.family]
        return [*dict.fromkeys([*known, *(name for name in self.overrides if name != "*")])]

    def serves(self, model: str) -> bool:
        return self.spec.any_model or model in self.models()

    def capabilities(self, model: str) -> Capabilities:
        """What a model takes, by the provider's data and what the operator knows better."""
        found = self.spec.capabilities_of(model)
        if (how := self._web_search(found)) != found.web_search:
            limits = self.search_limits if how == "managed" else found.web_search_limits
            found = msgspec.structs.replace(found, web_search=how, web_search_limits=limits)
        override = self.overrides.get(model) or self.overrides.get("*")
        return found if override is None else _overridden(found, override)

    def _web_search(self, found: Capabilities) -> WebSearch:
        """Where a model has no search of its own, the gateway's stands in, if it has one."""
        if self.web_search is not None:
            return self.web_search
        stands_in = found.web_search == "ignore" and self.search_limits is not None
        return "managed" if stands_in else found.web_search


def _overridden(base: Capabilities, override: ModelConfig) -> Capabilities:
    given = {
        name: value for name, value in msgspec.structs.asdict(override).items() if value is not None
    }
    if "efforts" in given:
        given["efforts"] = {rung: word or None for rung, word in given["efforts"].items()}
    return msgspec.convert({**msgspec.structs.asdict(base), **given}, Capabilities)


def build_providers(config: Config, environment: Mapping[str, str]) -> dict[str, Provider]:
    """The configured providers or, without any, those whose key is in the environment; and echo."""
    entries = config.providers or _discovered(environment)
    if echo.SPEC.name not in entries:
        entries = {**entries, echo.SPEC.name: ProviderConfig()}
    return {name: _provider(name, entry, config, environment) for name, entry in entries.items()}


@cache
def plugins() -> Plugins:
    """What other packages bring along; looked for once, and what is wrong is said once."""
    found = load_plugins(SPECS)
    for problem in found.problems.values():
        _log.warning("%s", problem)
    return found


def known_specs() -> Mapping[str, Spec]:
    """Every provider there is data of."""
    return {**SPECS, **plugins().specs}


def has_key_in_environment(spec: Spec, environment: Mapping[str, str]) -> bool:
    """Whether the environment alone says that, and how, a provider is to be used."""
    has_key = any(environment.get(variable) for variable in spec.api_key_env)
    return has_key and bool(spec.base_url) and not spec.ambient_key


def _discovered(environment: Mapping[str, str]) -> dict[str, ProviderConfig]:
    specs = known_specs().values()
    return {
        spec.name: ProviderConfig() for spec in specs if has_key_in_environment(spec, environment)
    }


def _provider(
    name: str, entry: ProviderConfig, config: Config, environment: Mapping[str, str]
) -> Provider:
    spec = _spec(name, entry, config)
    base_url = (entry.base_url or spec.base_url).rstrip("/")
    if not base_url:
        problem = f'is needed for kind = "{spec.name}"'
        raise config.mistake(("providers", name, "base_url"), problem)
    search_limits = read_search_limits(config)
    if entry.web_search == "managed" and search_limits is None:
        problem = "the gateway can search only with [search] backend"
        raise config.mistake(("providers", name, "web_search"), problem)
    keys = entry.api_keys or list(filter(None, map(environment.get, spec.api_key_env)))
    if spec.needs_key and not keys:
        problem = f"at least one key is needed (or set {' or '.join(spec.api_key_env)})"
        raise config.mistake(("providers", name, "api_keys"), problem)
    return Provider(
        name=name,
        spec=spec,
        dialect=build(spec.dialect, quirks=spec.quirks, implied_finish=spec.implied_finish),
        base_url=base_url,
        api_keys=tuple(keys),
        headers={**spec.headers, **_lowered(entry.headers)},
        query={**spec.query, **entry.query},
        timeouts=entry.timeouts,
        overrides=entry.models,
        web_search=entry.web_search,
        search_limits=search_limits,
    )


def _spec(name: str, entry: ProviderConfig, config: Config) -> Spec:
    """The data that an entry builds upon, and that its name can be told apart in `a/b`."""
    if "/" in name or not name:
        raise config.mistake(("providers", name), "a provider's name has no slash and is not empty")
    kind = entry.kind or name
    specs = known_specs()
    if kind not in specs:
        path = ("providers", name, "kind") if entry.kind else ("providers", name)
        unknown = f'unknown kind {kind!r}; {hint(kind, specs)} (kind = "chat" is any other server)'
        raise config.mistake(path, plugins().problems.get(kind, unknown))
    return specs[kind]


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    """As HTTP means them: a header that is given replaces ours, however it is spelt."""
    return {name.lower(): value for name, value in headers.items()}
