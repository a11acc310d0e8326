"""Counters of limits that processes share over Redis; see `[shared]`.

Each request of a client with limits makes one round trip. If the server is away, requests do not
wait for it: each process counts by itself, and tries the server again a second later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from antiphon.config import ClientLimitConfig, SharedConfig
from antiphon.engine.runtime import Runtime
from antiphon.engine.shared.redis_link import import_redis
from antiphon.engine.tracing import DOLLAR
from antiphon.observe.counters import LimitName, MemoryLimitCounters, Standing, list_periods

TIMEOUT_S = 0.5
RETRY_S = 1.0
_MAX_RUNNING_S = 2 * 3600.0  # after which a request of a process that is gone does not count
_MAX_QUEUED = 10_000
_NO_LIMIT = -1
_LIMITS: tuple[LimitName, ...] = (
    "cost_per_month",
    "cost_per_day",
    "requests_per_minute",
    "tokens_per_minute",
    "max_streams",
)

# Keys: requests, tokens, running, month, day. Arguments: now, id, end, costs of the month and of
# the day that this process knows of, then the limits in the order of _LIMITS (-1: none).
_ACQUIRE = """
local now = tonumber(ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 60)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - 60)
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
local tokens, entries = 0, redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
for i = 1, #entries, 2 do tokens = tokens + tonumber(string.match(entries[i], '^%d+')) end
local used = {
  math.max(tonumber(redis.call('GET', KEYS[4]) or 0), tonumber(ARGV[4])),
  math.max(tonumber(redis.call('GET', KEYS[5]) or 0), tonumber(ARGV[5])),
  redis.call('ZCARD', KEYS[1]), tokens, redis.call('ZCARD', KEYS[3])}
local refused = 0
for i = 1, 5 do
  local limit = tonumber(ARGV[5 + i])
  if limit >= 0 and used[i] >= limit then refused = i break end
end
if refused == 0 then
  redis.call('ZADD', KEYS[1], now, ARGV[2])
  redis.call('ZADD', KEYS[3], ARGV[3], ARGV[2])
  redis.call('EXPIRE', KEYS[1], 61)
  redis.call('EXPIRE', KEYS[3], 7200)
end
local function target(total, limit) if total >= limit then return limit - 1 end return 0 end
local requests, limit, wait, token_wait = redis.call('ZCARD', KEYS[1]), tonumber(ARGV[8]), 0, 0
if limit >= 0 and requests > 0 then
  local index = requests - target(requests, limit) - 1
  local entry = redis.call('ZRANGE', KEYS[1], index, index, 'WITHSCORES')
  if entry[2] then wait = entry[2] + 60 - now end
end
limit = tonumber(ARGV[9])
if limit >= 0 then
  local left, goal = tokens, target(tokens, limit)
  for i = 1, #entries, 2 do
    if left > goal then
      left = left - tonumber(string.match(entries[i], '^%d+'))
      token_wait = entries[i + 1] + 60 - now
    end
  end
end
return {refused, requests, tokens, string.format('%d', used[refused] or 0),
  tostring(math.max(0, wait)), tostring(math.max(0, token_wait))}
"""

# The same keys. Arguments: now, id, tokens, cost.
_RELEASE = """
redis.call('ZREM', KEYS[3], ARGV[2])
if ARGV[3] ~= '0' then
  redis.call('ZADD', KEYS[2], ARGV[1], ARGV[3] .. ':' .. ARGV[2])
  redis.call('EXPIRE', KEYS[2], 61)
end
if ARGV[4] ~= '0' then
  for i = 4, 5 do
    redis.call('INCRBY', KEYS[i], ARGV[4])
    redis.call('EXPIRE', KEYS[i], 2764800)
  end
end
"""


class RedisLimitCounters:
    """Counters of all processes; `memory` counts for this one while the server is away."""

    def __init__(
        self,
        config: SharedConfig,
        runtime: Runtime,
        memory: MemoryLimitCounters,
        *,
        timeout_s: float = TIMEOUT_S,
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
        self._memory = memory
        self._releases: list[tuple[Any, ...]] = []
        self._away_until = 0.0
        self._flushing: asyncio.Task[None] | None = None

    async def acquire(self, client: str, request_id: str, limits: ClientLimitConfig) -> Standing:
        if self._runtime.monotonic() < self._away_until:
            return await self._memory.acquire(client, request_id, limits)
        now = self._runtime.epoch_s()
        known = self._memory.spent(client)
        values = (now, request_id, now + _MAX_RUNNING_S, *known, *_list_limits(limits))
        try:
            found = await self._call((_ACQUIRE, 5, *self._keys(client, now), *values))
        except self._errors:
            self._away_until = self._runtime.monotonic() + RETRY_S
            return await self._memory.acquire(client, request_id, limits)
        return _read_standing(found)

    def release(self, client: str, request_id: str, tokens: int, cost: int) -> None:
        self._memory.release(client, request_id, tokens, cost)
        now = self._runtime.epoch_s()
        del self._releases[: len(self._releases) - _MAX_QUEUED]
        keys = self._keys(client, now)
        self._releases.append((_RELEASE, 5, *keys, now, request_id, tokens, cost))
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    def note_spent(self, client: str, spent: Mapping[str, int]) -> None:
        """Count it in this process: the counters of the server have it already, or are lower."""
        self._memory.note_spent(client, spent)

    async def close(self) -> None:
        if self._flushing is not None:
            await asyncio.wait((self._flushing,))
        await self._flush()
        await self._client.aclose()

    async def _flush(self) -> None:
        try:
            if self._releases and self._runtime.monotonic() >= self._away_until:
                await self._call()
        except self._errors:
            self._away_until = self._runtime.monotonic() + RETRY_S

    async def _call(self, *calls: tuple[Any, ...]) -> Any:
        """Make calls in one round trip, after everything that was released before; return the
        result of the last."""
        releases, self._releases = self._releases, []
        try:
            async with asyncio.timeout(self._timeout_s):
                async with self._client.pipeline(transaction=False) as pipeline:
                    for each in (*releases, *calls):
                        pipeline.eval(*each)
                    return (await pipeline.execute())[-1]
        except BaseException:
            self._releases = [*releases, *self._releases]
            raise

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
