"""Payloads of traced streams: counts, redaction and truncation."""

from __future__ import annotations

from antiphon.store.redact import Redactor
from antiphon.store.trace.trace_store import (
    add_counts,
    drop_payload,
    redact_and_truncate,
    truncate_blob,
)
from tests.support.tables import table
from tests.support.traces import CANARY, stream


def test_counts_describe_the_whole_payload() -> None:
    counted = add_counts(stream("q1", b"12345", offsets=[(0, 100), (3, 101)]))
    assert (counted.size, counted.chunks, counted.blob) == (5, 2, b"12345")


def test_a_dropped_payload_leaves_its_counts() -> None:
    dropped = drop_payload(stream("q1", b"12345", offsets=[(0, 100), (3, 101)]))
    assert (dropped.size, dropped.chunks, dropped.blob, dropped.offsets) == (5, 2, b"", ())


def test_offsets_beyond_the_truncated_payload_are_dropped() -> None:
    blob = b"data: 1\n\ndata: 2\n\n"
    stored = redact_and_truncate(stream("q1", blob, offsets=[(0, 1), (9, 2)]), Redactor(), 10)
    assert (stored.blob, stored.offsets, stored.truncated) == (b"data: 1\n\n", [(0, 1)], True)


def test_a_payload_within_the_limit_is_not_truncated() -> None:
    stored = redact_and_truncate(stream("q1", b"data: 1\n\n"), Redactor(), 9)
    assert (stored.blob, stored.truncated) == (b"data: 1\n\n", False)


@table(
    ("text", "limit", "left"),
    [
        ("data: 1\n\ndata: 2\n\n", 18, "data: 1\n\ndata: 2\n\n"),
        ("data: 1\n\ndata: 2\n\n", 17, "data: 1\n\n"),
        ("data: 1\r\n\r\ndata: 2\r\n\r\n", 21, "data: 1\r\n\r\n"),
        ("data: 1\r\rdata: 2", 12, "data: 1\r\r"),
        ("data: one long frame", 8, "data: on"),
        ("aé", 2, "a"),
        ("a😀", 4, "a"),
        ("a😀", 3, "a"),
        ("a😀b", 5, "a😀"),
        ("anything", 0, ""),
    ],
)
def test_truncation_keeps_whole_frames_or_at_least_whole_characters(
    text: str, limit: int, left: str
) -> None:
    assert truncate_blob(text.encode(), limit).decode() == left


def test_bytes_that_are_not_utf8_are_truncated_close_to_the_limit() -> None:
    assert len(truncate_blob(b"\x80" * 100, 50)) >= 47


def test_a_secret_at_the_end_of_the_part_read_is_not_stored_in_part() -> None:
    filler = (b"api_key=" + b"k" * 1000 + b" ") * 400  # becomes so short that all of it would fit
    for looked_at in range(132_000, 133_600, 10):
        blob = filler[:looked_at] + b" " + CANARY.encode() + filler
        stored = redact_and_truncate(stream("q1", blob), Redactor([CANARY]), 100_000)
        assert b"can" not in stored.blob
        assert b"kk" not in stored.blob
        assert stored.truncated
