"""Brave Search: takes the user's location in headers, and returns HTML markup in its texts."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from antiphon.core.web_search.sources import SearchResult
from antiphon.search.backend import (
    SearchOptions,
    SearchRequest,
    SearchVendor,
    add_site_operators,
    read_objects,
    read_text,
)

_LOCATION_HEADERS: Mapping[str, str] = {
    "city": "x-loc-city",
    "region": "x-loc-state-name",
    "country": "x-loc-country",
    "timezone": "x-loc-timezone",
}
_MAX_HEADER_CHARS = 100


def _build_request(query: str, key: str, options: SearchOptions) -> SearchRequest:
    parameters = {"q": add_site_operators(query, options.rules), "count": str(options.count)}
    if options.rules.size == "high":
        parameters["extra_snippets"] = "true"
    location = {
        _LOCATION_HEADERS[name]: value
        for name, value in options.rules.location.items()
        if _fits_header(value)
    }
    headers = {"x-subscription-token": key, **location}
    return SearchRequest(path="/res/v1/web/search", query=parameters, headers=headers)


def _fits_header(value: str) -> bool:
    return len(value) <= _MAX_HEADER_CHARS and value.isascii() and value.isprintable()


def _parse_response(document: Any) -> Sequence[SearchResult]:
    return [
        SearchResult(
            title=_strip_markup(read_text(entry, "title")),
            url=read_text(entry, "url"),
            snippet=_strip_markup(" … ".join(_read_snippets(entry))),
            published=read_text(entry, "page_age", "age") or None,
        )
        for entry in read_objects(document, "web", "results")
    ]


def _read_snippets(entry: Mapping[str, Any]) -> list[str]:
    extra = entry.get("extra_snippets")
    more = [each for each in extra if isinstance(each, str)] if isinstance(extra, list) else []
    return [each for each in (read_text(entry, "description"), *more) if each]


def _strip_markup(marked: str) -> str:
    return html.unescape(re.sub(r"</?\w[^<>]*>", "", marked))


VENDOR = SearchVendor(
    build_request=_build_request,
    parse_response=_parse_response,
    url="https://api.search.brave.com",
    supported_limits=frozenset({"user_location"}),
)
