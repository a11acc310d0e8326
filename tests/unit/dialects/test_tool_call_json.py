"""Tool calls are decoded in every form seen so far, with the bytes of their arguments."""

from __future__ import annotations

import pytest
from msgspec import Raw

from antiphon.core.deltas import Extra
from antiphon.dialects.tool_call_json import NativeCall, read_calls
from tests.support.tables import table


@pytest.mark.parametrize("raw", [b"null", b"[]", b""])
def test_an_absent_field_has_no_calls(raw: bytes) -> None:
    assert read_calls(Raw(raw)) == []


@table(
    ("arguments", "text"),
    [
        (b'{"x": 1e2,  "y":"\\u00e9"}', '{"x": 1e2,  "y":"\\u00e9"}'),
        (b'"{\\"x\\": 1}"', '{"x": 1}'),
        (b'""', ""),
        (b"null", ""),
        (b"123456789012345678901234567890", "123456789012345678901234567890"),
        (b'{"x":"\xff"}', '{"x":"\ufffd"}'),
        (b'"\xff"', "\ufffd"),
    ],
)
def test_arguments_keep_their_bytes(arguments: bytes, text: str) -> None:
    raw = Raw(b'[{"id":"a","function":{"name":"look","arguments":%b}}]' % arguments)
    assert read_calls(raw) == [NativeCall("a", "look", text)]


def test_a_single_call_need_not_be_in_a_list() -> None:
    assert read_calls(Raw(b'{"function":{"name":"look"}}')) == [NativeCall(None, "look", "")]


def test_a_call_of_the_older_version_has_parameters() -> None:
    raw = Raw(b'[{"name":"look","parameters":{"x":1}}]')
    assert read_calls(raw) == [NativeCall(None, "look", '{"x":1}')]


def test_an_invalid_id_or_name_is_none() -> None:
    raw = Raw(b'[{"id":7,"function":{"name":["a"],"arguments":{}}}]')
    assert read_calls(raw) == [NativeCall(None, None, "{}")]


def test_an_unexpected_entry_does_not_affect_the_others() -> None:
    raw = Raw(b'[1,{"function":"look"},{"id":"a","function":{"name":"look"}}]')
    assert read_calls(raw) == [
        Extra("tool_call", "1"),
        Extra("tool_call", '{"function":"look"}'),
        NativeCall("a", "look", ""),
    ]
    assert read_calls(Raw(b'"look"')) == [Extra("tool_call", '"look"')]
