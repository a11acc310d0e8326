"""The text of a Gemini answer by position: what signatures sit on, and what citations point at.

Gemini counts bytes, clients count characters. A run is the text of one item: it ends where the
model turns to something else, and the next text begins another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from antiphon.core.stream.deltas import Annotation, Delta, Extra
from antiphon.dialects.usage import count
from antiphon.wire.items import Document

_SOURCES = ("web", "maps", "retrievedContext")


class TextRun:
    """The text that was said last, as far as it has been said."""

    def __init__(self) -> None:
        self.length = 0
        """In characters."""
        self._bytes = bytearray()
        self._over = False

    def add(self, text: str) -> None:
        if self._over:
            self._bytes.clear()
            self.length = 0
            self._over = False
        self._bytes += text.encode("utf-8", "surrogatepass")
        self.length += len(text)

    def end(self) -> None:
        """Something else follows."""
        self._over = True

    def place(self, segment: Mapping[str, Any]) -> tuple[int, int]:
        """Where a segment begins and ends, in characters.

        Offsets count from the beginning of some part, which need not be that of the run; a segment
        that quotes its text is found by the quotation.
        """
        begin, end = count(segment.get("startIndex")), count(segment.get("endIndex"))
        quoted = segment.get("text")
        if isinstance(quoted, str) and quoted:
            text = quoted.encode("utf-8", "surrogatepass")
            if self._bytes[begin:end] != text and (found := self._bytes.find(text)) >= 0:
                begin, end = found, found + len(text)
        return self._character(begin), self._character(end)

    def _character(self, offset: int) -> int:
        """The place in characters of a place in bytes; what is not written yet counts as ASCII."""
        written = len(self._bytes)
        if written == self.length:
            return offset
        if offset >= written:
            return self.length + offset - written
        return len(self._bytes[:offset].decode("utf-8", "ignore"))


class CitationReader:
    """Sources of a candidate → annotations of its text, each of them once."""

    def __init__(self, run: TextRun) -> None:
        self._run = run
        self._told: set[tuple[str, int, int]] = set()

    def feed(self, candidate: Mapping[str, Any]) -> Iterator[Delta]:
        cited = candidate.get("citationMetadata")
        if isinstance(cited, dict):
            for source in _mappings(cited.get("citationSources") or cited.get("citations")):
                yield from self._cite(source, source) or [Extra("citation", source)]
        grounding = candidate.get("groundingMetadata")
        if isinstance(grounding, dict) and grounding:
            yield from self._ground(grounding)
            yield Extra("groundingMetadata", grounding)

    def _ground(self, grounding: Mapping[str, Any]) -> Iterator[Delta]:
        chunks = grounding.get("groundingChunks")
        sources = [_source(chunk) for chunk in chunks] if isinstance(chunks, list) else []
        for support in _mappings(grounding.get("groundingSupports")):
            segment, indices = support.get("segment"), support.get("groundingChunkIndices")
            for index in indices if isinstance(indices, list) else ():
                if isinstance(index, int) and 0 <= index < len(sources):
                    yield from self._cite(sources[index], segment)

    def _cite(self, source: Mapping[str, Any], segment: Any) -> list[Delta]:
        """The annotation that points from a segment of the text to an address, if there is one."""
        url, title = source.get("uri"), source.get("title")
        if not isinstance(url, str) or not url:
            return []
        begin, end = self._run.place(segment if isinstance(segment, dict) else {})
        if (url, begin, end) in self._told:
            return []
        self._told.add((url, begin, end))
        annotation: Document = {
            "type": "url_citation",
            "url": url,
            "title": title if isinstance(title, str) else "",
            "start_index": begin,
            "end_index": end,
        }
        return [Annotation(annotation)]


def _source(chunk: Any) -> Mapping[str, Any]:
    """What a chunk of grounding was taken from; empty if nothing we know."""
    found = (chunk.get(kind) for kind in _SOURCES) if isinstance(chunk, dict) else ()
    return next((source for source in found if isinstance(source, dict)), {})


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
