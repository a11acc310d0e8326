"""Frames as providers really send them: mended where they are broken, named where they are odd.

1. A document of another form is the error it carries, or worth tracing; never a crash.
2. A request that was accepted and then fails without saying why is its server's fault.
3. A whole answer is a stream of one frame, or all frames of a stream at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from antiphon.core.faults.classify import classify, classify_document
from antiphon.core.faults.fault import FaultType, ProviderFault, protocol_fault
from antiphon.core.stream.deltas import Delta, Extra, Failure
from antiphon.dialects.defaults import StreamDecoder
from antiphon.dialects.lenient_json import mended
from antiphon.wire.sse import Frame, NDJSONDecoder

NULL = msgspec.Raw(b"null")
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_Read = TypeVar("_Read")
_read_document = msgspec.json.Decoder().decode


def read(reader: Callable[[bytes], _Read], data: bytes) -> _Read:
    """What stands in the JSON, which is mended first if that is what it takes."""
    return reread(reader, data)[0]


def reread(reader: Callable[[bytes], _Read], data: bytes) -> tuple[_Read, bytes]:
    """The same, and the JSON that can be read again."""
    try:
        return reader(data), data
    except UNREADABLE:
        data = mended(data)
        return reader(data), data


def string(value: Any) -> str | None:
    """A text with something in it, or None."""
    return value if isinstance(value, str) and value else None


def surprise(data: bytes, *, finished: bool = False) -> list[Delta]:
    """What a frame means that no reader expected."""
    try:
        document = read(_read_document, data)
    except UNREADABLE:
        return unreadable(data, finished=finished)
    return [told(document) if isinstance(document, dict) else Extra("frame", document)]


def unreadable(data: bytes, *, finished: bool) -> list[Delta]:
    """What a frame means that is no object: some servers send a bare word as a keep-alive.

    Once a provider has `finished` its answer is whole: a broken frame cannot spoil it any more.
    """
    if finished or not data.strip() or _is_scalar(data):
        return [Extra("unreadable_frame", len(data))]
    return [Failure(protocol_fault("The provider sent a frame that cannot be read."))]


def _is_scalar(data: bytes) -> bool:
    try:
        return not isinstance(_read_document(data), dict | list)
    except UNREADABLE:
        return False


def told(document: Mapping[str, Any]) -> Delta:
    """The error in a document, or the document itself if it has none."""
    fault = reported(document)
    return Extra("frame", document) if fault is None else Failure(fault)


def reported(document: Mapping[str, Any]) -> ProviderFault | None:
    """The error in a document that came with a 200, if there is one."""
    fault = classify_document(document)
    if fault is not None and fault.type is FaultType.unknown:
        return classify_document(document, 500)
    return fault


def decoded(body: bytes, decoder: StreamDecoder) -> list[Delta]:
    """A whole answer, or a recorded stream of lines → deltas."""
    deltas: list[Delta] = []
    for frame in _frames(body):
        if not decoder.ended:
            deltas += decoder.feed(frame)
    return deltas or [Failure(classify(200, {}, body))]


def _frames(body: bytes) -> list[Frame]:
    try:
        read(_read_document, body)
    except UNREADABLE:
        lines = NDJSONDecoder()
        # Text that is no JSON at all is not worth looking at line by line.
        return [*lines.feed(body), *lines.close()] if body.lstrip()[:1] == b"{" else []
    return [Frame(body)]
