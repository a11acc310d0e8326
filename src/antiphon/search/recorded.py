"""Answers from a file, for demonstrations and tests: what is found for which query.

The file is an object. Its keys are queries, its values lists of results (title, url, snippet,
published); under `*` stands what is found for any other query. In place of a list, `"failed"` is a
search that fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from antiphon.core.web_search.sources import SearchResult
from antiphon.errors import SearchError
from antiphon.search.backend import Options

Answers: TypeAlias = Mapping[str, tuple[SearchResult, ...] | Literal["failed"]]


class RecordedBackend:
    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def search(self, query: str, *, options: Options) -> Sequence[SearchResult]:
        found = self._answers.get(query, self._answers.get("*", ()))
        if found == "failed":
            raise SearchError("This search is recorded as one that fails.")
        return found


def load_answers(url: str) -> Answers:
    """The answers in the file at `file://…`; raises `SearchError`."""
    try:
        data = Path(url.removeprefix("file://")).read_bytes()
        return msgspec.json.decode(
            data, type=dict[str, tuple[SearchResult, ...] | Literal["failed"]]
        )
    except OSError as error:
        raise SearchError(f"it cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise SearchError(f"it is not a file of answers: {error}") from error
