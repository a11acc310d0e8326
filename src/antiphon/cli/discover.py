"""Model discovery for commands: ask all providers at once, and name those that did not answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable

import aiohttp

from antiphon.engine.connections import open_session
from antiphon.engine.discovery.model_lists import fetch_models, has_model_list
from antiphon.errors import DiscoveryError
from antiphon.providers.registry import Provider

_UNSET = re.compile(r"\$\{(\w+)\}")
"""An environment variable that is not set, as commands leave it in values they do not need."""


def discover_models(
    providers: Iterable[Provider],
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the models of each provider that has a list, and why others could not be listed."""
    return asyncio.run(_ask_all([*filter(has_model_list, providers)]))


async def _ask_all(providers: list[Provider]) -> tuple[dict[str, list[str]], dict[str, str]]:
    if not providers:
        return {}, {}
    async with open_session() as session:
        replies = await asyncio.gather(*(_ask(session, each) for each in providers))
    pairs = [(provider.name, reply) for provider, reply in zip(providers, replies, strict=True)]
    found = {name: reply for name, reply in pairs if isinstance(reply, list)}
    return found, {name: reply for name, reply in pairs if isinstance(reply, str)}


async def _ask(session: aiohttp.ClientSession, provider: Provider) -> list[str] | str:
    values = (provider.base_url, *provider.api_keys, *provider.headers.values())
    if unset := _UNSET.search(" ".join(values)):
        return f"the environment variable {unset[1]} is not set"
    try:
        return [*await fetch_models(session, provider)]
    except DiscoveryError as error:
        return error.message
