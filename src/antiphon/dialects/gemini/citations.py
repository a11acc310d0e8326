"""Citations of a Gemini response, and the positions in the text that they refer to.

Gemini counts bytes, clients count characters. A run is the text of one output item: it ends where
another kind of part follows, and the next text starts a new run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from antiphon.core.deltas import Delta, Extra
from antiphon.dialects.content_blocks import url_citation
from antiphon.dialects.usage import count

_SOURCES = ("web", "maps", "retrievedContext")


class TextRun:
    """The latest run of text, as far as it was received."""

    def __init__(self) -> None:
        self.length = 0
        """In characters."""
        self._bytes = bytearray()
        self._ended = False

    def add(self, text: str) -> None:
        if self._ended:
            self._bytes.clear()
            self.length = 0
            self._ended = False
        self._bytes += text.encode("utf-8", "surrogatepass")
        self.length += len(text)

    def end(self) -> None:
        """Another kind of part follows."""
        self._ended = True

    def locate(self, segment: Mapping[str, Any]) -> tuple[int, int]:
        """Find the start and the end of a segment, in characters.

        Offsets count from the start of some part, which need not be the start of the run; a segment
        with its text is found by that text.
        """
        start = count(segment.get("startIndex"))
        end = count(segment.get("endIndex"))
        quoted = segment.get("text")
        if isinstance(quoted, str) and quoted:
            text = quoted.encode("utf-8", "surrogatepass")
            if self._bytes[start:end] != text and (found := self._bytes.find(text)) >= 0:
                start = found
                end = found + len(text)
        return self._character_offset(start), self._character_offset(end)

    def _character_offset(self, offset: int) -> int:
        """Convert an offset in bytes; bytes that were not received yet count as ASCII."""
        received = len(self._bytes)
        if received == self.length:
            return offset
        if offset >= received:
            return self.length + offset - received
        return len(self._bytes[:offset].decode("utf-8", "ignore"))


class CitationReader:
    """Sources of a candidate → annotations of its text, each of them once."""

    def __init__(self, run: TextRun) -> None:
        self._run = run
        self._cited: set[tuple[str, int, int]] = set()

    def feed(self, candidate: Mapping[str, Any]) -> Iterator[Delta]:
        citations = candidate.get("citationMetadata")
        if isinstance(citations, dict):
            for source in _mappings(citations.get("citationSources") or citations.get("citations")):
                yield from self._cite(source, source) or [Extra("citation", source)]
        grounding = candidate.get("groundingMetadata")
        if isinstance(grounding, dict) and grounding:
            yield from self._cite_grounding(grounding)
            yield Extra("groundingMetadata", grounding)

    def _cite_grounding(self, grounding: Mapping[str, Any]) -> Iterator[Delta]:
        chunks = grounding.get("groundingChunks")
        sources = [_source(chunk) for chunk in chunks] if isinstance(chunks, list) else []
        for support in _mappings(grounding.get("groundingSupports")):
            segment = support.get("segment")
            indices = support.get("groundingChunkIndices")
            for index in indices if isinstance(indices, list) else ():
                if isinstance(index, int) and 0 <= index < len(sources):
                    yield from self._cite(sources[index], segment)

    def _cite(self, source: Mapping[str, Any], segment: Any) -> list[Delta]:
        """Annotate a segment of the text with the URL of its source; nothing without a URL."""
        url = source.get("uri")
        if not isinstance(url, str) or not url:
            return []
        start, end = self._run.locate(segment if isinstance(segment, dict) else {})
        if (url, start, end) in self._cited:
            return []
        self._cited.add((url, start, end))
        return [url_citation(url, source.get("title"), start, end)]


def _source(chunk: Any) -> Mapping[str, Any]:
    """The source of a grounding chunk; empty if it is of an unknown kind."""
    found = (chunk.get(kind) for kind in _SOURCES) if isinstance(chunk, dict) else ()
    return next((source for source in found if isinstance(source, dict)), {})


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
