"""Filter that turns citation marks in the text into `url_citation` annotations.

1. `[2]`, also `[2, 3]` and `【2】`, cites the source of that number; a Markdown link to the URL of
   a source cites that one. Other brackets are text, and so is whatever stands in code.
2. The text itself is neither changed nor delayed: a citation follows the text that completes it.
3. Positions count characters from the start of the message that the text is in.
"""

from __future__ import annotations

import re

from antiphon.core.deltas import (
    Annotation,
    BlockStart,
    Delta,
    ItemEnd,
    RawItem,
    RawItemStarted,
    Reasoning,
    Refusal,
    SearchStarted,
    Text,
    ToolCall,
)
from antiphon.core.filters.filter import DeltaFilter, RoundEnd
from antiphon.core.web_search.sources import NumberedSources, WebSource

_MAX_LABEL_CHARS = 300
_MAX_URL_CHARS = 2048
_NUMBERS = re.compile(r"\s*\d{1,4}(?:\s*,\s*\d{1,4})*\s*(?:†[^\]】]*)?")
_SYNTAX = re.compile(r"[\[\]【】()`\n]")
_OPENING = "[【"
_CLOSING = "]】"


class CitationFilter(DeltaFilter):
    """Stands behind `WebSearchFilter`, whose sources it is given."""

    def __init__(self, sources: NumberedSources) -> None:
        self._sources = sources
        self._scanner = _CitationScanner(sources)

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, Text):
            return [delta, *map(Annotation, self._scanner.feed(delta.text))]
        if _ends_message(delta):
            self._scanner = _CitationScanner(self._sources)
        return [delta]

    def close(self, *, final: bool) -> RoundEnd:
        self._scanner = _CitationScanner(self._sources)  # no message continues in the next round
        return RoundEnd()


def _ends_message(delta: Delta) -> bool:
    if isinstance(delta, Reasoning | Refusal):
        return bool(delta.text)
    return isinstance(
        delta, ToolCall | RawItem | RawItemStarted | ItemEnd | SearchStarted | BlockStart
    )


class _CitationScanner:
    """Scanner of one message, character by character: how the text is cut makes no difference.

    Outside of code it is in one of four states: in plain text, in a label (`[2`), right after a
    label that may belong to a link (`[Rain]`), or in the URL of a link (`[Rain](https://`).
    """

    def __init__(self, sources: NumberedSources) -> None:
        self._sources = sources
        self._position = 0
        self._found: list[dict[str, object]] = []
        self._label: list[str] | None = None  # the characters after an opening bracket
        self._url: list[str] | None = None  # the characters of the URL of a link
        self._start = 0  # of the label or the link
        self._link_start: int | None = None  # of a label that has just ended
        self._depth = 0  # of parentheses in the URL
        self._ticks = 0  # backticks in a row, up to here
        self._code_ticks = 0  # how many backticks opened the code; 0: not in code
        self._line_is_empty = False

    def feed(self, text: str) -> list[dict[str, object]]:
        """Return the citations that this text completes."""
        self._found = []
        if self._is_plain and not _SYNTAX.search(text):  # as almost all text
            self._position += len(text)
            self._line_is_empty = self._line_is_empty and not text
            return []
        for char in text:
            self._scan(char)
            self._position += 1
        return self._found

    @property
    def _is_plain(self) -> bool:
        open_parts = (self._label, self._url, self._link_start)
        return not self._ticks and all(part is None for part in open_parts)

    # Code: `a[1]` cites nothing

    def _scan(self, char: str) -> None:
        if char == "`":
            self._ticks += 1
        else:
            self._end_ticks()
            if not self._code_ticks:
                self._scan_text(char)
        self._note_line(char)

    def _end_ticks(self) -> None:
        """Open code, or close it: with as many backticks as opened it, "`` ` ``"."""
        if self._ticks and self._code_ticks in (0, self._ticks):
            self._code_ticks = 0 if self._code_ticks else self._ticks
            self._label = self._url = self._link_start = None
        self._ticks = 0

    def _note_line(self, char: str) -> None:
        """Inline code ends with its paragraph even if it is not closed: "a ` b\\n\\nc [1]"."""
        if char == "\n" and self._line_is_empty and self._code_ticks < 3:
            self._code_ticks = 0
        self._line_is_empty = char == "\n"

    # Labels and links

    def _scan_text(self, char: str) -> None:
        link_start, self._link_start = self._link_start, None
        if self._url is not None:
            self._scan_url(self._url, char)
        elif char == "(" and link_start is not None:  # "[Rain](": the URL begins
            self._url = []
            self._depth = 0
            self._start = link_start
        elif char in _OPENING:  # "[[1]]": the inner label counts
            self._label = []
            self._start = self._position
        elif self._label is not None:
            self._scan_label(self._label, char)

    def _scan_label(self, label: list[str], char: str) -> None:
        if char in _CLOSING:
            self._end_label("".join(label))
            return
        label.append(char)
        if char == "\n" or len(label) > _MAX_LABEL_CHARS:  # not a label
            self._label = None

    def _end_label(self, label: str) -> None:
        """Cite the sources that the label names; if it names none, it may belong to a link."""
        self._label = None
        sources = [self._sources.numbered(number) for number in _read_numbers(label)]
        known = [source for source in sources if source is not None]
        for source in known:
            self._cite(source)
        self._link_start = None if known else self._start

    def _scan_url(self, url: list[str], char: str) -> None:
        if char == ")" and not self._depth:
            self._end_url("".join(url))
            return
        self._depth += (char == "(") - (char == ")")  # "https://b.example/x_(y)"
        url.append(char)
        if char == "\n" or len(url) > _MAX_URL_CHARS:  # not a link
            self._url = None

    def _end_url(self, text: str) -> None:
        """Cite the source of this URL: `https://a.example "Title"` or `<https://a.example>`."""
        self._url = None
        source = self._sources.at(text.split(" ")[0].strip("<>"))
        if source is not None:
            self._cite(source)

    def _cite(self, source: WebSource) -> None:
        self._found.append(
            {
                "type": "url_citation",
                "start_index": self._start,
                "end_index": self._position + 1,
                "url": source.url,
                "title": source.title,
            }
        )


def _read_numbers(label: str) -> list[int]:
    """`2, 3` and `2†source` are numbers of sources; `2 apples` is not."""
    if _NUMBERS.fullmatch(label) is None:
        return []
    return [int(number) for number in re.findall(r"\d+", label.partition("†")[0])]
