"""Search rules: domains, sizes, locations, and restrictions that cannot be enforced."""

from __future__ import annotations

from typing import Any

from antiphon.core.web_search.rules import (
    SearchRules,
    describe_search,
    find_unenforceable,
    read_rules,
)
from tests.support.tables import table


def rules(**filters: Any) -> SearchRules:
    return read_rules({"type": "web_search", "filters": filters})


@table(
    ("url", "admitted"),
    [
        ("https://example.org/", True),
        ("http://EXAMPLE.org", True),
        ("https://docs.example.org:8443/a?b#c", True),
        ("https://example.org./a", True),
        ("https://user@example.org/", True),
        ("https://notexample.org/", False),
        ("https://example.org.evil.com/", False),
        ("https://example.org@evil.com/", False),
        ("https://example.org@x@evil.com/", False),
        ("https://evil.com\\@example.org/", False),
        ("https://evil.com/example.org", False),
        ("https://evil.com?example.org", False),
        ("https://evil.com#.example.org", False),
        ("javascript:alert(1)//example.org", False),
        ("ftp://example.org/", False),
        ("https://example.org/a b", False),
        ("https://example.org/?q=\x1b[2J", False),
        ("https://example.org/#\u202egpj.exe", False),
        ("https://example.org/?q=" + "x" * 2000, True),
        ("https://example.org/?q=" + "x" * 2048, False),
        ("", False),
    ],
)
def test_only_allowed_domains_are_admitted(url: str, admitted: bool) -> None:
    assert rules(allowed_domains=["example.org"]).admits(url) is admitted


def test_without_rules_the_whole_web_is_admitted_and_nothing_else() -> None:
    assert SearchRules().admits("https://anything.example/x")
    assert not SearchRules().admits("file:///etc/passwd")


@table("name", ["blocked_domains", "excluded_domains"])
def test_blocked_domains_are_not_admitted(name: str) -> None:
    blocking = rules(**{name: ["bad.example"]})
    assert not blocking.admits("https://www.bad.example/")
    assert blocking.admits("https://good.example/")


def test_a_blocked_part_of_an_allowed_domain_stays_blocked() -> None:
    both = rules(allowed_domains=["example.org"], blocked_domains=["ads.example.org"])
    assert both.admits("https://www.example.org/")
    assert not both.admits("https://ads.example.org/")


@table("domain", ["https://Example.org/docs/", "example.org/docs"])
def test_a_path_narrows_a_domain(domain: str) -> None:
    narrow = rules(allowed_domains=[domain])
    assert narrow.allowed == ("example.org/docs",)
    assert narrow.admits("https://example.org/docs/a")
    assert not narrow.admits("https://example.org/blog")
    assert not narrow.admits("https://example.org")


@table(("size", "count", "chars"), [("low", 2, 300), ("medium", 5, 800), ("high", 10, 2000)])
def test_the_context_size_decides_how_much_the_model_is_shown(
    size: str, count: int, chars: int
) -> None:
    sized = read_rules({"search_context_size": size})
    assert (sized.result_count(5), sized.snippet_chars) == (count, chars)


def test_there_is_always_a_result_and_never_too_many() -> None:
    assert read_rules({"search_context_size": "low"}).result_count(1) == 1
    assert read_rules({"search_context_size": "high"}).result_count(20) == 20


def test_a_location_has_only_its_string_fields() -> None:
    place = {
        "type": "approximate",
        "city": "Berlin",
        "country": "DE",
        "region": None,
        "timezone": 7,
    }
    assert read_rules({"user_location": place}).location == {"city": "Berlin", "country": "DE"}
    assert read_rules({"user_location": "Berlin"}).location == {}


@table(
    ("tool", "field"),
    [
        ({"external_web_access": False}, "external_web_access"),
        ({"indexed_web_access": False}, "indexed_web_access"),
        ({"filters": ["example.org"]}, "filters"),
        ({"filters": {"languages": ["de"]}}, "filters.languages"),
        ({"filters": {"allowed_domains": "example.org"}}, "filters.allowed_domains"),
        ({"filters": {"allowed_domains": ["*.example.org"]}}, "filters.allowed_domains"),
        ({"filters": {"allowed_domains": ["good.example", ""]}}, "filters.allowed_domains"),
        ({"filters": {"blocked_domains": ["not a domain"]}}, "filters.blocked_domains"),
        ({"filters": {"blocked_domains": ["a.example"] * 1001}}, "filters.blocked_domains"),
    ],
)
def test_a_restriction_that_cannot_be_enforced_is_named(tool: dict[str, Any], field: str) -> None:
    assert find_unenforceable(tool) == field


@table(
    "tool",
    [
        {},
        {"external_web_access": True, "filters": None},
        {"filters": {"allowed_domains": None, "blocked_domains": []}},
        {"filters": {"allowed_domains": ["example.org"], "excluded_domains": ["x.example.org"]}},
    ],
)
def test_a_restriction_that_can_be_enforced_is_not_reported(tool: dict[str, Any]) -> None:
    assert find_unenforceable(tool) is None


def test_the_description_explains_citations_and_names_the_domains() -> None:
    assert "such as [2]" in describe_search(SearchRules())
    assert "example.org, b.example" in describe_search(
        SearchRules(allowed=("example.org", "b.example"))
    )
