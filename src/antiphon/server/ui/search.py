"""The search box of a list: words, fields such as `model:fast`, and durations such as `>2s`."""

from __future__ import annotations

import re
from typing import NamedTuple

FIELDS = ("client", "model", "provider", "status", "code", "session", "text")
"""`text` searches payloads; all others are columns of the list."""
MAX_WORDS = 8

_TOKEN = re.compile(r'(?:(\w+):)?(?:"([^"]*)"|(\S+))')
_DURATION = re.compile(r"([<>])(\d{1,9}(?:\.\d{1,3})?)(ms|s|m)?")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000}


class Search(NamedTuple):
    """A search, read."""

    fields: dict[str, str]
    words: tuple[str, ...]
    """In lower case."""
    min_ms: int | None = None
    max_ms: int | None = None


def parse_search(text: str) -> Search:
    """Read a search. Everything that is neither a field nor a duration is a word."""
    fields: dict[str, str] = {}
    words: list[str] = []
    limits: dict[str, int] = {}
    for found in _TOKEN.finditer(text):
        name, quoted, plain = found.groups()
        value = plain if quoted is None else quoted
        duration = _DURATION.fullmatch(found[0])
        if duration is not None:
            sign, number, unit = duration.groups()
            limits[sign] = int(float(number) * _UNITS_MS[unit or "s"])
        elif name in FIELDS:
            fields[name] = value
        else:
            words.append((f"{name}:{value}" if name else value).lower())
    return Search(fields, tuple(filter(None, words))[:MAX_WORDS], limits.get(">"), limits.get("<"))
