"""The event log: numbered and encoded once, readable from any number on."""

from __future__ import annotations

import asyncio

from antiphon.runs.event_log import (
    JOINED_BYTES,
    EventLog,
    frames_after,
    join_batches,
    without_obfuscation,
)
from antiphon.store.run_log import LoggedBatch
from antiphon.wire.events import Completed, Created, InProgress
from antiphon.wire.response import Response
from antiphon.wire.sse import SSEEncoder

RESPONSE = Response(id="resp_1", created_at=1, model="m")


def test_a_log_keeps_what_it_encodes() -> None:
    log = EventLog()
    frames = log.feed([Created(RESPONSE), InProgress(RESPONSE)])
    assert frames == SSEEncoder().feed([Created(RESPONSE), InProgress(RESPONSE)])
    assert (log.batches, log.visible) == ([LoggedBatch(0, 1, frames)], 1)
    assert not log.has_ended
    log.feed([Completed(RESPONSE)])
    assert [batch[:2] for batch in log.batches] == [(0, 1), (2, 2)]
    assert log.has_ended


def test_a_batch_is_cut_after_any_of_its_events() -> None:
    encoder = SSEEncoder()
    frames = [encoder.feed([InProgress(RESPONSE)]) for _ in range(7)][4:]
    batch = LoggedBatch(4, 6, b"".join(frames))
    assert frames_after(batch, -1) == frames_after(batch, 3) == batch.frames
    assert frames_after(batch, 4) == frames[1] + frames[2]
    assert frames_after(batch, 5) == frames[2]
    assert frames_after(batch, 6) == b""


def test_consecutive_batches_are_joined_up_to_a_size() -> None:
    large = b"x" * JOINED_BYTES
    batches = [LoggedBatch(n, n, frames) for n, frames in enumerate((b"a", b"b", large, b"c"), 4)]
    assert join_batches(batches) == [LoggedBatch(4, 6, b"ab" + large), LoggedBatch(7, 7, b"c")]
    assert join_batches(batches[:1]) == batches[:1]
    assert join_batches([]) == []


async def test_who_waits_is_woken_by_a_batch_and_by_the_end() -> None:
    log = EventLog()
    for act in (lambda: log.feed([Created(RESPONSE)]), log.close):
        waiting = [asyncio.ensure_future(log.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        act()
        await asyncio.wait(waiting)
    assert log.is_closed


def test_obfuscation_is_removed_from_events_and_not_from_text() -> None:
    frame = b'event: x\ndata: {"delta":",\\"obfuscation\\":\\"a\\"","obfuscation":"xyz","n":1}\n\n'
    expected = b'event: x\ndata: {"delta":",\\"obfuscation\\":\\"a\\"","n":1}\n\n'
    assert without_obfuscation(frame) == expected
    assert without_obfuscation(b"data: {}\n\n") == b"data: {}\n\n"
