"""Repair of JSON that strict parsers reject: lone surrogates, broken UTF-8, NaN and the like."""

from __future__ import annotations

import json
import math


def repair_json(data: bytes) -> bytes:
    """The same document for a strict parser; the same bytes if they hold no document.

    Some servers cut a stream inside a character and send the halves as lone surrogates or broken
    UTF-8; some write control characters, or `NaN` and `Infinity`, which become null.
    """
    text = data.decode("utf-8", "replace")
    try:
        document = json.loads(text, strict=False, parse_float=_finite, parse_constant=_null)
        text = json.dumps(document, ensure_ascii=False)
    except (ValueError, RecursionError):
        return data
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _null(_: str) -> None:
    return None
