"""Query parameters of an endpoint, checked: booleans, numbers, choices and lists."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import parse_qs

from antiphon.errors import InvalidRequest

_BOOLEANS = {"true": True, "false": False}
_MAX_DIGITS = 18


class Query:
    """Parameters of a query string. Unknown ones are ignored; of a repeated one the last counts.

    Raises `InvalidRequest` that names the parameter."""

    def __init__(self, text: str) -> None:
        self._values = parse_qs(text, keep_blank_values=True)

    def text(self, name: str) -> str | None:
        values = self._values.get(name)
        return values[-1] if values else None

    def choices(self, name: str, allowed: Collection[str]) -> list[str]:
        """A list, written as `name=a&name=b` or as `name[]=a&name[]=b`."""
        values = [*self._values.get(name, ()), *self._values.get(f"{name}[]", ())]
        return [_check_choice(name, value, allowed) for value in values]

    def boolean(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value not in _BOOLEANS:
            raise _invalid(name, "must be `true` or `false`", value)
        return _BOOLEANS[value]

    def integer(self, name: str, default: int, *, minimum: int, maximum: int | None = None) -> int:
        value = self.text(name)
        if value is None:
            return default
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS):
            raise _invalid(name, "must be an integer", value)
        number = int(value)
        if number < minimum or (maximum is not None and number > maximum):
            upper = "" if maximum is None else f" and at most {maximum}"
            raise _invalid(name, f"must be at least {minimum}{upper}", value)
        return number

    def choice(self, name: str, default: str, allowed: Collection[str]) -> str:
        value = self.text(name)
        return default if value is None else _check_choice(name, value, allowed)


def _check_choice(name: str, value: str, allowed: Collection[str]) -> str:
    if value not in allowed:
        *others, last = (f"`{each}`" for each in allowed)
        names = f"{', '.join(others)} or {last}"
        raise _invalid(name, f"must be {names}", value)
    return value


def _invalid(name: str, rule: str, value: str) -> InvalidRequest:
    shown = value if len(value) <= 40 else f"{value[:40]}…"
    return InvalidRequest(f"`{name}` {rule}, not {shown!r}.", param=name, code="invalid_value")
