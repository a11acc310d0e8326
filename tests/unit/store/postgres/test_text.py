"""Ids and names as PostgreSQL text."""

from __future__ import annotations

from antiphon.store.postgres.text import decode_text, encode_optional_text, encode_text
from tests.support.tables import table

TEXTS = ["", "resp_1", "a\x00b", "\x00", "\x01", "\x01\x02", "\x01\x01\x00\x01", "ключ", "me\n"]


@table("text", TEXTS)
def test_a_text_is_stored_without_nul_and_read_unchanged(text: str) -> None:
    stored = encode_text(text)
    assert "\x00" not in stored
    assert decode_text(stored) == text


def test_different_texts_are_stored_differently() -> None:
    assert len({encode_text(text) for text in TEXTS}) == len(TEXTS)


def test_a_long_text_is_replaced_by_its_hash() -> None:
    first, second = encode_text("x" * 5000 + "1"), encode_text("x" * 5000 + "2")
    assert first != second
    assert len(first) < 100
    assert decode_text(first) == first


def test_a_lone_surrogate_can_be_sent() -> None:
    assert encode_text("\ud800").encode() == b"?"
    assert encode_optional_text(None) is None
    assert encode_optional_text("a") == "a"
