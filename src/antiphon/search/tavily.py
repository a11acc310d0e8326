"""Tavily: domains are part of its own request, up to a few hundred of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.core.web_search.sources import SearchResult
from antiphon.search.backend import Ask, Options, Vendor, listed, result, text


def _ask(query: str, key: str, options: Options) -> Ask:
    rules = options.rules
    body = {
        "query": query,
        "max_results": options.count,
        "search_depth": "advanced" if rules.size == "high" else "basic",
        "include_domains": list(rules.allowed),
        "exclude_domains": list(rules.blocked),
    }
    headers = {"authorization": f"Bearer {key}"}
    return Ask(
        method="POST",
        path="/search",
        headers=headers,
        body={name: value for name, value in body.items() if value},
    )


def _read(document: Any) -> Sequence[SearchResult]:
    return [
        result(
            entry,
            url=text(entry, "url"),
            snippet=text(entry, "content", "raw_content"),
            published=text(entry, "published_date"),
        )
        for entry in listed(document, "results")
    ]


VENDOR = Vendor(ask=_ask, read=_read, url="https://api.tavily.com")
