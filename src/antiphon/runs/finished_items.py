"""Output of a response that has not ended: the items whose end is in its event log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable

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


async def read_batches(
    runs: RunStore, response_id: str, client: str
) -> AsyncGenerator[LoggedBatch, None]:
    """Yield the batches of a log in the store; none if there is no log."""
    after = BEFORE_FIRST
    while (page := await runs.read_events(response_id, after, client=client)) is not None:
        if not page.batches:
            return
        for batch in page.batches:
            yield batch
        after = page.batches[-1].last_seq


async def load_finished_items(runs: RunStore, response_id: str, client: str) -> list[Document]:
    """Return the finished items of a response whose log is in the store."""
    batches = read_batches(runs, response_id, client)
    return [item async for batch in batches for item in finished_items([batch])]
