"""Encoding of large documents in steps."""

from __future__ import annotations

import json

import msgspec

from antiphon.dialects.json_output import encode_in_steps


def test_a_large_document_is_encoded_as_a_small_one_is() -> None:
    long = 'é😀"\\\n' * 10_000
    document = {"a": [1, None, {"b": long}, [], {}], "c": (), "d": long, "e": 1.5, "é": True}
    encoded = encode_in_steps(document)
    assert encoded == msgspec.json.encode(document)
    assert json.loads(encoded) == {**document, "c": []}
    assert encode_in_steps({}) == b"{}"
