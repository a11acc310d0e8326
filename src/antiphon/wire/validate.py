"""Small readers for documents that strangers wrote.

A reader takes a value and the path it was found at, spelled as the API spells it
(`input[3].content[0].type`). It returns what it understood or raises the one `InvalidRequest` that
names the path, says what is expected and what was given. Big shapes are tables of small readers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias, TypeVar

from antiphon.errors import InvalidRequest

T = TypeVar("T")
Reader: TypeAlias = Callable[[Any, str], T]
Readers: TypeAlias = Mapping[str, Reader[Any]]

EXACT = 2**53 - 1
"""The largest integer that every JSON reader keeps as it is."""

_SHOWN = 64  # characters of a client's own words that an error repeats
_KINDS = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
    str: "a string",
    list: "an array",
    dict: "an object",
}


def kind(value: Any) -> str:
    """What JSON calls a value."""
    return _KINDS[type(value)]


# --- what can be wrong ----------------------------------------------------------------------------


def missing(param: str, instead: str = "") -> InvalidRequest:
    return InvalidRequest(
        f"'{param}'{instead} is required.", param=param, code="missing_required_parameter"
    )


def wrong_type(value: Any, param: str, expected: str) -> InvalidRequest:
    return InvalidRequest(
        f"'{param}' must be {expected}, not {kind(value)}.",
        param=param,
        code="invalid_type",
    )


def wrong_value(param: str, problem: str, code: str = "invalid_value") -> InvalidRequest:
    return InvalidRequest(f"'{param}' {problem}", param=param, code=code)


def wrong_word(word: str, param: str, known: Mapping[str, Any] | tuple[str, ...]) -> InvalidRequest:
    near = get_close_matches(word[:_SHOWN], known, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return wrong_value(
        param, f"cannot be {shown(word)}; it is one of {', '.join(map(repr, known))}.{hint}"
    )


def shown(text: str) -> str:
    """As much of a client's own words as fits into an error."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


# --- plain values ---------------------------------------------------------------------------------


def anything(value: Any, param: str) -> Any:
    return value


def text(value: Any, param: str) -> str:
    if isinstance(value, str):
        return value
    raise wrong_type(value, param, "a string")


def label(value: Any, param: str) -> str:
    """A string that says something."""
    given = text(value, param)
    if not given.strip():
        raise wrong_value(param, "must not be empty.")
    return given


def flag(value: Any, param: str) -> bool:
    if isinstance(value, bool):
        return value
    raise wrong_type(value, param, "a boolean (true or false, without quotes)")


def document(value: Any, param: str) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise wrong_type(value, param, "an object")


def short(most: int) -> Reader[str]:
    """A string of at most so many characters."""

    def read(value: Any, param: str) -> str:
        given = text(value, param)
        if len(given) > most:
            problem = f"must have at most {most} characters; it has {len(given)}."
            raise wrong_value(param, problem, "string_above_max_length")
        return given

    return read


def word(*known: str) -> Reader[str]:
    """One of the words that the API knows."""

    def read(value: Any, param: str) -> str:
        given = text(value, param)
        if given not in known:
            raise wrong_word(given, param, known)
        return given

    return read


def whole(low: int, high: int = EXACT) -> Reader[int]:
    """An integer; true and 1.0 are none."""

    def read(value: Any, param: str) -> int:
        if type(value) is not int:
            raise wrong_type(value, param, "an integer")
        _within(value, param, low, high, "integer")
        return value

    return read


def number(low: float, high: float) -> Reader[float]:
    def read(value: Any, param: str) -> float:
        if type(value) not in (int, float):
            raise wrong_type(value, param, "a number")
        _within(value, param, low, high, "decimal")
        return float(value)

    return read


def _within(value: float, param: str, low: float, high: float, kind: str) -> None:
    given = str(value)[:_SHOWN]
    if value < low:
        raise wrong_value(param, f"must be at least {low}, not {given}.", f"{kind}_below_min_value")
    if value > high:
        raise wrong_value(param, f"must be at most {high}, not {given}.", f"{kind}_above_max_value")


# --- values made of values ------------------------------------------------------------------------


def nullable(reader: Reader[T]) -> Reader[T | None]:
    """For fields that must be there and may be null."""
    return lambda value, param: None if value is None else reader(value, param)


def many(reader: Reader[T], least: int = 0) -> Reader[tuple[T, ...]]:
    def read(value: Any, param: str) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise wrong_type(value, param, "an array")
        if len(value) < least:
            raise wrong_value(param, f"must have at least {least} element.", "empty_array")
        return tuple(reader(each, f"{param}[{index}]") for index, each in enumerate(value))

    return read


def mapping(reader: Reader[T]) -> Reader[dict[str, T]]:
    """An object whose names are the client's own."""

    def read(value: Any, param: str) -> dict[str, T]:
        given = document(value, param)
        return {key: reader(each, f"{param}.{key[:_SHOWN]}") for key, each in given.items()}

    return read


def shape(needs: Readers, takes: Readers | None = None) -> Reader[dict[str, Any]]:
    """An object with fields of its own; those it takes may be null, those of others stay unread."""

    def read(value: Any, param: str) -> dict[str, Any]:
        given = document(value, param)
        for key, reader in needs.items():
            if key not in given:
                raise missing(f"{param}.{key}")
            reader(given[key], f"{param}.{key}")
        for key, reader in (takes or {}).items():
            if given.get(key) is not None:
                reader(given[key], f"{param}.{key}")
        return given

    return read


def either(expected: str, readers: Mapping[type, Reader[Any]]) -> Reader[Any]:
    """A value of one of several JSON types, each with a reader of its own."""

    def read(value: Any, param: str) -> Any:
        reader = readers.get(type(value))
        if reader is None:
            raise wrong_type(value, param, expected)
        return reader(value, param)

    return read


def tagged(kinds: Readers, *, others: bool = False) -> Reader[dict[str, Any]]:
    """An object whose type says what it is; with `others`, types that nobody knows yet pass."""

    def read(value: Any, param: str) -> dict[str, Any]:
        given = document(value, param)
        if "type" not in given:
            raise missing(f"{param}.type")
        tag = text(given["type"], f"{param}.type")
        if tag in kinds:
            kinds[tag](given, param)
        elif not others:
            raise wrong_word(tag, f"{param}.type", kinds)
        return given

    return read
