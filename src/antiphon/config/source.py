"""The text of a configuration file: an error names the file, the line and the key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from antiphon.errors import ConfigError

_FEW = 6


def suggest(value: str, known: Iterable[str]) -> str:
    """Suggest the known value nearest to an unknown one, or list all of them."""
    near = difflib.get_close_matches(value, choices := list(known), n=1, cutoff=0.6)
    listed = f"known: {', '.join(choices)}"
    if not near:
        return listed
    return f"did you mean {near[0]!r}?" + (f" ({listed})" if len(choices) <= _FEW else "")


def raise_problems(problems: Iterable[ConfigError]) -> None:
    """Raise all problems as one error, if there are any."""
    found = [*problems]
    if len(found) == 1:
        raise found[0]
    if found:
        raise ConfigError("\n".join(each.message for each in found))


class ConfigSource:
    """Name and text of a configuration file, to find the line of a key."""

    def __init__(self, name: str = "", text: str = "") -> None:
        self.name = name
        self._lines = text.splitlines()

    def error_at(self, path: list[str], problem: str, *, inside: str = "") -> ConfigError:
        """Make the error about a key; `inside` locates it within the value: `[1]` of a list."""
        line = f":{number}" if (number := self.find_line(path)) else ""
        location = f"{self.name}{line}: " if self.name else ""
        key = ".".join(map(_quote_key, path))
        return ConfigError(f"{location}{key}{inside}: {problem}", path=path)

    def syntax_error(self, problem: str) -> ConfigError:
        found = re.search(r" \(at line (\d+), column \d+\)$", problem)
        line = found[1] if found else max(1, len(self._lines))  # "at end of document"
        reason = problem[: found.start()] if found else problem
        if reason.endswith(r"character '\n'"):  # tomllib's words for the end of a line in a string
            reason = "a string lacks its closing quote"
        return ConfigError(f"{self.name}:{line}: not valid TOML: {reason}")

    def find_line(self, path: list[str], *, exact: bool = False) -> int | None:
        """Find the line of a key, or of the innermost table around it; `exact`: of the key."""
        table: list[str] = []
        best = None
        depth = 0
        for number, line in enumerate(self._lines, 1):
            if header := re.match(rf"\s*\[\[?({_KEYS})\]", line):
                found = table = _split_key(header[1])
            elif entry := re.match(rf"\s*({_KEYS})=", line):
                found = table + _split_key(entry[1])
            else:
                continue
            if len(found) > depth and path[: len(found)] == found:
                best = number
                depth = len(found)
        return None if exact and depth < len(path) else best


_KEY = r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|[\w-]+'
_KEYS = rf"\s*(?:{_KEY})\s*(?:\.\s*(?:{_KEY})\s*)*"


def _split_key(dotted: str) -> list[str]:
    """Split a dotted key: `a."b.c".d`."""
    return [key.strip("\"'") for key in re.findall(_KEY, dotted)]


def _quote_key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key) else f'"{key}"'
