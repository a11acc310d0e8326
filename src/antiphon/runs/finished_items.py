"""Output of a response that has not ended: the items whose end is in its event log."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from antiphon.store.run_log import BEFORE_FIRST, LoggedBatch, RunStore
from antiphon.wire.items import Document

# A line break inside of a JSON string is escaped, so that this never matches text of a model.
_ITEM_DONE = b"event: response.output_item.done\ndata: "


def finished_items(batches: Iterable[LoggedBatch]) -> list[Document]:
    """Return the output items that were finished in these batches, as their events have them."""
    return [
        msgspec.json.decode(frame.removeprefix(_ITEM_DONE))["item"]
        for batch in batches
        if _ITEM_DONE in batch.frames
        for frame in batch.frames.split(b"\n\n")
        if frame.startswith(_ITEM_DONE)
    ]


async def load_finished_items(runs: RunStore, response_id: str, client: str) -> list[Document]:
    """Return the finished items of a response whose log is in the store; none without a log."""
    items: list[Document] = []
    after = BEFORE_FIRST
    while (page := await runs.read_events(response_id, after, client=client)) is not None:
        if not page.batches:
            break
        items += finished_items(page.batches)
        after = page.batches[-1].last_seq
    return items
