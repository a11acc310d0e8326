"""Numbered sources: search results as text for the model, and as citations of its text.

1. A number belongs to a URL for the whole thread: a result that is found again keeps its number.
2. The text for the model has one block of lines for each source. Titles and snippets cannot begin
   a line of their own, so sources can be parsed back from it, and no page can forge one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from antiphon.core.history.steps import Step, TextPart, ToolCallStep, ToolResultStep
from antiphon.core.web_search.memory import HOSTED, SEARCH

_TITLE_CHARS = 200
_NO_RESULTS = "Nothing was found."
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, bidirectional overrides and surrogates."""
_SOURCE = re.compile(r"^\[(\d+)\] (.*)\n(\S+)$", re.MULTILINE)


class SearchResult(Struct, frozen=True, kw_only=True):
    """One result of a search engine."""

    title: str = ""
    url: str
    snippet: str = ""
    published: str | None = None
    """The date, as the search engine formats it."""


class WebSource(Struct, frozen=True):
    """A URL that a response may cite."""

    url: str
    title: str


class NumberedSources:
    """The sources of a thread, by number and by URL."""

    def __init__(self, history: Iterable[Step] = ()) -> None:
        """`history` may contain searches of earlier turns: their sources keep their numbers."""
        self._numbers: dict[str, int] = {}
        self._sources: dict[int, WebSource] = {}
        for number, source in _parse_sources(history):
            self._numbers.setdefault(source.url, number)
            self._sources.setdefault(number, source)

    def numbered(self, number: int) -> WebSource | None:
        return self._sources.get(number)

    def at(self, url: str) -> WebSource | None:
        number = self._numbers.get(url)
        return None if number is None else self._sources[number]

    def add(self, result: SearchResult) -> int:
        """Number a result; one that has a number keeps it."""
        known = self._numbers.get(result.url)
        if known is not None:
            return known
        number = max(self._sources, default=0) + 1
        self._numbers[result.url] = number
        self._sources[number] = WebSource(
            result.url, _single_line(result.title, _TITLE_CHARS) or result.url
        )
        return number

    def format_results(self, results: Iterable[SearchResult], snippet_chars: int) -> str:
        """Format search results for the model."""
        blocks = [self._format_result(result, snippet_chars) for result in results]
        return "\n\n".join(blocks) or _NO_RESULTS

    def _format_result(self, result: SearchResult, snippet_chars: int) -> str:
        number = self.add(result)
        dated = f"({_single_line(result.published, _TITLE_CHARS)}) " if result.published else ""
        about = dated + _single_line(result.snippet, snippet_chars)
        title = self._sources[number].title
        return f"[{number}] {title}\n{result.url}" + (f"\n{about}" if about else "")


def _single_line(text: str, limit: int) -> str:
    """Reduce text to one line of limited length, which cannot be parsed as a source."""
    line = _CONTROL.sub("", " ".join(text.split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _parse_sources(history: Iterable[Step]) -> Iterable[tuple[int, WebSource]]:
    searches: set[str] = set()
    for step in history:
        if isinstance(step, ToolCallStep) and (step.namespace, step.name) == (HOSTED, SEARCH):
            searches.add(step.call_id)
        elif isinstance(step, ToolResultStep) and step.call_id in searches:
            for part in step.parts:
                for number, title, url in _SOURCE.findall(_text(part)):
                    yield int(number), WebSource(url, title)


def _text(part: object) -> str:
    return part.text if isinstance(part, TextPart) else ""
