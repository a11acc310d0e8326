"""SearXNG, on a server of the operator's own; its settings have to allow the format `json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.core.web_search.sources import SearchResult
from antiphon.search.backend import Ask, Options, Vendor, listed, result, text, with_operators


def _ask(query: str, key: str, options: Options) -> Ask:
    words = {"q": with_operators(query, options.rules), "format": "json"}
    headers = {"authorization": f"Bearer {key}"} if key else {}  # for a proxy in front of it
    return Ask(path="/search", query=words, headers=headers)


def _read(document: Any) -> Sequence[SearchResult]:
    return [
        result(
            entry,
            url=text(entry, "url"),
            snippet=text(entry, "content"),
            published=text(entry, "publishedDate", "pubdate"),
        )
        for entry in listed(document, "results")
    ]


VENDOR = Vendor(ask=_ask, read=_read, needs_key=False)
