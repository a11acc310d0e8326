"""The cache of what providers have said of their models. It is refreshed in the background, and
nothing waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

import aiohttp

from antiphon.engine.discovery.model_lists import fetch_models, has_model_list
from antiphon.errors import DiscoveryError
from antiphon.providers.registry import Provider
from antiphon.stages.log import Entry

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
