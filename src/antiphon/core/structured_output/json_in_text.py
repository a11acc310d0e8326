"""Extraction of JSON values from text around them.

Only what surrounds a value is removed (a code fence, prose, a byte order mark, the quotes of JSON
that is encoded as a JSON string). In a value that opens and does not end, nothing is taken for the
answer.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import msgspec

_MAX_VALUES = 100
"""Each may be validated against the schema; a text with more of them is not an answer."""
_FENCES = ("```", "~~~")
_BRACKET = re.compile(
    r"""(?P<json> \{ [\ \t\r\n]* ["}]
        | \[ [\ \t\r\n]* (?: [\[\]{"0-9-] | (?: true | false | null ) \b ) )
    | [\[{]""",
    re.VERBOSE,
)
"""An opening bracket; `json` is set if what follows can only be JSON, not prose."""


def find_json_values(text: str) -> list[str]:
    """Find the JSON values in a text, each exactly as written; none if one is incomplete."""
    bare = text.strip().removeprefix("\ufeff").strip()
    for candidate in (bare, _remove_fence(bare)):
        value = _decode(candidate)
        if isinstance(value, str):
            return [candidate, *find_json_values(value)]
        if value is not _INVALID:
            return [candidate]
    return _find_embedded(bare)


_INVALID = object()


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _INVALID


def _remove_fence(text: str) -> str:
    """The content of a code fence, if the whole text is one."""
    fence = text[:3]
    _, _, rest = text.partition("\n")
    fenced = fence in _FENCES and rest.endswith(fence)
    return rest.removesuffix(fence).strip() if fenced else text


def _find_embedded(text: str) -> list[str]:
    """The objects and arrays in a text; a bare number or word may be prose."""
    found: list[str] = []
    position = 0
    while bracket := _BRACKET.search(text, position):
        position = bracket.end()
        if bracket["json"] is None:
            continue
        try:
            _, position = _DECODER.raw_decode(text, bracket.start())
        except (ValueError, RecursionError):
            return []
        found.append(text[bracket.start() : position])
    return found if len(found) <= _MAX_VALUES else []


def _reject(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_reject)
