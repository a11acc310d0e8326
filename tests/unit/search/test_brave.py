"""Requests to Brave Search, and its responses."""

from __future__ import annotations

from antiphon.core.web_search.rules import SearchRules
from antiphon.search.backend import SearchOptions
from antiphon.search.brave import VENDOR


def test_a_location_is_sent_in_headers_if_it_fits_one() -> None:
    location = {"city": "Berlin", "region": "Thüringen", "country": "DE\r\n", "timezone": "x" * 101}
    options = SearchOptions(rules=SearchRules(location=location))
    request = VENDOR.build_request("rain", "key", options)
    assert request.headers == {"x-subscription-token": "key", "x-loc-city": "Berlin"}


def test_markup_and_entities_are_removed_from_texts() -> None:
    entry = {
        "title": "<b>Rain</b> &amp; shine",
        "url": "https://a.example/?a=1&amp;b",
        "description": "5 < 6 <strong>rain</strong>",
    }
    [result] = VENDOR.parse_response({"web": {"results": [entry]}})
    assert (result.title, result.snippet) == ("Rain & shine", "5 < 6 rain")
    assert result.url == "https://a.example/?a=1&amp;b"


def test_the_page_age_is_preferred_to_the_relative_age() -> None:
    entries = [{"url": "u", "page_age": "2026-03-01", "age": "1 day"}, {"url": "u", "age": "1 day"}]
    results = VENDOR.parse_response({"web": {"results": entries}})
    assert [result.published for result in results] == ["2026-03-01", "1 day"]
