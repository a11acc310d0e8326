"""Rules of a web search: domains, number and size of results, number of searches.

The gateway enforces a domain restriction itself, whatever a search engine makes of it: results
outside of it are dropped. A restriction that cannot be parsed is never widened; the tool is then
ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

JSONObject: TypeAlias = Mapping[str, Any]
Size: TypeAlias = Literal["low", "medium", "high"]

_SNIPPET_CHARS: Mapping[str, int] = {"low": 300, "medium": 800, "high": 2000}
_FACTOR: Mapping[str, float] = {"low": 0.5, "medium": 1, "high": 2}
_MAX_RESULTS = 20
_MAX_DOMAINS = 1000
_MAX_URL_CHARS = 2048
_URL = re.compile(r"https?://(?:[^/?#\s\\]*@)?([^/?#:@\s\\]+)(?::\d+)?(/[^?#\s\\]*)?(?:[?#]\S*)?")
_DOMAIN = re.compile(r"(?:https?://)?([\w-]+(?:\.[\w-]+)*)\.?(/[^?#\s]*)?")
_ALLOWED = "allowed_domains"
_BLOCKED = ("blocked_domains", "excluded_domains")
_LOCATION = ("city", "region", "country", "timezone")


class SearchRules(Struct, frozen=True, kw_only=True):
    """The rules of one request's searches.

    A domain includes its subdomains, and may have a path: `example.com/docs`.
    """

    allowed: tuple[str, ...] = ()
    """Empty: the whole web."""
    blocked: tuple[str, ...] = ()
    size: Size = "medium"
    location: Mapping[str, str] = {}
    """The user's city, region, country, timezone."""
    max_calls: int | None = None
    """The maximum number of searches in one response."""
    include_sources: bool = False
    """The client requested all sources that were found, not only those that are cited."""
    include_titles: bool = False
    """The sources have their titles: the API itself has addresses alone."""

    @property
    def snippet_chars(self) -> int:
        return _SNIPPET_CHARS[self.size]

    def result_count(self, usual: int) -> int:
        """The number of results to show; `usual` is that of the size `medium`."""
        return min(_MAX_RESULTS, max(1, round(usual * _FACTOR[self.size])))

    def admits(self, url: str) -> bool:
        """Whether a result with this URL may be shown."""
        match = _URL.fullmatch(url) if len(url) <= _MAX_URL_CHARS else None
        if match is None or not url.isprintable():  # no control or bidirectional characters
            return False
        host = match[1].lower().rstrip(".")
        path = match[2] or "/"
        if any(_includes(domain, host, path) for domain in self.blocked):
            return False
        return not self.allowed or any(_includes(domain, host, path) for domain in self.allowed)


def _includes(domain: str, host: str, path: str) -> bool:
    name, slash, below = domain.partition("/")
    return (host == name or host.endswith(f".{name}")) and path.startswith(slash + below)


def read_rules(tool: JSONObject) -> SearchRules:
    """Read the rules that a search tool sets; `find_unenforceable` checks whether all can be."""
    filters = _mapping(tool.get("filters"))
    location = _mapping(tool.get("user_location"))
    return SearchRules(
        allowed=tuple(_parse_domains(filters.get(_ALLOWED))),
        blocked=tuple(domain for name in _BLOCKED for domain in _parse_domains(filters.get(name))),
        size=_read_size(tool),
        location={
            key: value
            for key in _LOCATION
            if (value := location.get(key)) and isinstance(value, str)
        },
    )


def _mapping(value: object) -> JSONObject:
    return value if isinstance(value, Mapping) else {}


def _read_size(tool: JSONObject) -> Size:
    size = tool.get("search_context_size")
    return size if size == "low" or size == "high" else "medium"


def _parse_domains(value: Any) -> Iterator[str]:
    for each in value or ():
        if (domain := _DOMAIN.fullmatch(str(each).strip())) is not None:
            yield domain[1].lower() + (domain[2] or "").rstrip("/")


# The declaration of the tool

SEARCH_PARAMETERS: JSONObject = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to search for, in a few words."},
        "queries": {
            "type": "array",
            "items": {"type": "string"},
            "description": "More searches to make at the same time.",
        },
    },
    "required": ["query"],
}

_DESCRIPTION = (
    "Searches the web and returns numbered sources. Use it for whatever you do not know for certain"
    " or may have changed. In your answer, put the number of a source in square brackets right"
    " behind what it supports, such as [2]."
)


def describe_search(rules: SearchRules) -> str:
    """The description of the search tool, for the model."""
    if not rules.allowed:
        return _DESCRIPTION
    return f"{_DESCRIPTION} Only these domains are searched: {', '.join(rules.allowed)}."


# Fields of the tool that are not supported

_SWITCHES = ("external_web_access", "indexed_web_access")


def find_unsupported(tool: JSONObject, supported: frozenset[str]) -> str | None:
    """Find a restriction that a provider's own search would not apply, such as `filters.x`.

    `supported` are the fields that it does apply.
    """
    for restriction in _restrictions(tool):
        if not {restriction, restriction.partition(".")[0]} & supported:
            return restriction
    return None


def _restrictions(tool: JSONObject) -> Iterator[str]:
    yield from (switch for switch in _SWITCHES if tool.get(switch) is False)
    filters = tool.get("filters")
    if isinstance(filters, Mapping):
        yield from (f"filters.{name}" for name, value in filters.items() if value)
    elif filters:
        yield "filters"


def unsupported_hints(tool: JSONObject, supported: frozenset[str]) -> list[str]:
    """The fields that the search would ignore without showing more than it may."""
    return [
        name
        for name, defaults in _HINTS.items()
        if (value := tool.get(name)) not in defaults and not {name, f"{name}.{value}"} & supported
    ]


_HINTS: Mapping[str, tuple[Any, ...]] = {  # with their default values
    "search_content_types": (None, [], ["text"]),
    "search_context_size": (None, "medium"),
    "user_location": (None, {}),
}


def find_unenforceable(tool: JSONObject) -> str | None:
    """Find a restriction that the gateway's own search could not enforce."""
    filters = _mapping(tool.get("filters"))
    names = (name for name in (_ALLOWED, *_BLOCKED) if _are_domains(filters.get(name)))
    return find_unsupported(tool, frozenset(f"filters.{name}" for name in names))


def _are_domains(value: Any) -> bool:
    """Whether all of a list are domains, and not so many that checking a URL would take long."""
    if not isinstance(value, list | tuple) or len(value) > _MAX_DOMAINS:
        return False
    return len([*_parse_domains(value)]) == len(value)
