"""Runs of stored responses: who runs them, and the log of the events that they have sent.

A run belongs to the process that holds it, and each process has one lease for all its runs. A
fencing token is given out with each change of the holder: a process with an older one is refused
(docs/adr/0050-storage-of-runs.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import LeaseLost, StoreError
from antiphon.store.turn import UNFINISHED as UNFINISHED
from antiphon.store.turn import Turn, encode_response_object

FIRST_TOKEN = 1
"""Fencing token of a run whose holder has not changed."""
BEFORE_FIRST = -1
"""Sequence number before that of the first event."""
PAGE_BATCHES = 64
"""Maximum number of batches in one `EventPage`."""
LATER_S = 0.2
"""How long `begin_later` waits for the end of a short response, and for other beginnings."""
POLL_S = 0.25
"""How often a tail asks a store that cannot wake it."""


class LoggedBatch(NamedTuple):
    """Consecutive events of a response as encoded SSE frames, in order."""

    first_seq: int
    last_seq: int
    frames: bytes


class RunStart(Struct, frozen=True, kw_only=True):
    """How a response is run."""

    holder: str | None
    """Random id of the process that runs it; None: queued, and not claimed yet."""
    is_background: bool = False
    is_streamed: bool = False
    """Whether its event log can be read; it is kept after its end for a while."""
    request: bytes = b""
    """What another process needs to run it, for queued responses."""


class ClaimedRun(NamedTuple):
    """A run that its new holder must bring to an end."""

    turn: Turn
    start: RunStart
    token: int
    last_seq: int
    """Sequence number of the last event in its log; `BEFORE_FIRST` if there is none."""
    is_cancel_requested: bool


class EventPage(NamedTuple):
    """Part of an event log, and the status at the same moment.

    If the status is terminal, the log is complete up to `last_seq`.
    """

    status: str
    last_seq: int
    """Sequence number of the last event in the log."""
    batches: tuple[LoggedBatch, ...]
    """The oldest batches with events after the requested number, at most `PAGE_BATCHES`."""


class RenewedRuns(NamedTuple):
    """What was requested of the runs of one holder by other processes."""

    cancelled: tuple[str, ...]
    """Response ids of its runs to cancel; repeated until they have ended."""
    deleted: tuple[str, ...]
    """Response ids of its runs whose response was deleted since the last renewal."""


class EventWatch(Protocol):
    """Tells when the log of a response may have grown since the last time."""

    async def wait(self) -> None:
        """Return when there may be events; at the latest when it is time to look for them."""

    def close(self) -> None:
        """End it."""


class PollWatch:
    """An `EventWatch` that only waits."""

    async def wait(self) -> None:
        await asyncio.sleep(POLL_S)

    def close(self) -> None:
        return


class RunStore(Protocol):
    """Runs by response id; raises `StoreError`.

    Renew the lease of a holder before its first run begins, and more often than it expires.
    """

    async def begin(self, turn: Turn, start: RunStart) -> int:
        """Insert an unfinished turn and its run; return the fencing token. Durable on return."""

    def begin_later(self, turn: Turn, start: RunStart) -> None:
        """Insert them soon, with `FIRST_TOKEN`; not at all if `finish` comes before."""

    async def claim(
        self, holder: str, limit: int, *, response_id: str | None = None
    ) -> list[ClaimedRun]:
        """Make queued responses runs of this holder: of each client in turn, beginning with the one
        that was served longest ago, and of one client the oldest first. Or only one of them."""

    async def claim_expired(self, holder: str, limit: int) -> list[ClaimedRun]:
        """Make runs whose holder's lease has expired runs of this holder, which ends them."""

    async def append(self, response_id: str, token: int, batches: Sequence[LoggedBatch]) -> None:
        """Append to the log; durable on return. Raises `LeaseLost` for an old token, and for a
        response that was deleted or has ended."""

    async def finish(
        self,
        turn: Turn,
        token: int,
        batches: Sequence[LoggedBatch] = (),
        *,
        conversation_id: str | None = None,
    ) -> None:
        """Save the turn with its terminal status, append the last batches, and add its input and
        output to its conversation, if that still exists and the turn has output: all of it or
        nothing.

        Raises `LeaseLost` as `append` does. After `StoreRefused` the run has not ended: finish it
        with a smaller turn, or delete the response.
        """

    async def read_events(
        self, response_id: str, after: int, *, client: str = ""
    ) -> EventPage | None:
        """Return the events after a sequence number; None if there is no such response, if it is
        not streamed, or if its log is not kept any more."""

    async def renew(self, holder: str, lease_s: float) -> RenewedRuns:
        """Extend the lease of a holder; zero seconds end it. Returns what others have requested."""

    def watch(self, response_id: str) -> EventWatch:
        """Watch the log of a response that another process may write."""

    async def request_cancel(self, response_id: str, *, client: str = "") -> str | None:
        """Ask the holder of a run to cancel it; return the status of the response, None if there is
        no such response. A queued run has no holder: claim it, and finish it."""


