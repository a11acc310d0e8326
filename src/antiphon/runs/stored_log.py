"""Event logs in the store, which has them as encoded server-sent events.

This is the only place where the gateway reads its own bytes: for a response that another process
generates or has generated, and for one whose process is gone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec

from antiphon.core.events import HostedToolEvent
from antiphon.core.items import Document
from antiphon.dialects.client_dialect import EventBatch
from antiphon.dialects.responses.render import render_batch
from antiphon.runs.event_log import finished_items
from antiphon.store.run_log import BEFORE_FIRST, LoggedBatch, RunStore

_DATA = b"\ndata: "


def encode_batch(batch: EventBatch) -> LoggedBatch:
    """Make what the store keeps of a batch."""
    return LoggedBatch(batch.first, batch.last, render_batch(batch))


def decode_batch(stored: LoggedBatch) -> EventBatch:
    """Read a batch of the store. Its events have their type in a field; rendered, they are the same
    bytes again."""
    # A line break inside a JSON string is escaped, so that blank lines are the borders of frames.
    events = [_decode_frame(frame) for frame in stored.frames.split(b"\n\n")[:-1]]
    return EventBatch(stored.first_seq, events, stored.frames)


def _decode_frame(frame: bytes) -> HostedToolEvent:
    fields: Document = msgspec.json.decode(frame[frame.index(_DATA) + len(_DATA) :])
    del fields["sequence_number"]
    return HostedToolEvent(fields.pop("type"), fields)


async def read_stored_log(
    runs: RunStore, response_id: str, client: str
) -> AsyncGenerator[EventBatch, None]:
    """Yield the batches of a log in the store; none if there is no log."""
    after = BEFORE_FIRST
    while (page := await runs.read_events(response_id, after, client=client)) is not None:
        if not page.batches:
            return
        for batch in page.batches:
            yield decode_batch(batch)
        after = page.batches[-1].last_seq


async def load_finished_items(runs: RunStore, response_id: str, client: str) -> list[Document]:
    """Return the finished items of a response whose log is in the store."""
    batches = read_stored_log(runs, response_id, client)
    return [item async for batch in batches for item in finished_items([batch])]
