"""JSON as providers really send it: what only strict readers reject is mended, not thrown away."""

from __future__ import annotations

import json
import math


def mended(data: bytes) -> bytes:
    """The same document for a strict reader; the same bytes if there is no document in them.

    Some servers cut a stream inside of a character, and send the halves as lone surrogates or
    broken UTF-8; some write control characters, or numbers that are none.
    """
    text = data.decode("utf-8", "replace")
    try:
        document = json.loads(text, strict=False, parse_float=_finite, parse_constant=_nothing)
        text = json.dumps(document, ensure_ascii=False)
    except (ValueError, RecursionError):
        return data
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _nothing(_: str) -> None:
    return None
