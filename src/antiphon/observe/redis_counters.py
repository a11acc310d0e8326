"""Counters of limits that processes share over Redis; see `[shared]`.

Requests are sent to the server in batches, one batch at a time over one connection: a burst waits
its turn, and cannot exhaust a pool or the patience with the server. The server is away if it cannot
be reached, or does not reply to a batch. Then no request waits for it: each process goes on
counting by itself, what it has admitted before included, until the server replies again.

Minutes are those of the server's clock, so that gateways whose clocks differ count the same. A
running request is counted for a minute at a time, and renewed while it runs: those of a process
that is gone do not stay.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any, TypeAlias

from msgspec import Struct

from antiphon.config import ClientLimitConfig, SharedConfig
from antiphon.engine.accounting import DOLLAR
from antiphon.engine.runtime import Runtime
from antiphon.engine.shared.redis_link import import_redis
from antiphon.observe.counters import LimitName, LimitState, MemoryLimitCounters, list_periods
from antiphon.stages.log import Entry

TIMEOUT_S = 2.0
RETRY_S = 1.0
_BATCH = 100  # requests in one round trip
_MAX_LATE = 10  # how often a reply is waited for again because this process was busy
_RUNNING_S = 60  # after which a request of a process that is gone does not count
_RENEW_S = 20.0
_MAX_QUEUED = 10_000
_NO_LIMIT = -1
_LIMITS: tuple[LimitName, ...] = (
    "cost_per_month",
    "cost_per_day",
    "requests_per_minute",
    "tokens_per_minute",
    "max_streams",
)

_BEGIN = f"""
local running_s = {_RUNNING_S}
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1000000
end
"""

# Keys: requests, tokens, running, month, day. Arguments: now (empty: the time of the server), id,
# costs of the month and of the day that this process knows of, then the limits in the order of
# _LIMITS (-1: none).
_ACQUIRE = f"""{_BEGIN}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 60)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - 60)
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
local tokens, entries = 0, redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
for i = 1, #entries, 2 do tokens = tokens + tonumber(string.match(entries[i], '^%d+')) end
local used = {{
  math.max(tonumber(redis.call('GET', KEYS[4]) or 0), tonumber(ARGV[3])),
  math.max(tonumber(redis.call('GET', KEYS[5]) or 0), tonumber(ARGV[4])),
  redis.call('ZCARD', KEYS[1]), tokens, redis.call('ZCARD', KEYS[3])}}
local refused = 0
for i = 1, 5 do
  local limit = tonumber(ARGV[4 + i])
  if limit >= 0 and used[i] >= limit then refused = i break end
end
if refused == 0 then
  redis.call('ZADD', KEYS[1], now, ARGV[2])
  redis.call('ZADD', KEYS[3], now + running_s, ARGV[2])
  redis.call('EXPIRE', KEYS[1], 61)
  redis.call('EXPIRE', KEYS[3], running_s + 1)
end
local function target(total, limit) if total >= limit then return limit - 1 end return 0 end
local requests, limit, wait, token_wait = redis.call('ZCARD', KEYS[1]), tonumber(ARGV[7]), 0, 0
if limit >= 0 and requests > 0 then
  local index = requests - target(requests, limit) - 1
  local entry = redis.call('ZRANGE', KEYS[1], index, index, 'WITHSCORES')
  if entry[2] then wait = entry[2] + 60 - now end
end
limit = tonumber(ARGV[8])
if limit >= 0 then
  local left, goal = tokens, target(tokens, limit)
  for i = 1, #entries, 2 do
    if left > goal then
      left = left - tonumber(string.match(entries[i], '^%d+'))
      token_wait = entries[i + 1] + 60 - now
    end
  end
end
return {{refused, requests, tokens, string.format('%d', used[refused] or 0),
  tostring(math.max(0, wait)), tostring(math.max(0, token_wait))}}
"""

# The same keys. Arguments: now, id, tokens, cost, seconds since it was released. A call whose reply
# was lost is repeated: the entry of its tokens says that its cost was counted.
_RELEASE = f"""{_BEGIN}
redis.call('ZREM', KEYS[3], ARGV[2])
local is_new = 1
if ARGV[3] ~= '0' then
  is_new = redis.call('ZADD', KEYS[2], now - ARGV[5], ARGV[3] .. ':' .. ARGV[2])
  redis.call('EXPIRE', KEYS[2], 61)
end
if ARGV[4] ~= '0' and is_new == 1 then
  for i = 4, 5 do
    redis.call('INCRBY', KEYS[i], ARGV[4])
    redis.call('EXPIRE', KEYS[i], 2764800)
  end
