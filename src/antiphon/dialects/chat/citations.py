"""Citations of a Chat Completions answer: annotations of the message, and search results beside it.

Providers that search by themselves send what they found with the answer, often again with every
chunk: each source is cited once.
"""

from __future__ import annotations

from typing import Any

from antiphon.core.stream.deltas import Annotation, Delta, Extra
from antiphon.dialects.usage import count


def citation(annotation: Any) -> Delta:
    """An annotation in the documented form; another one is only kept for the trace."""
    match annotation:
        case {"type": "url_citation", "url_citation": {"url": str(url)} as cited}:
            return _url_citation(
                url,
                cited.get("title"),
                count(cited.get("start_index")),
                count(cited.get("end_index")),
            )
    return Extra("annotation", annotation)


class Sources:
    """What was found so far."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def feed(self, results: Any) -> list[Delta]:
        """Annotations for the sources that are new in this list."""
        deltas: list[Delta] = []
        for result in results if isinstance(results, list) else ():
            url, title = _source(result)
            if url is not None and url not in self._known:
                self._known.add(url)
                deltas.append(_url_citation(url, title, 0, 0))
        return deltas


def _source(result: Any) -> tuple[str | None, Any]:
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
