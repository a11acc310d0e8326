"""SearXNG, self-hosted; its settings must enable the format `json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.core.web_search.sources import SearchResult
from antiphon.search.backend import (
    SearchOptions,
    SearchRequest,
    SearchVendor,
    add_site_operators,
    build_result,
    read_objects,
    read_text,
)


def _build_request(query: str, key: str, options: SearchOptions) -> SearchRequest:
    parameters = {"q": add_site_operators(query, options.rules), "format": "json"}
    headers = (
        {"authorization": f"Bearer {key}"} if key else {}
    )  # for a reverse proxy in front of it
    return SearchRequest(path="/search", query=parameters, headers=headers)


def _parse_response(document: Any) -> Sequence[SearchResult]:
    return [
        build_result(
            entry,
            url=read_text(entry, "url"),
            snippet=read_text(entry, "content"),
            published=read_text(entry, "publishedDate", "pubdate"),
        )
        for entry in read_objects(document, "results")
    ]


VENDOR = SearchVendor(build_request=_build_request, parse_response=_parse_response, needs_key=False)
