"""Tool calls as JSON: `{"id", "function": {"name", "arguments"}}`, or close to it.

Arguments keep the model's bytes, whether they are a JSON string or the JSON value itself. A single
call or a list, a call without an id or of an older version: all are decoded, and an unexpected
entry does not affect the others.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.core.deltas import Extra
from antiphon.dialects.json_input import NULL, UNREADABLE, decode_lenient, nonempty_string


class NativeCall(Struct, frozen=True):
    """A tool call, or a fragment of one."""

    call_id: str | None
    name: str | None
    arguments: str


class _NativeFunction(Struct):
    name: Any = None
    arguments: Raw = NULL


class _NativeCallEntry(Struct):
    id: Any = None
    function: _NativeFunction | None = None
    name: Any = None
    parameters: Raw = NULL


_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_entry = msgspec.json.Decoder(_NativeCallEntry).decode
_decode_string = msgspec.json.Decoder(str).decode
_ABSENT = (b"", b"null")


def read_calls(raw: Raw) -> list[NativeCall | Extra]:
    """The calls in a field; an entry that is not a call becomes an `Extra`."""
    data = bytes(raw)
    if data in _ABSENT:
        return []
    try:
        entries = [bytes(entry) for entry in _decode_list(data)]
    except UNREADABLE:
        entries = [data]
    return [_read_entry(entry) for entry in entries]


def _read_entry(data: bytes) -> NativeCall | Extra:
    try:
        call = decode_lenient(_decode_entry, data)
    except UNREADABLE:
        return Extra("tool_call", data.decode("utf-8", "replace"))
    # Cohere's v1 format has no "function": {"name": "f", "parameters": {…}}
    function = call.function or _NativeFunction(call.name, call.parameters)
    return NativeCall(
        nonempty_string(call.id),
        nonempty_string(function.name),
        _read_arguments(bytes(function.arguments)),
    )


def _read_arguments(data: bytes) -> str:
    """Arguments as JSON text: `"{\\"a\\":1}"`, or from some servers `{"a":1}` itself."""
    if data in _ABSENT:
        return ""
    try:
        return decode_lenient(_decode_string, data)
    except UNREADABLE:
        return data.decode("utf-8", "replace")
