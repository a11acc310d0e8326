"""The HTTP search backend: errors without secrets, and what vendors share."""

from __future__ import annotations

import aiohttp
import pytest

from antiphon.config import SearchConfig
from antiphon.core.web_search.rules import SearchRules
from antiphon.errors import SearchError
from antiphon.search.backend import (
    HTTPBackend,
    SearchOptions,
    add_site_operators,
    read_objects,
    read_text,
)
from antiphon.search.tavily import VENDOR

KEY = "secret-key"


async def search_error(session: aiohttp.ClientSession, url: str) -> SearchError:
    config = SearchConfig(backend="tavily", api_key=KEY, url=url, timeout_s=5)
    with pytest.raises(SearchError) as caught:
        await HTTPBackend(VENDOR, config, session).search("rain", options=SearchOptions())
    return caught.value


async def test_an_unreachable_backend_is_named_without_its_url_and_key() -> None:
    async with aiohttp.ClientSession() as session:
        error = await search_error(session, f"http://127.0.0.1:1/{KEY}")
    assert error.message == ("Search backend 'tavily' could not be reached (ClientConnectorError).")
    assert error.__cause__ is None


def test_objects_are_read_at_a_path_and_anything_else_is_skipped() -> None:
    document = {"web": {"results": [{"a": 1}, None, "x", {"b": 2}]}}
    assert read_objects(document, "web", "results") == [{"a": 1}, {"b": 2}]
    assert read_objects(document, "web") == []
    assert read_objects(document, "web", "results", "more") == []
    assert read_objects(None, "web") == []


def test_the_first_field_with_text_is_read() -> None:
    entry = {"empty": " ", "number": 7, "first": "one", "second": "two"}
    assert read_text(entry, "missing", "empty", "number", "first", "second") == "one"
    assert read_text(entry, "missing", "empty", "number") == ""


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (SearchRules(), "rain"),
        (SearchRules(allowed=("a.example",)), "rain site:a.example"),
        (
            SearchRules(allowed=("a.example", "b.example"), blocked=("c.example", "d.example")),
            "rain (site:a.example OR site:b.example) -site:c.example -site:d.example",
        ),
        (SearchRules(blocked=tuple(f"domain-{number}.example" for number in range(9))), "rain"),
    ],
)
def test_site_operators_are_added_unless_the_query_becomes_too_long(
    rules: SearchRules, expected: str
) -> None:
    assert add_site_operators("rain", rules) == expected
