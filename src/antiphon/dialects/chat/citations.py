"""Citations of a Chat Completions answer: message annotations, and search results of the chunk.

Providers that search themselves repeat their results with many chunks: each source is cited once.
"""

from __future__ import annotations

from typing import Any

from antiphon.core.stream.deltas import Annotation, Delta, Extra
from antiphon.dialects.usage import count


def read_annotation(annotation: Any) -> Delta:
    """A `url_citation` in the documented form; anything else becomes an `Extra`."""
    match annotation:
        case {"type": "url_citation", "url_citation": {"url": str(url)} as cited}:
            return _url_citation(
                url,
                cited.get("title"),
                count(cited.get("start_index")),
                count(cited.get("end_index")),
            )
    return Extra("annotation", annotation)


class SearchResults:
    """Search results of one answer, each cited once."""

    def __init__(self) -> None:
        self._cited: set[str] = set()

    def feed(self, results: Any) -> list[Delta]:
        """Annotations for the results that are new in this list."""
        deltas: list[Delta] = []
        for result in results if isinstance(results, list) else ():
            url, title = _url_and_title(result)
            if url is not None and url not in self._cited:
                self._cited.add(url)
                deltas.append(_url_citation(url, title, 0, 0))
        return deltas


def _url_and_title(result: Any) -> tuple[str | None, Any]:
    match result:
        case str():
            return result, None
        case {"url": str(url)} | {"link": str(url)}:
            return url, result.get("title")
    return None, None


def _url_citation(url: str, title: Any, start_index: int, end_index: int) -> Annotation:
    return Annotation(
        {
            "type": "url_citation",
            "url": url,
            "title": title if isinstance(title, str) else "",
            "start_index": start_index,
            "end_index": end_index,
        }
    )
