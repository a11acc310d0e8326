"""Discovery of models: the lists that providers have of their models, and a cache of them.

Where a dialect has such a list, how it is requested and read. The cache is refreshed in the
background, and nothing waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeGuard

import aiohttp
import msgspec

from antiphon.core.plan.plan import Outbound
from antiphon.errors import DiscoveryError
from antiphon.providers.registry import Provider
from antiphon.stages.log import Entry

TIMEOUT_S = 5.0
_MAX_BYTES = 16 * 1024 * 1024
_MAX_MODELS = 2000
_MAX_NAME = 200


class _ListFormat(NamedTuple):
    path: str
    field: str
    """The member that holds the list."""
    name: str
    """The member of an entry that holds the name of the model."""


_OPENAI = _ListFormat("/models", "data", "id")
_FORMATS: Mapping[str, _ListFormat] = {
    "chat": _OPENAI,
    "responses": _OPENAI,
    "ollama": _ListFormat("/api/tags", "models", "name"),
}


def has_model_list(provider: Provider) -> bool:
    """Whether a provider can be asked for its models."""
    spec = provider.spec
    is_called = not spec.in_process and spec.auth.scheme != "sigv4"
    return is_called and spec.any_model and spec.dialect in _FORMATS


async def fetch_models(session: aiohttp.ClientSession, provider: Provider) -> list[str]:
    """Ask a provider for its models; raises `DiscoveryError`."""
    kind = _FORMATS[provider.spec.dialect]
    outbound = Outbound(path=kind.path, body=b"")
    key = next(iter(provider.api_keys), "")
    headers = {**provider.authorization(key, outbound, str), **provider.headers}
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            session.get(
                provider.request_url(outbound), headers=headers, allow_redirects=False
            ) as answer,
        ):
            if answer.status != 200:
                raise DiscoveryError(f"{provider.address} answered {answer.status}")
            body = await answer.content.read(_MAX_BYTES)
            while not answer.content.at_eof() and len(body) < _MAX_BYTES:
                body += await answer.content.read(_MAX_BYTES - len(body))
    except TimeoutError as error:
        raise DiscoveryError(f"{provider.address} sent no list in {TIMEOUT_S:g} seconds") from error
    except (aiohttp.ClientError, OSError) as error:
        raise DiscoveryError(f"{provider.address} cannot be reached") from error
    return read_models(kind.field, kind.name, body)


def read_models(field: str, name: str, body: bytes) -> list[str]:
    """Read the names in a list; entries that are none are left out."""
    try:
        document: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DiscoveryError("the list of models is not JSON") from error
    entries = document.get(field) if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise DiscoveryError(f"the list of models has no `{field}`")
    names = (each.get(name) for each in entries if isinstance(each, dict))
    return [*dict.fromkeys(filter(_is_name, names))][:_MAX_MODELS]


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= _MAX_NAME and value.isprintable()


RETRY_S = 60.0


class _Known(NamedTuple):
    models: tuple[str, ...]
    fresh_until: float


class DiscoveredModels:
    """What providers have said of their models, by name and address of the provider."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        clock: Callable[[], float],
        emit: Callable[[Entry], None],
    ) -> None:
        self._session = session
        self._clock = clock
        self._emit = emit
        self._known: dict[tuple[str, str], _Known] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    def names(self, providers: Mapping[str, Provider]) -> list[str]:
        """Return `provider/model` of every discovered model of these providers."""
        return [
            f"{provider.name}/{model}"
            for provider in providers.values()
            if (known := self._known.get(_key(provider))) is not None
            for model in known.models
        ]

    def refresh(self, providers: Mapping[str, Provider], refresh_s: float) -> None:
        """Ask the providers whose list is older than `refresh_s`, in the background."""
        now = self._clock()
        loop = asyncio.get_running_loop()
        for provider in filter(has_model_list, providers.values()):
            key = _key(provider)
            known = self._known.get(key)
            if key not in self._tasks and (known is None or known.fresh_until <= now):
                self._tasks[key] = loop.create_task(self._fetch(provider, refresh_s))

    async def close(self) -> None:
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _fetch(self, provider: Provider, refresh_s: float) -> None:
        """Remember the list; after a failure the old one, until the next try."""
        key = _key(provider)
        try:
            models = tuple(await fetch_models(self._session, provider))
            lasts_s = refresh_s
        except DiscoveryError as error:
            known = self._known.get(key)
            models = () if known is None else known.models
            lasts_s = min(RETRY_S, refresh_s)
            facts = {"provider": provider.name, "reason": error.message}
            self._emit(Entry("discovery.failed", "debug", facts))
        finally:
            del self._tasks[key]
        self._known[key] = _Known(models, self._clock() + lasts_s)


def _key(provider: Provider) -> tuple[str, str]:
    return provider.name, provider.base_url
