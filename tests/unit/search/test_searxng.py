"""Requests to SearXNG, and its responses."""

from __future__ import annotations

from antiphon.core.web_search.rules import SearchRules
from antiphon.search.backend import SearchOptions
from antiphon.search.searxng import VENDOR


def test_a_key_is_sent_only_if_there_is_one() -> None:
    assert VENDOR.build_request("rain", "", SearchOptions()).headers == {}
    request = VENDOR.build_request("rain", "key", SearchOptions())
    assert request.headers == {"authorization": "Bearer key"}


def test_domains_are_part_of_the_query() -> None:
    options = SearchOptions(rules=SearchRules(blocked=("a.example",)))
    request = VENDOR.build_request("rain", "", options)
    assert request.query == {"q": "rain -site:a.example", "format": "json"}


def test_the_date_is_read_from_either_field() -> None:
    entries = [{"url": "a", "pubdate": "2026-01-01"}, {"url": "b", "publishedDate": "2026-02-02"}]
    results = VENDOR.parse_response({"results": entries})
    assert [result.published for result in results] == ["2026-01-01", "2026-02-02"]
