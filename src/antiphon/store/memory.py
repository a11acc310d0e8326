"""In-memory store of turns and runs, bounded in number and bytes; lost when the process ends.

Turns are held as encoded bytes, so that the byte limit is exact and stored turns cannot be
modified. Eviction is LRU: the turn least recently saved or continued is removed first, with its
run and its event log.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from antiphon.store.chain import check_finished, follow_chain
from antiphon.store.item_references import ItemCollector, ItemLocation, locate_items
from antiphon.store.memory_conversations import MemoryConversations
from antiphon.store.run_log import (
    BEFORE_FIRST,
    FIRST_TOKEN,
    PAGE_BATCHES,
    UNFINISHED,
    ClaimedRun,
    EventPage,
    LoggedBatch,
    PollWatch,
    RenewedRuns,
    RunStart,
    check_order,
    check_token,
    with_status,
)
from antiphon.store.turn import Clock, StoreLimits, Turn, decode_turn, encode_turn
from antiphon.store.usage.memory import MemoryUsageTable
from antiphon.wire.items import Document

MAX_TURNS = 10_000
MAX_BYTES = 256 * 1024 * 1024
PURGE_EVERY_S = 60
_YIELD_EVERY = 64  # turns decoded before control returns to the event loop


class _StoredTurn(Struct):
    previous_response_id: str | None
    client: str
    expires_at: int | None
    body: bytes
    locations: dict[str, ItemLocation]
    """Locations of its items, by item id."""


class _StoredRun(Struct):
    start: RunStart
    status: str
    holder: str | None
    token: int = FIRST_TOKEN
    last_seq: int = BEFORE_FIRST
    batches: list[LoggedBatch] = []
    is_cancel_requested: bool = False
    log_expires_at: int | None = None
    """None: the run has not ended."""


class MemoryStore:
    """A `Store` in memory."""

    def __init__(self, *, now: Clock, limits: StoreLimits | None = None) -> None:
        limits = limits or StoreLimits()
        self._max_turns = MAX_TURNS if limits.max_turns is None else limits.max_turns
        self._max_bytes = MAX_BYTES if limits.max_bytes is None else limits.max_bytes
        self._limits = replace(limits, max_bytes=self._max_bytes)
        self._now = now
        self._entries: OrderedDict[str, _StoredTurn] = OrderedDict()
        self._turns_by_item: defaultdict[tuple[str, bool], dict[str, None]] = defaultdict(dict)
        """Response ids of the turns that hold an item, oldest first, by (item id, is_input)."""
        self._bytes = 0
        self._purged_at = now()
        self._runs = MemoryRuns(self, now, self._limits.log_ttl_s)
        self._conversations = MemoryConversations(
            now=now,
            limits=self._limits,
            max_conversations=self._max_turns,
            max_bytes=self._max_bytes,
            is_running=self._runs.is_running,
        )
        self.usage = MemoryUsageTable()

    @property
    def name(self) -> str:
        return "memory"

    @property
    def runs(self) -> MemoryRuns:
        return self._runs

    @property
    def conversations(self) -> MemoryConversations:
        return self._conversations

    async def open(self) -> None:
        pass

    async def check(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def save(self, turn: Turn, *, conversation_id: str | None = None) -> None:
        self.put(turn)
        if conversation_id is not None:
            self._conversations.put_turn(conversation_id, turn)

    def put(self, turn: Turn) -> None:
        body = encode_turn(turn, self._limits)
        now = self._now()
        self._purge(now)
        self._drop(turn.id)  # but not its run
        expires_at = self._limits.expiry(now) if turn.expires_at is None else turn.expires_at
        entry = _StoredTurn(
            turn.previous_response_id, turn.client, expires_at, body, locate_items(turn)
        )
        self._entries[turn.id] = entry
        self._bytes += len(body)
        for item_id, location in entry.locations.items():
            self._turns_by_item[item_id, location.is_input][turn.id] = None
        self._evict()

    async def load(self, response_id: str, *, client: str = "") -> Turn | None:
        return self.find(response_id, client)

    def find(self, response_id: str, client: str) -> Turn | None:
        entry = self._find(response_id, client)
        return None if entry is None else decode_turn(entry.body, entry.expires_at)

    def get(self, response_id: str) -> Turn:
        """Return a turn that exists, whoever owns it."""
        entry = self._entries[response_id]
        return decode_turn(entry.body, entry.expires_at)

    async def delete(self, response_id: str, *, client: str = "") -> bool:
        if self._find(response_id, client) is None:
            return self._runs.forget_later(response_id, client)
        self._remove(response_id)
        self._conversations.drop_locks(response_id)
        return True

    async def chain(self, response_id: str, *, client: str = "") -> list[Turn]:
        find = partial(self._find, client=client)
        links = follow_chain(response_id, find, self._limits.max_chain)
        self._renew(links)
        turns = []
        for number, entry in enumerate(links.values(), 1):
            turns.append(decode_turn(entry.body, entry.expires_at))
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
        check_finished(turns)
        return turns

    async def load_items(
        self, item_ids: Collection[str], *, client: str = ""
    ) -> dict[str, Document]:
        wanted: defaultdict[str, dict[str, ItemLocation]] = defaultdict(dict)
        for item_id in item_ids:
            if (response_id := self._find_turn_of_item(item_id, client)) is not None:
                wanted[response_id][item_id] = self._entries[response_id].locations[item_id]
        bodies = [(self._entries[id].body, locations) for id, locations in wanted.items()]
        collector = ItemCollector()
        for number, (body, locations) in enumerate(bodies, 1):
            collector.add(body, locations)
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
        return collector.items

    def _find_turn_of_item(self, item_id: str, client: str) -> str | None:
        """Return the turn to take an item from: output before input, newer before older."""
        for is_input in (False, True):
            for response_id in reversed(self._turns_by_item.get((item_id, is_input), {})):
                if self._find(response_id, client) is not None:
                    return response_id
        return None

    def _find(self, response_id: str, client: str) -> _StoredTurn | None:
        entry = self._entries.get(response_id)
        if entry is None or entry.client not in ("", client) or _is_expired(entry, self._now()):
            return None
        return entry

    def _renew(self, response_ids: Iterable[str]) -> None:
        now = self._now()
        for response_id in response_ids:
            self._entries.move_to_end(response_id)
            entry = self._entries[response_id]
            if self._limits.needs_renewal(entry.expires_at, now):
                entry.expires_at = self._limits.expiry(now)

    def _purge(self, now: int) -> None:
        if now - self._purged_at < PURGE_EVERY_S:
            return
        self._purged_at = now
        for response_id in [id for id, entry in self._entries.items() if _is_expired(entry, now)]:
            self._remove(response_id)
        self._runs.purge(now)

    def _evict(self) -> None:
        while len(self._entries) > self._max_turns or self._used() > self._max_bytes:
            self._remove(next(iter(self._entries)))

    def _used(self) -> int:
        return self._bytes + self._runs.bytes

    def _remove(self, response_id: str) -> None:
        """Remove a turn for good, with its run."""
        self._drop(response_id)
        self._runs.drop(response_id)

    def _drop(self, response_id: str) -> None:
        if entry := self._entries.pop(response_id, None):
            self._bytes -= len(entry.body)
            for item_id, location in entry.locations.items():
                turns = self._turns_by_item[item_id, location.is_input]
                del turns[response_id]
                if not turns:
                    del self._turns_by_item[item_id, location.is_input]


def _is_expired(entry: _StoredTurn, now: int) -> bool:
    return entry.expires_at is not None and entry.expires_at <= now


class MemoryRuns:
    """A `RunStore` in memory, for the turns of one store."""

    def __init__(self, store: MemoryStore, now: Clock, log_ttl_s: int) -> None:
        self.bytes = 0
        """Size of all event logs."""
        self._store = store
        self._now = now
        self._log_ttl_s = log_ttl_s
        self._runs: dict[str, _StoredRun] = {}
        self._later: dict[str, str] = {}
        """Owners of the responses of `begin_later`: nothing else is stored before they end."""
        self._queued: dict[str, None] = {}
        self._leases: dict[str, float] = {}
        self._deleted: defaultdict[str, list[str]] = defaultdict(list)

    async def begin(self, turn: Turn, start: RunStart) -> int:
        self._store.put(turn)
        self._runs[turn.id] = _StoredRun(start, turn.status, start.holder)
        if start.holder is None:
            self._queued[turn.id] = None
        else:
            self._store.conversations.take_locks(turn.id, start.holder)
        return FIRST_TOKEN

    def begin_later(self, turn: Turn, start: RunStart) -> None:
        self._later[turn.id] = turn.client

    async def claim(
        self, holder: str, limit: int, *, response_id: str | None = None
    ) -> list[ClaimedRun]:
        queued = [id for id in self._queued if response_id in (None, id)][:limit]
        for id in queued:
            del self._queued[id]
        return [self._take(id, holder) for id in queued]

    async def claim_expired(self, holder: str, limit: int) -> list[ClaimedRun]:
        expired = [
            id
            for id, run in self._runs.items()
            if run.holder is not None and not self.is_alive(run.holder)
        ]
        return [self._take(id, holder) for id in expired[:limit]]

    async def append(self, response_id: str, token: int, batches: Sequence[LoggedBatch]) -> None:
        self._append(self._require(response_id, token), response_id, batches)

    async def finish(
        self,
        turn: Turn,
        token: int,
        batches: Sequence[LoggedBatch] = (),
        *,
        conversation_id: str | None = None,
    ) -> None:
        if self._later.pop(turn.id, None) is None:
            run = self._require(turn.id, token)
            last_seq = check_order(turn.id, run.last_seq, batches, self._store.name)
            self._store.put(turn)
            self._end(run, turn, batches, keeps_log=run.start.is_streamed and last_seq >= 0)
        else:
            self._store.put(turn)
        if conversation_id is not None:
            self._store.conversations.put_turn(conversation_id, turn)

    async def read_events(
        self, response_id: str, after: int, *, client: str = ""
    ) -> EventPage | None:
        run = self._runs.get(response_id)
        if run is None or not run.start.is_streamed or self._is_log_expired(run, self._now()):
            return None
        if self._store.find(response_id, client) is None:
            return None
        batches = [batch for batch in run.batches if batch.last_seq > after][:PAGE_BATCHES]
        return EventPage(run.status, run.last_seq, tuple(batches))

    async def renew(self, holder: str, lease_s: float) -> RenewedRuns:
        self._leases[holder] = self._now() + lease_s
        cancelled = [
            id for id, run in self._runs.items() if run.holder == holder and run.is_cancel_requested
        ]
        return RenewedRuns(tuple(cancelled), tuple(self._deleted.pop(holder, ())))

    def watch(self, response_id: str) -> PollWatch:
        return PollWatch()

    async def request_cancel(self, response_id: str, *, client: str = "") -> str | None:
        turn = self._store.find(response_id, client)
        if turn is not None and turn.status in UNFINISHED and response_id in self._runs:
            self._runs[response_id].is_cancel_requested = True
        return None if turn is None else turn.status

    def is_alive(self, holder: str) -> bool:
        """Whether the lease of a holder is valid."""
        return self._leases.get(holder, 0) > self._now()

    def is_running(self, response_id: str, holder: str) -> bool:
        """Whether a response is queued, or the lease of its holder is valid."""
        return response_id in self._queued or self.is_alive(holder)

    def drop(self, response_id: str) -> None:
        """Forget the run of a response that is deleted."""
        if run := self._runs.pop(response_id, None):
            self._queued.pop(response_id, None)
            self.bytes -= sum(len(batch.frames) for batch in run.batches)
            if run.holder is not None:
                self._deleted[run.holder].append(response_id)

    def forget_later(self, response_id: str, client: str) -> bool:
        """Delete a response that is stored only at its end; False if there is none."""
        if self._later.get(response_id) not in ("", client):
            return False
        return self._later.pop(response_id, None) is not None

    def purge(self, now: int) -> None:
        """Forget logs that are kept no longer."""
        for id in [id for id, run in self._runs.items() if self._is_log_expired(run, now)]:
            self.drop(id)

    def _take(self, response_id: str, holder: str) -> ClaimedRun:
        run = self._runs[response_id]
        run.holder, run.token = holder, run.token + 1
        run.status, run.start = "in_progress", replace(run.start, holder=holder)
        self._store.conversations.take_locks(response_id, holder)
        turn = self._store.get(response_id)
        if turn.status == "queued":
            turn = with_status(turn, run.status)
            self._store.put(turn)
        return ClaimedRun(turn, run.start, run.token, run.last_seq, run.is_cancel_requested)

    def _require(self, response_id: str, token: int) -> _StoredRun:
        run = self._runs.get(response_id)
        check_token(response_id, token, None if run is None else run.token)
        assert run is not None
        return run

    def _append(self, run: _StoredRun, response_id: str, batches: Sequence[LoggedBatch]) -> None:
        run.last_seq = check_order(response_id, run.last_seq, batches, self._store.name)
        run.batches += batches
        self.bytes += sum(len(batch.frames) for batch in batches)

    def _end(
        self, run: _StoredRun, turn: Turn, batches: Sequence[LoggedBatch], *, keeps_log: bool
    ) -> None:
        self._append(run, turn.id, batches)
        run.holder, run.status, run.token = None, turn.status, run.token + 1
        run.log_expires_at = self._now() + self._log_ttl_s
        if not keeps_log:
            self.drop(turn.id)

    def _is_log_expired(self, run: _StoredRun, now: int) -> bool:
        return run.log_expires_at is not None and run.log_expires_at <= now
