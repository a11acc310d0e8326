"""What only strict readers reject is repair_json; everything else stays what it was."""

from __future__ import annotations

import json

import msgspec
import pytest

from antiphon.dialects.lenient_json import repair_json


@pytest.mark.parametrize(
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
def test_a_document_that_strict_readers_reject_is_mended(data: bytes, document: object) -> None:
    assert msgspec.json.decode(repair_json(data)) == document


@pytest.mark.parametrize("data", [b"", b"{", b"<html>", b"[" * 100_000, b"\xff"])
def test_what_is_no_document_stays_as_it_is(data: bytes) -> None:
    assert repair_json(data) == data


def test_a_good_document_means_the_same() -> None:
    data = '{"a":[1,2.5,true,null,"é\\n"]}'.encode()
    assert json.loads(repair_json(data)) == json.loads(data)
