"""Web search backends over HTTP.

1. A *vendor* is data and two pure functions: build a request from a query, parse its response.
2. Requests go only to the search engine. The URLs in its results are never fetched from here.
3. Every failure is a `SearchError`, whose message contains neither keys nor URLs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec
from msgspec import Struct

from antiphon.config import SearchConfig
from antiphon.core.web_search.rules import SearchRules
from antiphon.core.web_search.sources import SearchResult
from antiphon.errors import SearchError

if TYPE_CHECKING:
    import aiohttp  # loaded when a search is made: most commands only read the table of vendors

_MAX_RESPONSE_BYTES = 4 * 1024 * 1024
_MAX_OPERATOR_CHARS = 200  # engines refuse or truncate long queries


class SearchOptions(Struct, frozen=True, kw_only=True):
    """Number of results, and the request's search rules."""

    count: int = 5
    rules: SearchRules = SearchRules()


class SearchBackend(Protocol):
    async def search(self, query: str, *, options: SearchOptions) -> Sequence[SearchResult]:
        """Return results, best first; raises `SearchError`."""


class SearchRequest(Struct, frozen=True, kw_only=True):
    """An HTTP request to a search engine."""

    path: str
    method: Literal["GET", "POST"] = "GET"
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: Mapping[str, Any] | None = None


class SearchVendor(Struct, frozen=True, kw_only=True):
    """A search API: how to send a query to it, and how to read its response."""

    build_request: Callable[[str, str, SearchOptions], SearchRequest]
    """Builds the HTTP request from query, API key and options."""
    parse_response: Callable[[Any], Sequence[SearchResult]]
    """Reads the decoded JSON response; missing or malformed parts are skipped."""
    url: str = ""
    """Base URL; empty if the operator runs the server and configures `url`."""
    needs_key: bool = True
    supported_limits: frozenset[str] = frozenset()
    """Settings of the web search tool that the API supports, beyond `filters`, which the gateway
    applies to the results itself."""


class HTTPBackend:
    def __init__(
        self, vendor: SearchVendor, config: SearchConfig, session: aiohttp.ClientSession
    ) -> None:
        self._vendor = vendor
        self._name = config.backend
        self._url = (config.url or vendor.url).rstrip("/")
        self._key = config.api_key
        self._session = session
        self._timeout_s = config.timeout_s

    async def search(self, query: str, *, options: SearchOptions) -> Sequence[SearchResult]:
        import aiohttp

        request = self._vendor.build_request(query, self._key, options)
        try:
            status, body = await self._fetch(request)
        except TimeoutError:
            raise self._error(f"did not respond within {self._timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # `from None`: the cause may show the URL, which may contain a key.
            raise self._error(f"could not be reached ({type(error).__name__})") from None
        if status != 200:
            advice = "; check `api_key` in [search]" if status in (401, 403) else ""
            raise self._error(f"returned HTTP status {status}{advice}")
        try:
            return self._vendor.parse_response(msgspec.json.decode(body))
        except (msgspec.DecodeError, RecursionError):
            raise self._error("returned a response that is not valid JSON") from None

    async def _fetch(self, request: SearchRequest) -> tuple[int, bytes]:
        import aiohttp

        async with self._session.request(
            request.method,
            self._url + request.path,
            params=request.query,
            headers={"accept": "application/json", "user-agent": "antiphon", **request.headers},
            json=request.body,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
        ) as response:
            return response.status, await self._read_body(response)

    async def _read_body(self, response: aiohttp.ClientResponse) -> bytes:
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_any():
            chunks.append(chunk)
            size += len(chunk)
            if size > _MAX_RESPONSE_BYTES:
                raise self._error(f"returned more than {_MAX_RESPONSE_BYTES:,} bytes")
        return b"".join(chunks)

    def _error(self, problem: str) -> SearchError:
        return SearchError(f"Search backend '{self._name}' {problem}.")


# Shared by the vendors' parsers


def read_objects(document: Any, *path: str) -> list[Mapping[str, Any]]:
    """Return the objects of the list at `path`; an empty list if there is none."""
    for name in path:
        document = document.get(name) if isinstance(document, Mapping) else None
    found = document if isinstance(document, list) else []
    return [each for each in found if isinstance(each, Mapping)]


def read_text(entry: Mapping[str, Any], *names: str) -> str:
    """Return the first of these fields that is a non-blank string, or an empty string."""
    values = (entry.get(name) for name in names)
    return next((value for value in values if isinstance(value, str) and value.strip()), "")


def build_result(
    entry: Mapping[str, Any], *, url: str, snippet: str, published: str
) -> SearchResult:
    return SearchResult(
        title=read_text(entry, "title"), url=url, snippet=snippet, published=published or None
    )


def add_site_operators(query: str, rules: SearchRules) -> str:
    """Restrict a query to the allowed domains, for engines that support `site:`.

    With too many domains the query stays as it is, and only the results are filtered.
    """
    allowed = " OR ".join(f"site:{domain}" for domain in rules.allowed)
    blocked = " ".join(f"-site:{domain}" for domain in rules.blocked)
    grouped = f"({allowed})" if len(rules.allowed) > 1 else allowed
    operators = " ".join(filter(None, (grouped, blocked)))
    return f"{query} {operators}".strip() if len(operators) <= _MAX_OPERATOR_CHARS else query
