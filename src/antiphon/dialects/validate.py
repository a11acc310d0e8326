"""Validators for JSON values that clients send.

A reader takes a value and its path, spelled as the API spells it (`input[3].content[0].type`). It
returns the validated value, or raises an `InvalidRequest` that names the path, the values that are
possible and the one that was sent. Large objects are tables of small readers.

Most values are valid, and a path costs more than the check of a short value. So a caller may read
with an empty path first (`UNNAMED`): no paths are made below it. If that raises, the error says
nothing useful, and the caller reads again, with the path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from antiphon.core.items import Document
from antiphon.errors import InvalidRequest

T = TypeVar("T")
Reader: TypeAlias = Callable[[Any, str], T]
Readers: TypeAlias = Mapping[str, Reader[Any]]

MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON parser represents exactly."""

UNNAMED = ""
"""The path of a value that is only to be checked."""

MAX_MODEL_NAME = 256
_MAX_UNKNOWN = 20
_MAX_SUGGESTED = 3
_SIMILARITY = 0.75  # of difflib: one wrong, missing or exchanged letter in a word of five
_MAX_QUOTED_CHARS = 64  # of a client's own value in an error message
_JSON_TYPES = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
    str: "a string",
    list: "an array",
    dict: "an object",
}


def json_type(value: Any) -> str:
    """Name the JSON type of a value, with its article."""
    return _JSON_TYPES[type(value)]


# --- errors ---------------------------------------------------------------------------------------


def missing_parameter(
    param: str, alternatives: str = "", given: Iterable[str] = ()
) -> InvalidRequest:
    """`given` are the unknown fields beside it: one of them may be a misspelling."""
    return InvalidRequest(
        f"'{param}'{alternatives} is required.{suggest_misspelt(param, given)}",
        param=param,
        code="missing_required_parameter",
    )


def suggest_misspelt(param: str, given: Iterable[str]) -> str:
    """Return a sentence about the unknown field that resembles a missing one, or nothing."""
    missing = param.rpartition(".")[2]
    for name in islice(given, _MAX_UNKNOWN):
        if find_similar(name[:_MAX_QUOTED_CHARS], frozenset({missing})) is not None:
            return f" {quote_briefly(name)} is unknown here. Did you mean '{missing}'?"
    return ""


@lru_cache(maxsize=1024)
def find_similar(name: str, known: frozenset[str]) -> str | None:
    """Return the known name that an unknown one resembles most. Clients repeat their fields with
    each request, so results are kept."""
    near = get_close_matches(name.lower(), sorted(known), 1, _SIMILARITY)
    return near[0] if near else None


def invalid_type(value: Any, param: str, expected: str) -> InvalidRequest:
    return InvalidRequest(
        f"'{param}' must be {expected}, not {json_type(value)}.",
        param=param,
        code="invalid_type",
    )


def invalid_value(param: str, problem: str, code: str = "invalid_value") -> InvalidRequest:
    return InvalidRequest(f"'{param}' {problem}", param=param, code=code)


