"""JSON values in a text that should have been one: what a model meant, as it wrote it.

Only what stands around a value is taken away (a fence, prose, a mark of the byte order, the quotes
of JSON told as a JSON string). A value that opens and does not end is broken, and nothing inside of
it is taken for the answer.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import msgspec

_MOST_VALUES = 100
"""Each may be held against a schema. Among more than these, nobody means one."""
_FENCES = ("```", "~~~")
_BRACKET = re.compile(
    r"""(?P<json> \{ [\ \t\r\n]* ["}]
        | \[ [\ \t\r\n]* (?: [\[\]{"0-9-] | (?: true | false | null ) \b ) )
    | [\[{]""",
    re.VERBOSE,
)
"""An opening bracket; `json` if what follows says that it is not one of the prose."""


def values(text: str) -> list[str]:
    """The values that a text could mean, each as it is written there; none if it is broken."""
    bare = text.strip().removeprefix("\ufeff").strip()
    for candidate in (bare, _unfenced(bare)):
        value = _decoded(candidate)
        if isinstance(value, str):
            return [candidate, *values(value)]
        if value is not _NOTHING:
            return [candidate]
    return _inside(bare)


_NOTHING = object()


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _NOTHING


def _unfenced(text: str) -> str:
    """What stands in a fence, if the whole text is one."""
    fence, (_, _, rest) = text[:3], text.partition("\n")
    fenced = fence in _FENCES and rest.endswith(fence)
    return rest.removesuffix(fence).strip() if fenced else text


def _inside(text: str) -> list[str]:
    """The objects and arrays in a text; a number or a word of prose is no value."""
    found: list[str] = []
    place = 0
    while bracket := _BRACKET.search(text, place):
        place = bracket.end()
        if bracket["json"] is None:
            continue
        try:
            _, place = _DECODER.raw_decode(text, bracket.start())
        except (ValueError, RecursionError):
            return []
        found.append(text[bracket.start() : place])
    return found if len(found) <= _MOST_VALUES else []


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
