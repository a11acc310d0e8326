"""Printable text: control characters from outside, made visible before they reach a terminal.

A model name, a header or a provider's error text may hold escape sequences, which a terminal obeys,
or line breaks, which look like a further entry of a log.
"""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import Any

import msgspec


@cache
def _find_visible_forms() -> dict[int, str]:
    """Return what stands for each control character. It takes 260 kB, and most processes never
    need it."""
    control_characters = chain(
        range(0x20),
        range(0x7F, 0xA0),
        (0x200E, 0x200F, 0x2028, 0x2029),
        range(0x202A, 0x202F),  # these and the next change the direction of text
        range(0x2066, 0x206A),
        range(0xD800, 0xE000),  # lone surrogates cannot be encoded
    )
    return {code: ascii(chr(code))[1:-1] for code in control_characters}


def printable(text: str, keep: str = "") -> str:
    """Return the text as one line without control characters: each is written as in Python source,
    `\\x1b` or `\\n`. Characters in `keep` stay."""
    if text.isprintable():
        return text
    forms = _find_visible_forms()
    if not keep:
        return text.translate(forms)
    return text.translate({code: each for code, each in forms.items() if chr(code) not in keep})


def printable_fields(struct: msgspec.Struct) -> Any:
    """Return a copy of a struct whose strings are printable, at any depth."""
    document = msgspec.to_builtins(struct, builtin_types=(bytes,))
    return msgspec.convert(_printable_values(document), type(struct), builtin_types=(bytes,))


def _printable_values(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {key: _printable_values(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_printable_values(each) for each in value]
    return value
