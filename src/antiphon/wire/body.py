"""From bytes to a document that is safe to walk, to keep and to write again."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from antiphon.errors import InvalidRequest
from antiphon.wire.validate import kind

DEPTH = 100
"""Objects and arrays inside each other. Real schemas need a fraction of it; bombs need more."""

_BYTE = re.compile(r" \(byte (\d+)\)")


def decode(body: bytes) -> dict[str, Any]:
    """The object a client sent, or the `InvalidRequest` that says where its JSON breaks."""
    try:
        # The JSON decoder counts from the start of a string; a client needs the place in the body.
        body.decode()
        document = msgspec.json.decode(body)
    except UnicodeDecodeError as error:
        raise _broken(f"not UTF-8 at byte {error.start}") from None
    except msgspec.ValidationError:  # what the decoder says of well-formed numbers beyond its means
        raise _broken("a number in it is out of range") from None
    except msgspec.DecodeError as error:
        raise _broken(_placed(str(error), body)) from None
    except RecursionError:
        raise _too_deep() from None
    if not isinstance(document, dict):
        raise InvalidRequest(
            f"The request body must be an object, not {kind(document)}.", code="invalid_type"
        )
    _check_depth(document)
    return document


def _broken(reason: str) -> InvalidRequest:
    return InvalidRequest(f"The request body cannot be read as JSON: {reason}.")


def _too_deep() -> InvalidRequest:
    return InvalidRequest(
        f"The request body is nested more than {DEPTH} levels deep.", code="invalid_value"
    )


def _placed(reason: str, body: bytes) -> str:
    """The decoder's words, with the place as an editor shows it."""
    found = _BYTE.search(reason)
    offset = int(found[1]) if found else len(body)
    reason = reason.removeprefix("JSON is malformed: ") if found else "it ends too early"
    line = body.count(b"\n", 0, offset) + 1
    column = offset - body.rfind(b"\n", 0, offset)
    return f"{_BYTE.sub('', reason)} (line {line}, column {column})"


def _check_depth(document: dict[str, Any]) -> None:
    """Level by level, so that the check itself cannot run out of stack."""
    level: list[Any] = [document]
    for _ in range(DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise _too_deep()
