"""What a search found, numbered: as the model reads it, and as its answer may cite it.

1. A number belongs to an address and is given once in a thread: what was found again keeps it.
2. The text for the model is one block of lines for each source; no title and no snippet can begin
   a line of its own, so what stands there can be read back, and nobody can forge a source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from antiphon.core.history.steps import Step, TextPart, ToolCallStep, ToolResultStep
from antiphon.core.web_search.memory import HOSTED, SEARCH

_TITLE_CHARS = 200
_NOTHING = "Nothing was found."
_ACTING = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What acts on a terminal, or turns the words around, and is no text."""
_LISTED = re.compile(r"^\[(\d+)\] (.*)\n(\S+)$", re.MULTILINE)


class SearchResult(Struct, frozen=True, kw_only=True):
    """One thing that was found."""

    title: str = ""
    url: str
    snippet: str = ""
    published: str | None = None
    """When, in the words of whoever found it."""


class Source(Struct, frozen=True):
    """An address that an answer may cite."""

    url: str
    title: str


class Sources:
    """The sources of a thread, by number and by address."""

    def __init__(self, history: Iterable[Step] = ()) -> None:
        """`history` may hold searches of earlier turns: their numbers stay theirs."""
        self._numbers: dict[str, int] = {}
        self._sources: dict[int, Source] = {}
        for number, source in _told(history):
            self._numbers.setdefault(source.url, number)
            self._sources.setdefault(number, source)

    def numbered(self, number: int) -> Source | None:
        return self._sources.get(number)

    def at(self, url: str) -> Source | None:
        number = self._numbers.get(url)
        return None if number is None else self._sources[number]

    def add(self, result: SearchResult) -> int:
        """The number of a result, which it may have had before."""
        known = self._numbers.get(result.url)
        if known is not None:
            return known
        number = max(self._sources, default=0) + 1
        self._numbers[result.url] = number
        self._sources[number] = Source(result.url, _line(result.title, _TITLE_CHARS) or result.url)
        return number

    def tell(self, results: Iterable[SearchResult], snippet_chars: int) -> str:
        """What the model reads of some results."""
        told = [self._block(result, snippet_chars) for result in results]
        return "\n\n".join(told) or _NOTHING

    def _block(self, result: SearchResult, snippet_chars: int) -> str:
        number = self.add(result)
        dated = f"({_line(result.published, _TITLE_CHARS)}) " if result.published else ""
        about = dated + _line(result.snippet, snippet_chars)
        title = self._sources[number].title
        return f"[{number}] {title}\n{result.url}" + (f"\n{about}" if about else "")


def _line(text: str, limit: int) -> str:
    """The text as one line that is not too long, and that cannot pass for a source."""
    line = _ACTING.sub("", " ".join(text.split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _told(history: Iterable[Step]) -> Iterable[tuple[int, Source]]:
    ours: set[str] = set()
    for step in history:
        if isinstance(step, ToolCallStep) and (step.namespace, step.name) == (HOSTED, SEARCH):
            ours.add(step.call_id)
        elif isinstance(step, ToolResultStep) and step.call_id in ours:
            for part in step.parts:
                for number, title, url in _LISTED.findall(_text(part)):
                    yield int(number), Source(url, title)


def _text(part: object) -> str:
    return part.text if isinstance(part, TextPart) else ""
