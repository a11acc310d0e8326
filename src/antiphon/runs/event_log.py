"""Event log: the events of one response, numbered and encoded once, for any number of readers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import msgspec

from antiphon.store.run_log import LoggedBatch
from antiphon.wire.events import TERMINAL_TYPES, Failed
from antiphon.wire.sse import SSEEncoder

JOINED_BYTES = 64 * 1024

# A quote inside of a JSON string is escaped, so that this never matches text of a client or model.
_OBFUSCATION = re.compile(rb',"obfuscation":"[^"]*"')


class EventLog(SSEEncoder):
    """Encoder that keeps what it has encoded. Readers see the first `visible` batches."""

    def __init__(self) -> None:
        self.batches: list[LoggedBatch] = []
        self.visible = 0
        self.has_ended = False
        """Whether the terminal event is in the log."""
        self.has_failed = False
        self.is_closed = False
        """Whether nothing more will be visible, whatever is missing."""
        self.is_finishing = False
        """Whether the terminal event is being stored."""
        self._waiting: list[asyncio.Future[None]] = []

    def feed(self, events: Sequence[msgspec.Struct]) -> bytes:
        frames = self.add(events)
        self.show()
        return frames

    def add(self, events: Sequence[msgspec.Struct]) -> bytes:
        """Number, encode and keep a batch, without showing it to readers."""
        first = self.sequence_number
        frames = super().feed(events)
        self.batches.append(LoggedBatch(first, self.sequence_number - 1, frames))
        self.has_ended = type(events[-1]) in TERMINAL_TYPES
        self.has_failed = type(events[-1]) is Failed
        return frames

    def show(self, count: int | None = None) -> None:
        """Let readers see the first batches, or all of them."""
        self.visible = len(self.batches) if count is None else count
        self._wake()

    def close(self) -> None:
        self.is_closed = True
        self._wake()

    async def wait(self) -> None:
        """Wait until more is visible, or the log is closed."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)


def join_batches(batches: Sequence[LoggedBatch]) -> list[LoggedBatch]:
    """Join consecutive batches, to as few as have `JOINED_BYTES` each: a row costs a store more
    than its bytes do."""
    joined: list[LoggedBatch] = []
    frames: list[bytes] = []
    first_seq = size = 0
    for number, batch in enumerate(batches):
        if not frames:
            first_seq, size = batch.first_seq, 0
        frames.append(batch.frames)
        size += len(batch.frames)
        if size >= JOINED_BYTES or number == len(batches) - 1:
            joined.append(LoggedBatch(first_seq, batch.last_seq, b"".join(frames)))
            frames.clear()
    return joined


def frames_after(batch: LoggedBatch, after: int) -> bytes:
    """Return the frames of a batch whose numbers are greater than `after`."""
    if after < batch.first_seq:
        return batch.frames
    frames = batch.frames.split(b"\n\n")[after - batch.first_seq + 1 :]
    return b"\n\n".join(frames)


def without_obfuscation(frames: bytes) -> bytes:
    """Remove the random padding of delta events."""
    return _OBFUSCATION.sub(b"", frames) if b'"obfuscation"' in frames else frames
