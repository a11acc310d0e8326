"""Trace rows: chunks of a stream, sums of losses, and their JSON."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from antiphon.store.trace.rows import (
    TraceAttempt,
    TraceFinish,
    TraceLoss,
    TraceRow,
    TraceStream,
    TraceUsage,
    collect_texts,
    decode_row,
    replace_texts,
)
from tests.support.tables import table
from tests.support.traces import finish, request, stream


def test_a_stream_is_split_at_its_offsets() -> None:
    row = stream("q1", b"abcdef", offsets=[(0, 10), (2, 11), (2, 12)])
    assert row.split_chunks() == [(10, b"ab"), (11, b""), (12, b"cdef")]
    assert stream("q1", b"abc").split_chunks() == []


def test_losses_are_added_up() -> None:
    loss = TraceLoss(low=1, failed=2) + TraceLoss(low=3, high=4)
    assert loss == TraceLoss(low=4, high=4, failed=2)
    assert loss.total == 10


@pytest.mark.parametrize("row", [request("q1", stream=True), finish("q1"), TraceLoss(high=3)])
def test_a_row_is_decoded_from_its_own_json(row: TraceRow) -> None:
    assert decode_row(msgspec.json.encode(row)) == row


def test_a_row_of_an_unknown_kind_is_not_decoded() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_row(b'{"row": "unknown", "request_id": "q1"}')


def test_default_values_are_not_stored() -> None:
    assert b"upstream_latency_ms" not in msgspec.json.encode(
        TraceFinish(request_id="q1", status="completed", duration_ms=1)
    )
    assert b"truncated" not in msgspec.json.encode(TraceStream(request_id="q1", kind="raw"))


def filled(kind: type[TraceRow]) -> TraceRow:
    """A row with a text in every field that can have one, and a payload if it can."""
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.type in (str, str | None):
            values[field.name] = f"secret {field.name}"
        elif field.required:
            values[field.name] = 1 if field.type is int else "raw"
    return kind(**values)


@table("kind", get_args(TraceRow))
def test_every_text_of_a_row_is_collected_and_replaced(kind: type[TraceRow]) -> None:
    row = filled(kind)
    assert b"secret" in msgspec.json.encode(row)
    assert collect_texts([row]) == {text for text in texts_in(row) if "secret" in text}
    assert b"secret" not in msgspec.json.encode(replace_texts(row, lambda text: "public"))


def texts_in(row: TraceRow) -> set[str]:
    document = msgspec.json.decode(msgspec.json.encode(row))
    return {value for value in document.values() if isinstance(value, str)}


def test_a_text_that_rows_share_is_collected_once_and_a_missing_one_not_at_all() -> None:
    attempt = TraceAttempt(request_id="q1", number=1, provider="p", model="")
    assert collect_texts([TraceUsage(request_id="q1"), attempt]) == {"q1", "p", ""}
    changed = msgspec.structs.replace(attempt, request_id="Q1", provider="P")
    assert replace_texts(attempt, str.upper) == changed
