"""Which search engines there are, and the one that is configured."""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp

from antiphon.config import Config
from antiphon.errors import SearchError
from antiphon.search import brave, searxng, tavily, zhipu
from antiphon.search.backend import Backend, HTTPBackend, Vendor
from antiphon.search.recorded import RecordedBackend, load_answers

VENDORS: Mapping[str, Vendor] = {
    "searxng": searxng.VENDOR,
    "tavily": tavily.VENDOR,
    "brave": brave.VENDOR,
    "zhipu": zhipu.VENDOR,
}
_KEPT = frozenset({"filters"})
"""What the gateway keeps by itself."""


def obeyed(config: Config) -> frozenset[str] | None:
    """What the configured search can be told; None: there is none. Raises `ConfigError`."""
    name = config.search.backend
    if not name:
        return None
    if name == "recorded":
        _need_url(config, "`file://` and the path of a file")
        return _KEPT
    vendor = VENDORS[name]
    if not vendor.url:
        _need_url(config, "the address of the server")
    if vendor.needs_key and not config.search.api_key:
        raise config.error_at(("search", "api_key"), f'is needed for backend = "{name}"')
    return _KEPT | vendor.obeys


def _need_url(config: Config, what: str) -> None:
    if not config.search.url:
        problem = f'{what} is needed for backend = "{config.search.backend}"'
        raise config.error_at(("search", "url"), problem)


def open_backend(config: Config, session: aiohttp.ClientSession) -> Backend | None:
    if obeyed(config) is None:
        return None
    if config.search.backend == "recorded":
        try:
            return RecordedBackend(load_answers(config.search.url))
        except SearchError as error:
            raise config.error_at(("search", "url"), error.message) from error
    return HTTPBackend(VENDORS[config.search.backend], config.search, session)
