"""Counters of limits that processes share over Redis; see `[shared]`.

Each request of a client with limits makes one round trip. If the server is away, requests do not
wait for it: each process counts by itself, and tries the server again a second later.

Minutes are those of the server's clock, so that gateways whose clocks differ count the same. A
running request is counted for a minute at a time, and renewed while it runs: those of a process
that is gone do not stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from msgspec import Struct

from antiphon.config import ClientLimitConfig, SharedConfig
from antiphon.engine.runtime import Runtime
from antiphon.engine.shared.redis_link import import_redis
from antiphon.engine.tracing import DOLLAR
from antiphon.observe.counters import LimitName, MemoryLimitCounters, Standing, list_periods

TIMEOUT_S = 0.5
RETRY_S = 1.0
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


class RedisLimitCounters:
    """Counters of all processes; `memory` counts for this one while the server is away."""

    def __init__(
        self,
        config: SharedConfig,
        runtime: Runtime,
        memory: MemoryLimitCounters,
        *,
        timeout_s: float = TIMEOUT_S,
        now: ServerClock = lambda: None,
    ) -> None:
        """A server that does not answer within `timeout_s` is away."""
        redis = import_redis()
        self._errors = (OSError, TimeoutError, redis.RedisError)
        self._client: Any = redis.asyncio.from_url(
            config.url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s
        )
        self._timeout_s = timeout_s
        self._prefix = config.prefix
        self._runtime = runtime
        self._now = now
        self._memory = memory
        self._running: dict[str, str] = {}
        """Clients of the requests that were admitted and not released, by request."""
        self._releases: list[_Release] = []
        self._away_until = 0.0
        self._flushing: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def acquire(self, client: str, request_id: str, limits: ClientLimitConfig) -> Standing:
        standing = await self._acquire(client, request_id, limits)
        if standing.refused_by is None:
            self._running[request_id] = client
            self._keep_renewing()
        return standing

    async def _acquire(self, client: str, request_id: str, limits: ClientLimitConfig) -> Standing:
        if self._runtime.monotonic() < self._away_until:
            return await self._memory.acquire(client, request_id, limits)
        keys = self._keys(client, self._runtime.epoch_s())
        values = (self._time(), request_id, *self._memory.spent(client), *_list_limits(limits))
        try:
            found = await self._call((_ACQUIRE, 5, *keys, *values))
        except self._errors:
            return await self._memory.acquire(client, request_id, limits)
        return _read_standing(found)

    def release(self, client: str, request_id: str, tokens: int, cost: int) -> None:
        self._memory.release(client, request_id, tokens, cost)
        self._running.pop(request_id, None)
        self._queue(client, request_id, tokens, cost)
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    def note_spent(self, client: str, spent: Mapping[str, int]) -> None:
        """Count it in this process: the counters of the server have it already, or are lower."""
        self._memory.note_spent(client, spent)

    async def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait((self._renewing,))
        if self._flushing is not None:
            await asyncio.wait((self._flushing,))
        await self._flush()
        await self._client.aclose()

    def _queue(self, client: str, request_id: str, tokens: int, cost: int) -> None:
        at, epoch_s = self._runtime.monotonic(), self._runtime.epoch_s()
        self._releases.append(_Release(client, request_id, tokens, cost, at, epoch_s))
        del self._releases[:-_MAX_QUEUED]
        self._keep_renewing()

    def _keep_renewing(self) -> None:
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.get_running_loop().create_task(self._renew_all())

    async def _renew_all(self) -> None:
        """Send what could not be sent, and renew what runs, until there is nothing left."""
        renewed_at = self._runtime.monotonic()
        while self._running or self._releases:
            await self._runtime.sleep(RETRY_S)
            await self._flush()
            now = self._runtime.monotonic()
            if self._running and now >= max(renewed_at + _RENEW_S, self._away_until):
                with suppress(*self._errors):
                    await self._renew()
                    renewed_at = now

    async def _renew(self) -> None:
        sent, calls = dict(self._running), []
        for client in dict.fromkeys(sent.values()):
            key = self._keys(client, self._runtime.epoch_s())[2]
            ids = [id for id, each in sent.items() if each == client]
            calls.append((_RENEW, 1, key, self._time(), *ids))
        await self._call(*calls)
        for id in sent.keys() - self._running.keys():  # released meanwhile, maybe before
            self._queue(sent[id], id, 0, 0)

    async def _flush(self) -> None:
        with suppress(*self._errors):
            if self._releases and self._runtime.monotonic() >= self._away_until:
                await self._call()

    async def _call(self, *calls: tuple[Any, ...]) -> Any:
        """Make calls in one round trip, after everything that was released before; return the
        result of the last."""
        releases, self._releases = self._releases, []
        try:
            async with asyncio.timeout(self._timeout_s):
                async with self._client.pipeline(transaction=False) as pipeline:
                    for each in (*map(self._release_call, releases), *calls):
                        pipeline.eval(*each)
                    return (await pipeline.execute())[-1]
        except BaseException as error:
            self._releases = [*releases, *self._releases]
            if isinstance(error, self._errors):
                self._away_until = self._runtime.monotonic() + RETRY_S
            raise

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
        return [f"{self._prefix}:limits:{{{client}}}:{name}" for name in names]


def _list_limits(limits: ClientLimitConfig) -> list[int]:
    values = {name: getattr(limits, name) for name in _LIMITS}
    scales = {name: DOLLAR if name.startswith("cost") else 1 for name in _LIMITS}
    return [
        _NO_LIMIT if value is None else round(value * scales[name])
        for name, value in values.items()
    ]


def _read_standing(found: Any) -> Standing:
    refused, requests, tokens, spent, requests_reset_s, tokens_reset_s = found
    refused_by = _LIMITS[refused - 1] if refused else None
    is_cost = refused_by is not None and refused_by.startswith("cost")
    return Standing(
        refused_by=refused_by,
        requests=requests,
        tokens=tokens,
        spent=int(spent) if is_cost else 0,
        requests_reset_s=float(requests_reset_s),
        tokens_reset_s=float(tokens_reset_s),
    )