def check_order(
    response_id: str, last_seq: int, batches: Sequence[LoggedBatch], path: object
) -> int:
    """Return the last sequence number after an append; raises if a number is left out or given
    twice."""
    for batch in batches:
        if batch.first_seq != last_seq + 1 or batch.last_seq < batch.first_seq:
            raise StoreError(
                f"{path}: events {batch.first_seq} to {batch.last_seq} of response '{response_id}'"
                f" do not follow event {last_seq}."
            )
        last_seq = batch.last_seq
    return last_seq


def check_token(response_id: str, token: int, current: int | None) -> None:
    """Raise `LeaseLost` if a run has another fencing token, or does not exist."""
    if token != current:
        raise LeaseLost(response_id)


def with_status(turn: Turn, status: str) -> Turn:
    """Return an unfinished turn whose status, also in its response object, is another one."""
    response = {**turn.response, "status": status}
    return replace(turn, status=status, encoded=encode_response_object(response, turn.output))


BeginRun: TypeAlias = Callable[[Turn, RunStart], Coroutine[Any, Any, int]]


class LaterRuns:
    """Runs of `RunStore.begin_later`: written together, by `begin`, unless they end before."""

    def __init__(self, begin: BeginRun, later_s: float = LATER_S) -> None:
        self._begin = begin
        self._later_s = later_s
        self._waiting: dict[str, tuple[Turn, RunStart]] = {}
        """Runs that are not written yet, by response id."""
        self._writing: dict[str, asyncio.Task[int]] = {}
        """The writes that have not succeeded: nothing is kept of the others."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, turn: Turn, start: RunStart) -> None:
        self._waiting[turn.id] = turn, start
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._later_s, self._begin_all)

    async def begin_now(self, response_id: str) -> None:
        """Write a run, if it is one of these, without further delay. It is written even if the
        caller is cancelled: its end waits for the same write."""
        if response_id in self._waiting:
            self._start_writing(response_id)
        if (writing := self._writing.get(response_id)) is not None:
            with suppress(StoreError):
                await asyncio.shield(writing)

    async def end(self, response_id: str) -> bool | None:
        """Return whether a run was written when it began, None if that is not known; it is no
        longer due to be written if it was not."""
        if self._waiting.pop(response_id, None) is not None:
            return False
        writing = self._writing.pop(response_id, None)
        if writing is None:
            return True
        try:
            await writing
        except StoreError:  # it may have been written all the same
            return None
        return True

    async def close(self) -> None:
        """Stop the timer, and wait for the writes that are going on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await asyncio.gather(*self._writing.values(), return_exceptions=True)

    def _begin_all(self) -> None:
        """Write every run that has not ended, in one transaction."""
        self._timer = None
        for response_id in [*self._waiting]:
            self._start_writing(response_id)

    def _start_writing(self, response_id: str) -> None:
        turn, start = self._waiting.pop(response_id)
        writing = asyncio.create_task(self._begin(turn, start))
        self._writing[response_id] = writing
        writing.add_done_callback(partial(self._forget_written, response_id))

    def _forget_written(self, response_id: str, writing: asyncio.Task[int]) -> None:
        if not writing.cancelled() and writing.exception() is None:
            self._writing.pop(response_id, None)
