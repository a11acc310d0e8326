"""Requests to Tavily, and its responses."""

from __future__ import annotations

from antiphon.core.web_search.rules import SearchRules
from antiphon.search.backend import SearchOptions
from antiphon.search.tavily import VENDOR


def test_all_domains_are_sent_however_many_there_are() -> None:
    many = tuple(f"domain-{number}.example" for number in range(100))
    options = SearchOptions(rules=SearchRules(allowed=many))
    body = VENDOR.build_request("rain", "key", options).body
    assert body is not None
    assert body["query"] == "rain"
    assert body["include_domains"] == list(many)
    assert "exclude_domains" not in body


def test_the_raw_content_replaces_a_missing_snippet() -> None:
    entries = [
        {"url": "a", "content": "one", "raw_content": "long"},
        {"url": "b", "raw_content": "x"},
    ]
    results = VENDOR.parse_response({"results": entries})
    assert [result.snippet for result in results] == ["one", "x"]
