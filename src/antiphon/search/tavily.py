"""Tavily: its API takes lists of domains, up to a few hundred."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.core.web_search.sources import SearchResult
from antiphon.search.backend import (
    SearchOptions,
    SearchRequest,
    SearchVendor,
    build_result,
    read_objects,
    read_text,
)


def _build_request(query: str, key: str, options: SearchOptions) -> SearchRequest:
    rules = options.rules
    body = {
        "query": query,
        "max_results": options.count,
        "search_depth": "advanced" if rules.size == "high" else "basic",
        "include_domains": list(rules.allowed),
        "exclude_domains": list(rules.blocked),
    }
    headers = {"authorization": f"Bearer {key}"}
    return SearchRequest(
        method="POST",
        path="/search",
        headers=headers,
        body={name: value for name, value in body.items() if value},
    )


def _parse_response(document: Any) -> Sequence[SearchResult]:
    return [
        build_result(
            entry,
            url=read_text(entry, "url"),
            snippet=read_text(entry, "content", "raw_content"),
            published=read_text(entry, "published_date"),
        )
        for entry in read_objects(document, "results")
    ]


VENDOR = SearchVendor(
    build_request=_build_request, parse_response=_parse_response, url="https://api.tavily.com"
)
