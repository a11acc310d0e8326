"""Tool calls in their native form: `{"id", "function": {"name", "arguments"}}`, or close to it.

Arguments stay as the model wrote them, be they the text of JSON or the JSON itself. One call or a
list of them, a call without an id or of an older form: all are read, and a surprise in one does not
cost the others.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.core.stream.deltas import Extra
from antiphon.dialects.json_input import NULL, UNREADABLE, read, string


class NativeCall(Struct, frozen=True):
    """A call, or a piece of one."""

    call_id: str | None
    name: str | None
    arguments: str


class _Function(Struct):
    name: Any = None
    arguments: Raw = NULL


class _Call(Struct):
    id: Any = None
    function: _Function | None = None
    name: Any = None
    parameters: Raw = NULL


_read_list = msgspec.json.Decoder(list[Raw]).decode
_read_call = msgspec.json.Decoder(_Call).decode
_read_string = msgspec.json.Decoder(str).decode
_NOTHING = (b"", b"null")


def read_calls(raw: Raw) -> list[NativeCall | Extra]:
    """The calls in a field; what is none is only worth tracing."""
    data = bytes(raw)
    if data in _NOTHING:
        return []
    try:
        entries = [bytes(entry) for entry in _read_list(data)]
    except UNREADABLE:
        entries = [data]
    return [_read_entry(entry) for entry in entries]


def _read_entry(data: bytes) -> NativeCall | Extra:
    try:
        call = read(_read_call, data)
    except UNREADABLE:
        return Extra("tool_call", data.decode("utf-8", "replace"))
    # Without a function it is of the first version of Cohere's format.
    function = call.function or _Function(call.name, call.parameters)
    return NativeCall(string(call.id), string(function.name), _text(bytes(function.arguments)))


def _text(data: bytes) -> str:
    """Arguments are JSON text; some servers send the JSON itself."""
    if data in _NOTHING:
        return ""
    try:
        return read(_read_string, data)
    except UNREADABLE:
        return data.decode("utf-8", "replace")
