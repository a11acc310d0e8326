"""One question to a search engine, over HTTP or otherwise.

1. A *vendor* is data and two pure functions: a query becomes an `Ask`, a document becomes results.
2. Only the engine itself is asked. An address that it finds is never fetched from here.
3. Whatever goes wrong is a `SearchError`, and its text holds neither keys nor addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import aiohttp
import msgspec
from msgspec import Struct

from antiphon.config import SearchConfig
from antiphon.core.web_search.rules import SearchRules
from antiphon.core.web_search.sources import SearchResult
from antiphon.errors import SearchError

_ANSWER_BYTES = 4 * 1024 * 1024
_OPERATOR_CHARS = 200  # engines refuse or cut long queries


class Options(Struct, frozen=True, kw_only=True):
    """How much to find, and where."""

    count: int = 5
    rules: SearchRules = SearchRules()


class Backend(Protocol):
    async def search(self, query: str, *, options: Options) -> Sequence[SearchResult]:
        """The best results first; raises `SearchError`."""


class Ask(Struct, frozen=True, kw_only=True):
    """A request to an engine."""

    path: str
    method: Literal["GET", "POST"] = "GET"
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: Mapping[str, Any] | None = None


class Vendor(Struct, frozen=True, kw_only=True):
    """A kind of engine."""

    ask: Callable[[str, str, Options], Ask]
    """The query, the key and the options, as the engine wants to be asked."""
    read: Callable[[Any], Sequence[SearchResult]]
    """Its answer; what is missing or odd is left out."""
    url: str = ""
    """Where it is; empty: wherever the operator runs it."""
    needs_key: bool = True
    obeys: frozenset[str] = frozenset()
    """What it can be told beyond the filters, which the gateway keeps itself."""


class HTTPBackend:
    def __init__(
        self, vendor: Vendor, config: SearchConfig, session: aiohttp.ClientSession
    ) -> None:
        self._vendor = vendor
        self._url = (config.url or vendor.url).rstrip("/")
        self._key = config.api_key
        self._session = session
        self._timeout = aiohttp.ClientTimeout(total=config.timeout_s)

    async def search(self, query: str, *, options: Options) -> Sequence[SearchResult]:
        ask = self._vendor.ask(query, self._key, options)
        try:
            status, body = await self._answer(ask)
        except TimeoutError:
            raise SearchError("The search engine took too long.") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # The cause is left behind: it may show the address, and that may hold a key.
            raise SearchError(
                f"The search engine is out of reach: {type(error).__name__}."
            ) from None
        if status != 200:
            raise SearchError(f"The search engine answered with status {status}.")
        try:
            return self._vendor.read(msgspec.json.decode(body))
        except (msgspec.DecodeError, RecursionError):
            raise SearchError("The search engine's answer cannot be read.") from None

    async def _answer(self, ask: Ask) -> tuple[int, bytes]:
        async with self._session.request(
            ask.method,
            self._url + ask.path,
            params=ask.query,
            headers={"accept": "application/json", "user-agent": "antiphon", **ask.headers},
            json=ask.body,
            allow_redirects=False,
            timeout=self._timeout,
        ) as response:
            pieces: list[bytes] = []
            size = 0
            async for piece in response.content.iter_any():
                pieces.append(piece)
                size += len(piece)
                if size > _ANSWER_BYTES:
                    raise SearchError("The search engine's answer is too long.")
            return response.status, b"".join(pieces)


# What many vendors' answers have in common


def listed(document: Any, *path: str) -> list[Mapping[str, Any]]:
    """The objects in the list at this place; none, if there is no such place."""
    for name in path:
        document = document.get(name) if isinstance(document, Mapping) else None
    found = document if isinstance(document, list) else []
    return [each for each in found if isinstance(each, Mapping)]


def text(entry: Mapping[str, Any], *names: str) -> str:
    """The first of these fields that is a text with something in it."""
    given = (entry.get(name) for name in names)
    return next((value for value in given if isinstance(value, str) and value.strip()), "")


def result(entry: Mapping[str, Any], *, url: str, snippet: str, published: str) -> SearchResult:
    return SearchResult(
        title=text(entry, "title"), url=url, snippet=snippet, published=published or None
    )


def with_operators(query: str, rules: SearchRules) -> str:
    """The query within the allowed domains, for engines that know `site:`.

    Too many domains make too long a query: then only what is found is sorted out.
    """
    within = " OR ".join(f"site:{domain}" for domain in rules.allowed)
    without = " ".join(f"-site:{domain}" for domain in rules.blocked)
    grouped = f"({within})" if len(rules.allowed) > 1 else within
    operators = " ".join(filter(None, (grouped, without)))
    return f"{query} {operators}".strip() if len(operators) <= _OPERATOR_CHARS else query
