"""The table of search backends, and opening the configured one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from antiphon.config import Config
from antiphon.errors import SearchError
from antiphon.search import brave, searxng, tavily, zhipu
from antiphon.search.backend import HTTPBackend, SearchBackend, SearchVendor
from antiphon.search.recorded import EchoBackend, RecordedBackend, load_results

if TYPE_CHECKING:
    import aiohttp

VENDORS: Mapping[str, SearchVendor] = {
    "searxng": searxng.VENDOR,
    "tavily": tavily.VENDOR,
    "brave": brave.VENDOR,
    "zhipu": zhipu.VENDOR,
}
_ENFORCED_HERE = frozenset({"filters"})
"""Settings of the web search tool that the gateway applies for every backend."""


def read_search_limits(config: Config) -> frozenset[str] | None:
    """Return the tool settings that the configured search supports; None without a search.

    Raises `ConfigError` if the configuration is incomplete.
    """
    name = config.search.backend
    if not name:
        return None
    if name == "echo":
        return _ENFORCED_HERE
    if name == "recorded":
        _require_url(config, "`file://` and the path of a results file")
        return _ENFORCED_HERE
    vendor = VENDORS[name]
    if not vendor.url:
        _require_url(config, "the URL of your server")
    if vendor.needs_key and not config.search.api_key:
        raise config.error_at(
            ("search", "api_key"),
            f'required for backend = "{name}": set it to an API key of that service',
        )
    return _ENFORCED_HERE | vendor.supported_limits


def _require_url(config: Config, expected: str) -> None:
    if not config.search.url:
        problem = f'required for backend = "{config.search.backend}": set it to {expected}'
        raise config.error_at(("search", "url"), problem)


def open_backend(config: Config, session: aiohttp.ClientSession) -> SearchBackend | None:
    if read_search_limits(config) is None:
        return None
    if config.search.backend == "echo":
        return EchoBackend()
    if config.search.backend == "recorded":
        try:
            return RecordedBackend(load_results(config.search.url))
        except SearchError as error:
            raise config.error_at(("search", "url"), error.message) from error
    return HTTPBackend(VENDORS[config.search.backend], config.search, session)