end
"""

# The key of running requests of one client. Arguments: now, ids.
_RENEW = f"""{_BEGIN}
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], now + running_s, ARGV[i]) end
redis.call('EXPIRE', KEYS[1], running_s + 1)
"""

_PER_PROCESS = "each process counts the limits of clients by itself"

ServerClock: TypeAlias = Callable[[], float | None]
"""Returns the time of minutes; None is the time of the server, the same for all gateways."""


class _Release(Struct, frozen=True):
    client: str
    request_id: str
    tokens: int
    cost: int
    at: float
    """Of the monotonic clock."""
    epoch_s: float
    """For day and month."""


class _Asked(Struct, eq=False):
    """A request that waits for its turn. Its state is None if the server is away."""

    client: str
    request_id: str
    limits: ClientLimitConfig
    state: asyncio.Future[LimitState | None]


class RedisLimitCounters:
    """Counters of all processes; `memory` counts for this one while the server is away."""

    def __init__(
        self,
        config: SharedConfig,
        runtime: Runtime,
        memory: MemoryLimitCounters,
        emit: Callable[[Entry], None],
        *,
        timeout_s: float = TIMEOUT_S,
        now: ServerClock = lambda: None,
    ) -> None:
        """A server that does not reply within `timeout_s` is away."""
        redis = import_redis()
        self._errors = (OSError, TimeoutError, redis.RedisError)
        self._client: Any = redis.asyncio.from_url(config.url, retry=None)
        self._timeout_s = timeout_s
        self._config = config
        self._runtime = runtime
        self._emit = emit
        self._now = now
        self._memory = memory
        self._asked: deque[_Asked] = deque()
        self._running: dict[str, str] = {}
        """Clients of the requests that were admitted and not released, by request."""
        self._releases: list[_Release] = []
        self._is_away = False
        self._sending: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        return

    async def acquire(self, client: str, request_id: str, limits: ClientLimitConfig) -> LimitState:
        state = None if self._is_away else await self._ask(client, request_id, limits)
        if state is None:
            state = self._memory.acquire_now(client, request_id, limits)
        elif state.refused_by is None:
            self._memory.count(client, request_id)
        if state.refused_by is None:
            self._running[request_id] = client
            self._keep_renewing()
        return state

    async def _ask(
        self, client: str, request_id: str, limits: ClientLimitConfig
    ) -> LimitState | None:
        """Ask the server in the next batch; None if it is away."""
        state: asyncio.Future[LimitState | None] = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(client, request_id, limits, state))
        self._keep_sending()
        return await state

    def release(self, client: str, request_id: str, tokens: int, cost: int) -> None:
        self._memory.release(client, request_id, tokens, cost)
        self._running.pop(request_id, None)
        self._queue(client, request_id, tokens, cost)
        self._keep_sending()

    def note_spent(self, client: str, spent: Mapping[str, int]) -> None:
        """Count it in this process: the counters of the server have it already, or are lower."""
        self._memory.note_spent(client, spent)

    async def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait((self._renewing,))
        self._keep_sending()
        if self._sending is not None:
            await asyncio.wait((self._sending,))
        await self._client.aclose()

    def _queue(self, client: str, request_id: str, tokens: int, cost: int) -> None:
        at = self._runtime.monotonic()
        epoch_s = self._runtime.epoch_s()
        self._releases.append(_Release(client, request_id, tokens, cost, at, epoch_s))
        del self._releases[:-_MAX_QUEUED]
        self._keep_renewing()

    # Sending, one batch at a time

    def _keep_sending(self) -> None:
        if not self._is_away and (self._sending is None or self._sending.done()):
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        while (self._asked or self._releases) and not self._is_away:
            batch = [self._asked.popleft() for _ in range(min(_BATCH, len(self._asked)))]
            try:
                replies = await self._call(*map(self._acquire_call, batch))
            except self._errors as error:
                self._report_away(error)
                _answer([*batch, *self._asked], [])
                self._asked.clear()
                return
            for each in _answer(batch, [_read_state(reply) for reply in replies]):
                self._queue(each.client, each.request_id, 0, 0)

    async def _call(self, *calls: tuple[Any, ...]) -> list[Any]:
        """Make calls in one round trip, after everything that was released before; return their
        results."""
        releases, self._releases = self._releases, []
        try:
            scripts = [*map(self._release_call, releases), *calls]
            return (await self._reply_to(scripts))[len(releases) :]
        except BaseException:
            self._releases = [*releases, *self._releases]
            raise

    async def _reply_to(self, scripts: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send scripts; raises `TimeoutError` if there is no reply in time. A reply that arrives
        while this process is busy with something else is in time."""
        loop = asyncio.get_running_loop()
        sent = loop.create_task(self._execute(scripts))
        try:
            for _ in range(_MAX_LATE):
                due = loop.time() + self._timeout_s
                await asyncio.wait((sent,), timeout=self._timeout_s)
                if sent.done() or loop.time() < due + self._timeout_s / 4:
                    break
            if sent.done():
                return sent.result()
            raise TimeoutError(f"no reply within {self._timeout_s:g} s")
        finally:
            sent.cancel()
            await asyncio.wait((sent,))

    async def _execute(self, scripts: Sequence[tuple[Any, ...]]) -> list[Any]:
        async with self._client.pipeline(transaction=False) as pipeline:
            pipeline.ping()
            for each in scripts:
                pipeline.eval(*each)
            replies: list[Any] = await pipeline.execute()
            return replies[1:]

    # Renewing, and looking for a server that is away

    def _keep_renewing(self) -> None:
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.get_running_loop().create_task(self._renew_all())

    async def _renew_all(self) -> None:
        """Look for the server if it is away, send what could not be sent, and renew what runs,
        until there is nothing left to do."""
        renewed_at = self._runtime.monotonic()
        while self._running or self._releases or self._is_away:
            await self._runtime.sleep(RETRY_S)
            if self._is_away and not await self._is_back():
                continue
            self._keep_sending()
            now = self._runtime.monotonic()
            if self._running and now >= renewed_at + _RENEW_S:
                with suppress(*self._errors):
                    await self._renew()
                    renewed_at = now

    async def _is_back(self) -> bool:
        try:
            await self._call()
        except self._errors:
            return False
        self._is_away = False
        self._emit(Entry("limits.shared", "info", {"server": self._config.address}))
        return True

    def _report_away(self, error: Exception) -> None:
        self._is_away = True
        reason = f"{type(error).__name__}: {error}"
        facts = {"server": self._config.address, "reason": reason, "effect": _PER_PROCESS}
        self._emit(Entry("limits.not_shared", "warning", facts))
        self._keep_renewing()

    async def _renew(self) -> None:
        sent = dict(self._running)
        calls = []
        for client in dict.fromkeys(sent.values()):
            key = self._keys(client, self._runtime.epoch_s())[2]
            ids = [id for id, each in sent.items() if each == client]
            calls.append((_RENEW, 1, key, self._time(), *ids))
        await self._call(*calls)
        for id in sent.keys() - self._running.keys():  # released during the call, maybe before
            self._queue(sent[id], id, 0, 0)

    # Calls of scripts

    def _acquire_call(self, each: _Asked) -> tuple[Any, ...]:
        keys = self._keys(each.client, self._runtime.epoch_s())
        spent = self._memory.spent(each.client)
        values = (self._time(), each.request_id, *spent, *_list_limits(each.limits))
        return (_ACQUIRE, 5, *keys, *values)

    def _release_call(self, each: _Release) -> tuple[Any, ...]:
        keys = self._keys(each.client, each.epoch_s)
        age_s = self._runtime.monotonic() - each.at
        return (
            *(_RELEASE, 5, *keys),
            *(self._time(), each.request_id, each.tokens, each.cost, age_s),
        )

    def _time(self) -> float | str:
        now = self._now()
        return "" if now is None else now

    def _keys(self, client: str, now: float) -> list[str]:
        month, day = list_periods(now)
        names = ("requests", "tokens", "running", month, day)
        return [f"{self._config.prefix}:limits:{{{client}}}:{name}" for name in names]


def _answer(batch: Sequence[_Asked], states: Sequence[LimitState]) -> list[_Asked]:
    """Tell requests their states, or without any that the server is away; return those that were
    admitted and have been given up."""
    withdrawn = []
    for each, state in zip_longest(batch, states):
        if not each.state.done():
            each.state.set_result(state)
        elif state is not None and state.refused_by is None:
            withdrawn.append(each)
    return withdrawn


def _list_limits(limits: ClientLimitConfig) -> list[int]:
    values = {name: getattr(limits, name) for name in _LIMITS}
    scales = {name: DOLLAR if name.startswith("cost") else 1 for name in _LIMITS}
    return [
        _NO_LIMIT if value is None else round(value * scales[name])
        for name, value in values.items()
    ]


def _read_state(found: Any) -> LimitState:
    refused, requests, tokens, spent, requests_reset_s, tokens_reset_s = found
    refused_by = _LIMITS[refused - 1] if refused else None
    is_cost = refused_by is not None and refused_by.startswith("cost")
    return LimitState(
        refused_by=refused_by,
        requests=requests,
        tokens=tokens,
        spent=int(spent) if is_cost else 0,
        requests_reset_s=float(requests_reset_s),
        tokens_reset_s=float(tokens_reset_s),
    )
