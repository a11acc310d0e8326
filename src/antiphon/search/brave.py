"""Brave Search: it takes the user's place in headers, and marks what it found with HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from antiphon.core.web_search.sources import SearchResult
from antiphon.search.backend import Ask, Options, Vendor, listed, text, with_operators

_PLACE: Mapping[str, str] = {
    "city": "x-loc-city",
    "region": "x-loc-state-name",
    "country": "x-loc-country",
    "timezone": "x-loc-timezone",
}
_PLACE_CHARS = 100


def _ask(query: str, key: str, options: Options) -> Ask:
    words = {"q": with_operators(query, options.rules), "count": str(options.count)}
    if options.rules.size == "high":
        words["extra_snippets"] = "true"
    place = options.rules.location.items()
    where = {_PLACE[name]: value for name, value in place if _fits_header(value)}
    headers = {"x-subscription-token": key, **where}
    return Ask(path="/res/v1/web/search", query=words, headers=headers)


def _fits_header(value: str) -> bool:
    return len(value) <= _PLACE_CHARS and value.isascii() and value.isprintable()


def _read(document: Any) -> Sequence[SearchResult]:
    return [
        SearchResult(
            title=_plain(text(entry, "title")),
            url=text(entry, "url"),
            snippet=_plain(" … ".join(_snippets(entry))),
            published=text(entry, "page_age", "age") or None,
        )
        for entry in listed(document, "web", "results")
    ]


def _snippets(entry: Mapping[str, Any]) -> list[str]:
    extra = entry.get("extra_snippets")
    more = [each for each in extra if isinstance(each, str)] if isinstance(extra, list) else []
    return [each for each in (text(entry, "description"), *more) if each]


def _plain(marked: str) -> str:
    return html.unescape(re.sub(r"</?\w[^<>]*>", "", marked))


VENDOR = Vendor(
    ask=_ask,
    read=_read,
    url="https://api.search.brave.com",
    obeys=frozenset({"user_location"}),
)
