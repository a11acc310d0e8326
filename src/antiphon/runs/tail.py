"""Tails: readers of an event log from any sequence number on, in this process or another one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from antiphon.core.diagnostic import Diagnostic
from antiphon.dialects.client_dialect import EventBatch
from antiphon.runs.event_log import EventLog, batch_after, join_batches
from antiphon.runs.live_run import Reader
from antiphon.runs.stored_log import decode_batch
from antiphon.store.run_log import UNFINISHED, EventPage, EventWatch


class Tail:
    """What `LogTail` and `StoreTail` share; implements `EventSource`."""

    def __init__(self, after: int) -> None:
        """`after` is the number of the last event that the reader has; -1 for none."""
        self.after = after

    def add_diagnostic(self, diagnostic: Diagnostic) -> None:
        """Drop it: what the run sends to another reader is no fact of the run."""

    async def follow(self, reader: Reader) -> None:
        raise NotImplementedError

    async def leave(self) -> None:
        """Do nothing: a run does not depend on its tails."""

    async def _send(self, reader: Reader, batch: EventBatch, is_last: bool) -> None:
        unread = batch_after(batch, self.after)
        self.after = batch.last
        await reader.send(unread, is_last)


class LogTail(Tail):
    """Reads the log of a run in this process."""

    def __init__(self, log: EventLog, after: int) -> None:
        super().__init__(after)
        self._log = log

    async def follow(self, reader: Reader) -> None:
        log = self._log
        sent = 0
        while True:
            while sent < log.visible:
                batches = log.batches[sent : log.visible]
                sent = log.visible
                has_ended = log.has_ended and sent == len(log.batches)
                for batch in join_batches(batches):
                    if batch.last > self.after:
                        is_last = has_ended and batch.last == batches[-1].last
                        await self._send(reader, batch, is_last)
                if has_ended:
                    return
            if log.is_closed:
                raise ConnectionAbortedError("The response was deleted, or its run was taken over.")
            await log.wait()


class StoreTail(Tail):
    """Reads the log in the store: of a run that has ended, or of one in another process."""

    def __init__(
        self,
        read: Callable[[int], Awaitable[EventPage | None]],
        page: EventPage,
        after: int,
        *,
        watch: Callable[[], EventWatch],
    ) -> None:
        """`read` returns the events after a number; `page` is what it has returned first."""
        super().__init__(after)
        self._read = read
        self._page = page
        self._watch = watch

    async def follow(self, reader: Reader) -> None:
        watch = self._watch()  # before the next reading, so that no event is missed
        try:
            await self._follow(reader, watch)
        finally:
            watch.close()

    async def _follow(self, reader: Reader, watch: EventWatch) -> None:
        page: EventPage | None = self._page
        while page is not None:
            for batch in page.batches:
                is_last = page.status not in UNFINISHED and batch.last_seq == page.last_seq
                await self._send(reader, decode_batch(batch), is_last)
            if page.status not in UNFINISHED and self.after >= page.last_seq:
                return
            if not page.batches:
                await watch.wait()
            page = await self._read(self.after)
        raise ConnectionAbortedError("The response was deleted.")
