"""Requests to Zhipu's web search, and its responses."""

from __future__ import annotations

from antiphon.core.web_search.rules import SearchRules
from antiphon.search.backend import SearchOptions
from antiphon.search.zhipu import VENDOR


def test_a_long_query_is_truncated_to_the_documented_maximum() -> None:
    body = VENDOR.build_request("x" * 71, "key", SearchOptions()).body
    assert body is not None
    assert body["search_query"] == "x" * 70


def test_a_domain_filter_is_sent_only_for_a_single_domain() -> None:
    for allowed, expected in ((("a.example",), "a.example"), (("a.example", "b.example"), None)):
        options = SearchOptions(rules=SearchRules(allowed=allowed))
        body = VENDOR.build_request("rain", "key", options).body
        assert body is not None
        assert body.get("search_domain_filter") == expected


def test_a_result_is_read_from_its_link() -> None:
    entry = {"link": "https://a.example/", "url": "https://other.example/", "content": "Rain."}
    [result] = VENDOR.parse_response({"search_result": [entry]})
    assert (result.url, result.snippet, result.published) == ("https://a.example/", "Rain.", None)
