"""Trace rows: chunks of a stream, sums of losses, and their JSON."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.store.trace.rows import TraceFinish, TraceLoss, TraceRow, TraceStream, decode_row
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
