"""Repair of JSON that strict parsers reject; other bytes stay unchanged."""

from __future__ import annotations

import json

import msgspec
import pytest

from antiphon.dialects.json_input import repair_json
from tests.support.tables import table


@table(
    ("data", "document"),
    [
        (b'{"a":"\\ud83d"}', {"a": "\ufffd"}),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "😀"}),
        (b'{"a":"\xf0\x9f"}', {"a": "\ufffd"}),
        (b'{"a":"x\ny"}', {"a": "x\ny"}),
        (b'{"a":NaN,"b":-Infinity}', {"a": None, "b": None}),
        (b'{"a":1e999,"b":1.5}', {"a": None, "b": 1.5}),
    ],
)
def test_a_document_that_strict_parsers_reject_is_repaired(data: bytes, document: object) -> None:
    assert msgspec.json.decode(repair_json(data)) == document


@pytest.mark.parametrize("data", [b"", b"{", b"<html>", b"[" * 100_000, b"\xff"])
def test_bytes_without_a_document_stay_unchanged(data: bytes) -> None:
    assert repair_json(data) == data


def test_a_valid_document_keeps_its_meaning() -> None:
    data = '{"a":[1,2.5,true,null,"é\\n"]}'.encode()
    assert json.loads(repair_json(data)) == json.loads(data)
