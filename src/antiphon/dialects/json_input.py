"""Decoding of JSON frames and bodies from providers, tolerant of what real servers send.

1. A document of an unexpected shape is the error it carries, or an `Extra`; never an exception.
2. A request that was accepted (200) and then fails without a reason is the server's fault.
3. A whole body is a stream of one frame, or all lines of a recorded stream at once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from antiphon.core.deltas import Delta, Extra, Failure
from antiphon.core.faults.body import TEXT_LIMIT, holds_document
from antiphon.core.faults.classify import classify, classify_document
from antiphon.core.faults.fault import FaultType, ProviderFault, protocol_fault
from antiphon.core.stream.source import StreamDecoder
from antiphon.framing.ndjson import NDJSONDecoder
from antiphon.framing.sse import Frame

NULL = msgspec.Raw(b"null")
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a JSON decoder raises for bytes it cannot decode."""

_Decoded = TypeVar("_Decoded")
_decode_document = msgspec.json.Decoder().decode


def decode_lenient(decode: Callable[[bytes], _Decoded], data: bytes) -> _Decoded:
    """Decode JSON, after a repair if that is what it takes; raises one of `UNREADABLE`."""
    return decode_repaired(decode, data)[0]


def decode_repaired(decode: Callable[[bytes], _Decoded], data: bytes) -> tuple[_Decoded, bytes]:
    """Like `decode_lenient`; also return the JSON that was decoded, repaired or not."""
    try:
        return decode(data), data
    except UNREADABLE:
        data = repair_json(data)
        return decode(data), data


def nonempty_string(value: Any) -> str | None:
    """The value if it is a string and not empty, else None."""
    return value if isinstance(value, str) and value else None


def decode_unexpected(data: bytes, *, finished: bool = False) -> list[Delta]:
    """The deltas of a frame that does not have the shape its decoder expects."""
    try:
        document = decode_lenient(_decode_document, data)
    except UNREADABLE:
        return report_unreadable(data, finished=finished)
    return [error_or_extra(document) if isinstance(document, dict) else Extra("frame", document)]


def report_unreadable(data: bytes, *, finished: bool) -> list[Delta]:
    """The deltas of a frame that is not a JSON object, or one that its decoder cannot read.

    Some servers send a bare word as a keep-alive. After the finish reason (`finished`) the response
    is complete, and a broken frame is no longer a failure.
    """
    if finished or not data.strip() or _is_scalar(data):
        return [Extra("unreadable_frame", len(data))]
    fault = _find_member_error(data)
    message = "The provider sent a frame that could not be decoded as JSON."
    return [Failure(fault or protocol_fault(message))]


def _is_scalar(data: bytes) -> bool:
    try:
        return not isinstance(_decode_document(data), dict | list)
    except UNREADABLE:
        return False


def _find_member_error(data: bytes) -> ProviderFault | None:
    """The error in an object, or in a list, as Google sends it: `[{"error": {"code": 429, …}}]`."""
    try:
        document = _decode_document(data)
    except UNREADABLE:
        return None
    match document:
        case ({"error": _} as found) | [{"error": _} as found, *_]:
            return find_error(found)
    return None


def error_or_extra(document: Mapping[str, Any]) -> Delta:
    """The error in a document, or the document itself as an `Extra`."""
    fault = find_error(document)
    return Extra("frame", document) if fault is None else Failure(fault)


def find_error(document: Mapping[str, Any]) -> ProviderFault | None:
    """The error in a document that came with status 200, if there is one."""
    fault = classify_document(document)
    if fault is not None and fault.type is FaultType.unknown:
        return classify_document(document, 500)
    return fault


def decode_body(body: bytes, decoder: StreamDecoder) -> list[Delta]:
    """Decode a whole response, or the recorded lines of a stream, with a stream decoder."""
    deltas: list[Delta] = []
    for frame in _split_frames(body):
        if not decoder.ended:
            deltas += decoder.feed(frame)
    return deltas or [fail_unreadable(body)]


def fail_unreadable(body: bytes) -> Failure:
    """The failure of a body that came with status 200 and that its dialect cannot read.

    Words in damaged JSON may be output of the model, so that they say nothing about the cause.
    """
    if b"{" not in body or holds_document(body):
        return Failure(classify(200, {}, body))
    fault = protocol_fault("The provider sent a body that could not be decoded as JSON.")
    original = body[:TEXT_LIMIT].decode("utf-8", "replace")
    return Failure(msgspec.structs.replace(fault, original=original))


def _split_frames(body: bytes) -> list[Frame]:
    try:
        decode_lenient(_decode_document, body)
    except UNREADABLE:
        lines = NDJSONDecoder()
        # Text that is not JSON at all (an HTML page) has no lines worth decoding.
        return [*lines.feed(body), *lines.close()] if body.lstrip()[:1] == b"{" else []
    return [Frame(body)]


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
