"""The desk where an answer's marks become citations.

1. `[2]`, also `[2, 3]` and `【2】`, cites the source of that number; a Markdown link to the address
   of a source cites that one. Other brackets are text, and so is whatever stands in code.
2. The text itself is neither changed nor delayed: a citation follows the text that completes it.
3. Places are counted in characters, from the start of the message that the text is in.
"""

from __future__ import annotations

import re

from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.stream.deltas import (
    Annotation,
    Delta,
    ItemEnd,
    RawItem,
    Reasoning,
    Refusal,
    SearchStarted,
    Text,
    ToolCall,
)
from antiphon.core.web_search.sources import NumberedSources, WebSource

_LABEL_CHARS = 300
_URL_CHARS = 2048
_NUMBERS = re.compile(r"\s*\d{1,4}(?:\s*,\s*\d{1,4})*\s*(?:†[^\]】]*)?")
_NOTABLE = re.compile(r"[\[\]【】()`\n]")
_OPENING, _CLOSING = "[【", "]】"


class CitationFilter(DeltaFilter):
    """Behind the desk that searches, whose sources it is given."""

    def __init__(self, sources: NumberedSources) -> None:
        super().__init__()
        self._sources = sources
        self._reader = _Reader(sources)

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, Text):
            return [delta, *map(Annotation, self._reader.feed(delta.text))]
        if _ends_message(delta):
            self._reader = _Reader(self._sources)
        return [delta]

    def close(self, *, final: bool) -> list[Delta]:
        """No item goes on over two rounds."""
        self._reader = _Reader(self._sources)
        return []


def _ends_message(delta: Delta) -> bool:
    if isinstance(delta, Reasoning | Refusal):
        return bool(delta.text)
    return isinstance(delta, ToolCall | RawItem | ItemEnd | SearchStarted)


class _Reader:
    """One message, read character by character; what is said does not depend on how it is cut."""

    def __init__(self, sources: NumberedSources) -> None:
        self._sources = sources
        self._place = 0
        self._found: list[dict[str, object]] = []
        self._label: list[str] | None = None  # what stands in the brackets that are open
        self._label_at = 0
        self._link_at: int | None = None  # where a label has just closed that may be a link's
        self._url: list[str] | None = None
        self._depth = 0  # of brackets in the address
        self._ticks = 0  # in a row, up to here
        self._code = 0  # how many ticks have opened the code; none: it is no code
        self._line_is_empty = False

    def feed(self, text: str) -> list[dict[str, object]]:
        """The citations that this text completes."""
        self._found = []
        if self._is_idle and not _NOTABLE.search(text):  # as almost all text
            self._place += len(text)
            self._line_is_empty = self._line_is_empty and not text
            return []
        for char in text:
            self._read(char)
            self._place += 1
        return self._found

    @property
    def _is_idle(self) -> bool:
        waits = (self._label, self._url, self._link_at)
        return not self._ticks and all(each is None for each in waits)

    def _read(self, char: str) -> None:
        if char == "`":
            self._ticks += 1
        else:
            self._leave_ticks()
            if not self._code:
                self._read_plain(char)
        self._see_line(char)

    def _leave_ticks(self) -> None:
        """As many ticks as opened the code close it."""
        if self._ticks and self._code in (0, self._ticks):
            self._code = 0 if self._code else self._ticks
            self._label = self._url = self._link_at = None
        self._ticks = 0

    def _see_line(self, char: str) -> None:
        """Code within a line ends with the paragraph, closed or not; a tick may be just a tick."""
        if char == "\n" and self._line_is_empty and self._code < 3:
            self._code = 0
        self._line_is_empty = char == "\n"

    def _read_plain(self, char: str) -> None:
        link_at, self._link_at = self._link_at, None
        if self._url is not None:
            self._read_url(self._url, char)
        elif char == "(" and link_at is not None:
            self._url, self._depth, self._label_at = [], 0, link_at
        elif char in _OPENING:
            self._label, self._label_at = [], self._place
        elif char in _CLOSING and self._label is not None:
            self._close_label("".join(self._label))
        elif self._label is not None:
            self._label.append(char)
            if char == "\n" or len(self._label) > _LABEL_CHARS:
                self._label = None

    def _close_label(self, label: str) -> None:
        self._label = None
        cited = [self._sources.numbered(number) for number in _numbers(label)]
        known = [source for source in cited if source is not None]
        for source in known:
            self._cite(source)
        self._link_at = None if known else self._label_at

    def _read_url(self, url: list[str], char: str) -> None:
        if char == ")" and not self._depth:
            self._url = None
            address = "".join(url).split(" ")[0].strip("<>")
            source = self._sources.at(address)
            if source is not None:
                self._cite(source)
            return
        self._depth += (char == "(") - (char == ")")
        url.append(char)
        if char == "\n" or len(url) > _URL_CHARS:
            self._url = None

    def _cite(self, source: WebSource) -> None:
        self._found.append(
            {
                "type": "url_citation",
                "start_index": self._label_at,
                "end_index": self._place + 1,
                "url": source.url,
                "title": source.title,
            }
        )


def _numbers(label: str) -> list[int]:
    if _NUMBERS.fullmatch(label) is None:
        return []
    return [int(number) for number in re.findall(r"\d+", label.partition("†")[0])]