def unsupported_value(
    value: str, param: str, supported: Mapping[str, Any] | tuple[str, ...]
) -> InvalidRequest:
    near = get_close_matches(value[:_MAX_QUOTED_CHARS], supported, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    choices = ", ".join(map(repr, supported))
    return invalid_value(
        param, f"cannot be {quote_briefly(value)}; supported values are {choices}.{hint}"
    )


def quote_briefly(text: str) -> str:
    """Quote a client's own value, cut to a length that fits into an error message."""
    return repr(text if len(text) <= _MAX_QUOTED_CHARS else f"{text[:_MAX_QUOTED_CHARS]}…")


# --- scalar values --------------------------------------------------------------------------------


def any_value(value: Any, param: str) -> Any:
    return value


def string(value: Any, param: str) -> str:
    if isinstance(value, str):
        return value
    raise invalid_type(value, param, "a string")


def non_empty_string(value: Any, param: str) -> str:
    """A string with at least one character that is not whitespace."""
    text = string(value, param)
    if not text.strip():
        raise invalid_value(param, "must not be empty.")
    return text


def describe_unknown(names: Sequence[str], known: frozenset[str]) -> dict[str, Any]:
    """Return what a request has about unknown fields: the first of them, shortened, how many others
    there are, as clients may send as many as fit into a request, and which fields may be meant."""
    if not names:
        return {}
    kept = tuple(name[:_MAX_QUOTED_CHARS] for name in names[:_MAX_UNKNOWN])
    similar = {name: find_similar(name, known) for name in kept[:_MAX_SUGGESTED]}
    return {
        "unknown": kept,
        "unknown_more": len(names) - len(kept),
        "similar": {name: field for name, field in similar.items() if field is not None},
    }


def boolean(value: Any, param: str) -> bool:
    if isinstance(value, bool):
        return value
    raise invalid_type(value, param, "a boolean (true or false, without quotes)")


def any_object(value: Any, param: str) -> Document:
    if isinstance(value, dict):
        return value
    raise invalid_type(value, param, "an object")


def string_up_to(max_length: int) -> Reader[str]:
    """A string of at most `max_length` characters."""

    def read(value: Any, param: str) -> str:
        if isinstance(value, str) and len(value) <= max_length:
            return value
        problem = f"must have at most {max_length} characters; it has {len(string(value, param))}."
        raise invalid_value(param, problem, "string_above_max_length")

    return read


_short_name = string_up_to(MAX_MODEL_NAME)


def model_name(value: Any, param: str) -> str:
    """The name of a model: logs, traces and usage keep it."""
    if isinstance(value, str) and 0 < len(value) <= MAX_MODEL_NAME and not value.isspace():
        return value
    return _short_name(non_empty_string(value, param), param)


def enum(*supported: str) -> Reader[str]:
    """One of the strings that the API supports."""

    def read(value: Any, param: str) -> str:
        text = string(value, param)
        if text not in supported:
            raise unsupported_value(text, param, supported)
        return text

    return read


def integer(low: int, high: int = MAX_SAFE_INTEGER) -> Reader[int]:
    """An integer within bounds; neither `true` nor `1.0` is one."""

    def read(value: Any, param: str) -> int:
        if type(value) is not int:
            raise invalid_type(value, param, "an integer")
        _check_range(value, param, low, high, "integer")
        return value

    return read


def number(low: float, high: float) -> Reader[float]:
    """A number within bounds; `true` is not one."""

    def read(value: Any, param: str) -> float:
        if type(value) not in (int, float):
            raise invalid_type(value, param, "a number")
        _check_range(value, param, low, high, "decimal")
        return value  # type: ignore[no-any-return]  # as the client wrote it: 1 is not 1.0

    return read


def _check_range(value: float, param: str, low: float, high: float, code_prefix: str) -> None:
    shown = str(value)[:_MAX_QUOTED_CHARS]
    if value < low:
        problem = f"must be at least {low}, not {shown}."
        raise invalid_value(param, problem, f"{code_prefix}_below_min_value")
    if value > high:
        problem = f"must be at most {high}, not {shown}."
        raise invalid_value(param, problem, f"{code_prefix}_above_max_value")


# --- composite values -----------------------------------------------------------------------------


def nullable(reader: Reader[T]) -> Reader[T | None]:
    """A required field that may be null."""
    return lambda value, param: None if value is None else reader(value, param)


def list_of(reader: Reader[T], min_items: int = 0) -> Reader[tuple[T, ...]]:
    """An array whose elements one reader accepts."""

    def read(value: Any, param: str) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise invalid_type(value, param, "an array")
        if len(value) < min_items:
            raise invalid_value(param, f"must have at least {min_items} element.", "empty_array")
        if param is UNNAMED:
            return tuple([reader(each, UNNAMED) for each in value])
        return tuple(reader(each, f"{param}[{index}]") for index, each in enumerate(value))

    return read


def map_of(reader: Reader[T]) -> Reader[dict[str, T]]:
    """An object with arbitrary keys, whose values one reader accepts."""

    def read(value: Any, param: str) -> dict[str, T]:
        return {
            key: reader(each, f"{param}.{key[:_MAX_QUOTED_CHARS]}")
            for key, each in any_object(value, param).items()
        }

    return read


def object_of(required: Readers, optional: Readers | None = None) -> Reader[Document]:
    """An object with these fields. Optional ones may be null; other fields are not checked."""
    known = optional or {}

    def read(value: Any, param: str) -> Document:
        fields = any_object(value, param)
        below = None if param is UNNAMED else f"{param}."
        for key, reader in required.items():
            if key not in fields:
                others = (name for name in fields if name not in required and name not in known)
                raise missing_parameter(f"{param}.{key}", given=others)
            reader(fields[key], UNNAMED if below is None else below + key)
        for key, reader in known.items():
            if (member := fields.get(key)) is not None:
                reader(member, UNNAMED if below is None else below + key)
        return fields

    return read


def by_type(expected: str, readers: Mapping[type, Reader[Any]]) -> Reader[Any]:
    """A value of one of several JSON types, with one reader for each type."""

    def read(value: Any, param: str) -> Any:
        reader = readers.get(type(value))
        if reader is None:
            raise invalid_type(value, param, expected)
        return reader(value, param)

    return read


def tagged_union(variants: Readers, *, allow_unknown: bool = False) -> Reader[Document]:
    """An object whose `type` selects its reader; with `allow_unknown`, other types pass."""

    def read(value: Any, param: str) -> Document:
        fields = any_object(value, param)
        if "type" not in fields:
            raise missing_parameter(f"{param}.type")
        tag = fields["type"]
        if type(tag) is not str:
            raise invalid_type(tag, f"{param}.type", "a string")
        if tag in variants:
            variants[tag](fields, param)
        elif not allow_unknown:
            raise unsupported_value(tag, f"{param}.type", variants)
        return fields

    return read
