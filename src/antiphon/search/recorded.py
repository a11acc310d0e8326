"""Search results from a JSON file, for demonstrations and tests.

The file is an object that maps queries to lists of results (title, url, snippet, published). `*`
holds the results of any other query. `"failed"` instead of a list makes the search fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from antiphon.core.web_search.sources import SearchResult
from antiphon.errors import SearchError
from antiphon.search.backend import SearchOptions

RecordedResults: TypeAlias = Mapping[str, tuple[SearchResult, ...] | Literal["failed"]]


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
