"""Durable event log of a background response: readers see only what the store has.

Batches are written as soon as the store is free, at most every `FLUSH_S` seconds. The last ones are
written together with the terminal status of the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from antiphon.core.events import TERMINAL_TYPES, Event
from antiphon.dialects.client_dialect import EventBatch
from antiphon.dialects.responses.render import with_frames
from antiphon.errors import LeaseLost, StoreError, StoreRefused
from antiphon.runs.event_log import EventLog, join_batches
from antiphon.runs.stored_log import encode_batch
from antiphon.stages.pipeline import failed, terminal
from antiphon.store.run_log import LoggedBatch, RunStore
from antiphon.store.turn import Turn

FIRST_FLUSH_S = 0.01
"""How long the first events wait for others: a short response is written once, in its end."""
FLUSH_S = 0.02
RETRY_S = 1.0


class DurableLog(EventLog):
    """Log of a run that this process holds."""

    def __init__(
        self,
        runs: RunStore,
        response_id: str,
        token: int,
        *,
        is_streamed: bool,
        on_lost: Callable[[], object],
        earlier: Sequence[EventBatch] = (),
        retry_s: float = RETRY_S,
    ) -> None:
        """`on_lost` is called when the process does not hold the run any more. `earlier` are the
        batches that the store has already."""
        super().__init__(earlier=earlier)
        self._runs = runs
        self._response_id = response_id
        self._token = token
        self._retry_s = retry_s
        self._is_streamed = is_streamed
        """Whether the events can be read: else only the end is written."""
        self._on_lost = on_lost
        self.is_finished = False
        """Whether the response has ended, or is not this process's any more."""
        self._flushing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, events: Sequence[Event]) -> EventBatch:
        if self.is_finished:  # these are the events that were written with the turn
            return self.batches[-1]
        if type(events[-1]) in TERMINAL_TYPES:  # `finish` could not store it: another one follows
            return EventBatch(self.next_number, events)
        batch = self.add(events)
        if self._is_streamed and self._flushing is None and self._timer is None:
            self._flush_after(FIRST_FLUSH_S)
        return batch

    def _flush_after(self, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(delay_s, self._start_flush)

    def _start_flush(self) -> None:
        self._timer = None
        self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        """Write the batches that the store does not have; later ones are written the next time."""
        count = len(self.batches)
        delay_s = FLUSH_S
        try:
            await self._runs.append(self._response_id, self._token, self._pending())
        except LeaseLost:
            self._lose()
            return
        except Exception:  # the store is away; or a bug, which the end meets again and reports
            delay_s = self._retry_s
        else:
            self.show(count)
        self._flushing = None
        if self.visible < len(self.batches) and not self.is_finishing:
            self._flush_after(delay_s)

    async def finish(self, turn: Turn, events: list[Event]) -> list[Event]:
        """Write the turn, its terminal status and the last events at once; return these events."""
        await self.settle()
        self.add(events)
        while True:
            try:
                await self._write_end(turn)
            except LeaseLost:
                self._lose()
                return events
            except StoreRefused as error:
                turn, events = _too_large(turn, events, error)
                self.replace_last(events)
            except StoreError:  # the response is paid for: it waits until it can be stored
                await asyncio.sleep(self._retry_s)
            else:
                break
        self.is_finished = True
        self.show()
        return events

    async def settle(self) -> None:
        """Write nothing more from now on but the end, and wait for the batches on their way."""
        self.is_finishing = True
        if self._timer is not None:
            self._timer.cancel()
        if self._flushing is not None:
            await asyncio.wait((self._flushing,))

    async def _write_end(self, turn: Turn) -> None:
        pending = self._pending() if self._is_streamed else ()
        conversation_id = turn.conversation_id
        await self._runs.finish(turn, self._token, pending, conversation_id=conversation_id)

    def _pending(self) -> list[LoggedBatch]:
        """Render the batches that the store does not have; readers use the same frames."""
        pending = [with_frames(batch) for batch in self.batches[self.visible :]]
        self.batches[self.visible :] = pending
        return [encode_batch(batch) for batch in join_batches(pending)]

    def _lose(self) -> None:
        self.is_finished = True
        self.close()
        self._on_lost()


def _too_large(turn: Turn, events: list[Event], error: StoreRefused) -> tuple[Turn, list[Event]]:
    """Make a failed response of one that cannot be stored, so that it ends all the same."""
    ending = terminal(events)
    if ending is None or not ending.response.output:
        raise error
    empty = replace(ending.response, output=())
    event = failed(empty, code="server_error", message=error.message)
    return turn.with_response(msgspec.to_builtins(event.response)), [event]
