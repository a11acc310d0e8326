"""What a search may look at, how much of it the model is shown, and how often.

A restriction is kept by the gateway itself, whatever a search engine makes of it: what lies outside
is dropped. One that cannot be understood is never widened; the tool is then left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

Document: TypeAlias = Mapping[str, Any]
Size: TypeAlias = Literal["low", "medium", "high"]

_SNIPPET_CHARS: Mapping[str, int] = {"low": 300, "medium": 800, "high": 2000}
_FACTOR: Mapping[str, float] = {"low": 0.5, "medium": 1, "high": 2}
_MOST_RESULTS = 20
_MOST_DOMAINS = 1000
_URL_CHARS = 2048
_ADDRESS = re.compile(
    r"https?://(?:[^/?#\s\\]*@)?([^/?#:@\s\\]+)(?::\d+)?(/[^?#\s\\]*)?(?:[?#]\S*)?"
)
_DOMAIN = re.compile(r"(?:https?://)?([\w-]+(?:\.[\w-]+)*)\.?(/[^?#\s]*)?")
_ALLOWED, _BLOCKED = "allowed_domains", ("blocked_domains", "excluded_domains")
_PLACE = ("city", "region", "country", "timezone")


class SearchRules(Struct, frozen=True, kw_only=True):
    """The rules of one request's searches. A domain holds its subdomains, and may have a path."""

    allowed: tuple[str, ...] = ()
    """Empty: the whole web."""
    blocked: tuple[str, ...] = ()
    size: Size = "medium"
    place: Mapping[str, str] = {}
    """Where the user is: city, region, country, timezone."""
    max_calls: int | None = None
    """How many searches the answer may take."""
    include_sources: bool = False
    """Whether the client is told all that was found, not only what is cited."""

    @property
    def snippet_chars(self) -> int:
        return _SNIPPET_CHARS[self.size]

    def count(self, usual: int) -> int:
        """How many results to show, where this many are usual."""
        return min(_MOST_RESULTS, max(1, round(usual * _FACTOR[self.size])))

    def admits(self, url: str) -> bool:
        """Whether a result at this address may be shown."""
        address = _ADDRESS.fullmatch(url) if len(url) <= _URL_CHARS else None
        if address is None or not url.isprintable():  # nothing that acts on who reads it
            return False
        host, path = address[1].lower().rstrip("."), address[2] or "/"
        if any(_holds(domain, host, path) for domain in self.blocked):
            return False
        return not self.allowed or any(_holds(domain, host, path) for domain in self.allowed)


def _holds(domain: str, host: str, path: str) -> bool:
    name, slash, below = domain.partition("/")
    return (host == name or host.endswith(f".{name}")) and path.startswith(slash + below)


def read_rules(tool: Document) -> SearchRules:
    """The rules that a tool sets; `unkept` says whether all of them can be."""
    filters, place, size = tool.get("filters"), tool.get("user_location"), _size(tool)
    given = filters if isinstance(filters, Mapping) else {}
    where = place if isinstance(place, Mapping) else {}
    return SearchRules(
        allowed=tuple(_domains(given.get(_ALLOWED))),
        blocked=tuple(domain for name in _BLOCKED for domain in _domains(given.get(name))),
        size=size,
        place={key: where[key] for key in _PLACE if where.get(key) and isinstance(where[key], str)},
    )


def _size(tool: Document) -> Size:
    size = tool.get("search_context_size")
    return size if size == "low" or size == "high" else "medium"


def _domains(value: Any) -> Iterator[str]:
    for each in value or ():
        if (domain := _DOMAIN.fullmatch(str(each).strip())) is not None:
            yield domain[1].lower() + (domain[2] or "").rstrip("/")


# What the model is told of the tool

WORDS: Document = {
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

_ABOUT = (
    "Searches the web and returns numbered sources. Use it for whatever you do not know for certain"
    " or may have changed. In your answer, put the number of a source in square brackets right"
    " behind what it supports, such as [2]."
)


def described(rules: SearchRules) -> str:
    if not rules.allowed:
        return _ABOUT
    return f"{_ABOUT} Only these domains are searched: {', '.join(rules.allowed)}."


# What cannot be kept

_SWITCHES = ("external_web_access", "indexed_web_access")


def disobeyed(tool: Document, obeyed: frozenset[str]) -> str | None:
    """A restriction that a provider's own search would not keep, if there is one; `obeyed` are
    those that it keeps. Without it the search could see more than it may."""
    for limit in _limits(tool):
        if not {limit, limit.partition(".")[0]} & obeyed:
            return limit
    return None


def _limits(tool: Document) -> Iterator[str]:
    yield from (switch for switch in _SWITCHES if tool.get(switch) is False)
    filters = tool.get("filters")
    if isinstance(filters, Mapping):
        yield from (f"filters.{name}" for name, value in filters.items() if value)
    elif filters:
        yield "filters"


def unheeded(tool: Document, heeded: frozenset[str]) -> list[str]:
    """What else a search is told, and would do without: all but what is `heeded`."""
    return [
        name
        for name, plain in _HINTS.items()
        if (value := tool.get(name)) not in plain and not {name, f"{name}.{value}"} & heeded
    ]


_HINTS: Mapping[str, tuple[Any, ...]] = {  # with the values that ask for nothing special
    "search_content_types": (None, [], ["text"]),
    "search_context_size": (None, "medium"),
    "user_location": (None, {}),
}


def unkept(tool: Document) -> str | None:
    """A restriction that the gateway's own search could not keep, if there is one."""
    filters = tool.get("filters")
    given = filters if isinstance(filters, Mapping) else {}
    names = (name for name in (_ALLOWED, *_BLOCKED) if _are_domains(given.get(name)))
    return disobeyed(tool, frozenset(f"filters.{name}" for name in names))


def _are_domains(value: Any) -> bool:
    """Names of domains, and not so many that looking them up would take long."""
    if not isinstance(value, list | tuple) or len(value) > _MOST_DOMAINS:
        return False
    return len([*_domains(value)]) == len(value)
