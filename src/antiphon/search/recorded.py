"""Search results without a search engine, for demonstrations and tests: from a JSON file, or made
of the query.

The file is an object that maps queries to lists of results (title, url, snippet, published). `*`
holds the results of any other query. `"failed"` instead of a list makes the search fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import quote

import msgspec

from antiphon.core.web_search.sources import SearchResult
from antiphon.errors import SearchError
from antiphon.search.backend import SearchOptions

_ECHO_PAGES = 3
RecordedResults: TypeAlias = Mapping[str, tuple[SearchResult, ...] | Literal["failed"]]


class EchoBackend:
    """Finds a page about every query: web search can be tried without a key and a network."""

    async def search(self, query: str, *, options: SearchOptions) -> Sequence[SearchResult]:
        words = "+".join(query.split())
        return [
            SearchResult(
                title=f"About {query}",
                url=f"https://echo.example/{number}?q={quote(words, safe='+')}",
                snippet=f"Page {number} says: {query}.",
            )
            for number in range(1, min(options.count, _ECHO_PAGES) + 1)
        ]


class RecordedBackend:
    def __init__(self, results: RecordedResults) -> None:
        self._results = results

    async def search(self, query: str, *, options: SearchOptions) -> Sequence[SearchResult]:
        found = self._results.get(query, self._results.get("*", ()))
        if found == "failed":
            raise SearchError("The search results file records this search as failed.")
        return found


def load_results(url: str) -> RecordedResults:
    """Load the results file at `file://…`; raises `SearchError`."""
    path = Path(url.removeprefix("file://"))
    try:
        data = path.read_bytes()
        return msgspec.json.decode(
            data, type=dict[str, tuple[SearchResult, ...] | Literal["failed"]]
        )
    except OSError as error:
        raise SearchError(f"{path} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise SearchError(f"{path} is not a valid file of search results: {error}") from error
