"""Decoding of request bodies: JSON, UTF-8, an object, and of bounded depth.

The bounds make a document safe to walk recursively, to store and to encode again.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from antiphon.errors import InvalidRequest
from antiphon.wire.items import Document
from antiphon.wire.validate import json_type

MAX_DEPTH = 100
"""Levels of objects and arrays. Real schemas need a fraction of it; attacks need more."""

_BYTE_OFFSET = re.compile(r" \(byte (\d+)\)")


def decode_body(body: bytes) -> Document:
    """Decode the JSON object of a request, or raise an `InvalidRequest` with its line."""
    try:
        # msgspec reports an offset within the string; a client needs the offset within the body.
        body.decode()
        document = msgspec.json.decode(body)
    except UnicodeDecodeError as error:
        raise _invalid_json(f"not UTF-8 at byte {error.start}") from None
    except msgspec.ValidationError:  # raised for well-formed numbers that Python cannot represent
        raise _invalid_json("a number is out of range") from None
    except msgspec.DecodeError as error:
        raise _invalid_json(_locate(str(error), body)) from None
    except RecursionError:
        raise _too_deep() from None
    if not isinstance(document, dict):
        raise InvalidRequest(
            f"The request body must be an object, not {json_type(document)}.", code="invalid_type"
        )
    _check_depth(document)
    return document


def _invalid_json(reason: str) -> InvalidRequest:
    return InvalidRequest(f"The request body is not valid JSON: {reason}.")


def _too_deep() -> InvalidRequest:
    return InvalidRequest(
        f"The request body is nested more than {MAX_DEPTH} levels deep.", code="invalid_value"
    )


def _locate(reason: str, body: bytes) -> str:
    """Replace the byte offset in a message of the decoder by a line and a column."""
    found = _BYTE_OFFSET.search(reason)
    offset = int(found[1]) if found else len(body)
    reason = reason.removeprefix("JSON is malformed: ") if found else "unexpected end of input"
    line = body.count(b"\n", 0, offset) + 1
    column = offset - body.rfind(b"\n", 0, offset)
    return f"{_BYTE_OFFSET.sub('', reason)} (line {line}, column {column})"


def _check_depth(document: Document) -> None:
    """Walk level by level: a recursive check would itself exhaust the stack."""
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise _too_deep()
