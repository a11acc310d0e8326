"""Scripts that count limits on a Redis server, and the connection that runs them.

Minutes are those of the server's clock, so that gateways whose clocks differ count the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from antiphon.config import ClientLimitConfig
from antiphon.engine.accounting import DOLLAR
from antiphon.engine.shared.redis_link import import_redis
from antiphon.observe.counters import LimitName, LimitState, list_periods

TIMEOUT_S = 2.0
_MAX_LATE = 10  # how often a reply is waited for again because this process was busy
_RUNNING_S = 60  # after which a request of a process that is gone does not count
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

Script: TypeAlias = tuple[Any, ...]
"""A script with the number of its keys, the keys, and the arguments: the parameters of EVAL."""

ServerClock: TypeAlias = Callable[[], float | None]
"""Returns the time of minutes; None is the time of the server, the same for all gateways."""


class ScriptConnection:
    """A server that runs scripts, several in one round trip."""

    def __init__(self, url: str, timeout_s: float) -> None:
        """A server that does not reply within `timeout_s` is away."""
        redis = import_redis()
        self.errors = (OSError, TimeoutError, redis.RedisError)
        """Raised by `run` if the server is away."""
        self._client: Any = redis.asyncio.from_url(url, retry=None)
        self._timeout_s = timeout_s

    async def run(self, scripts: Sequence[Script]) -> list[Any]:
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

    async def _execute(self, scripts: Sequence[Script]) -> list[Any]:
        async with self._client.pipeline(transaction=False) as pipeline:
            pipeline.ping()
            for each in scripts:
                pipeline.eval(*each)
            replies: list[Any] = await pipeline.execute()
            return replies[1:]

    async def close(self) -> None:
        await self._client.aclose()


class LimitScripts:
    """Scripts for the counters of clients, whose keys begin with `prefix`."""

    def __init__(self, prefix: str, now: ServerClock) -> None:
        self._prefix = prefix
        self._now = now

    def acquire(
        self,
        client: str,
        request_id: str,
        limits: ClientLimitConfig,
        spent: tuple[int, int],
        epoch_s: float,
    ) -> Script:
        """Count a request that begins, unless a limit is reached. `spent` is what this process
        knows of the costs of the month and of the day; for its reply, see `read_state`."""
        keys = self._keys(client, epoch_s)
        values = (self._time(), request_id, *spent, *_list_limits(limits))
        return (_ACQUIRE, 5, *keys, *values)

    def release(
        self, client: str, request_id: str, tokens: int, cost: int, age_s: float, epoch_s: float
    ) -> Script:
        """Count what a request has used that ended `age_s` ago, at `epoch_s`."""
        keys = self._keys(client, epoch_s)
        return (_RELEASE, 5, *keys, self._time(), request_id, tokens, cost, age_s)

    def renew(self, client: str, request_ids: Sequence[str], epoch_s: float) -> Script:
        """Count requests as running for another minute."""
        key = self._keys(client, epoch_s)[2]
        return (_RENEW, 1, key, self._time(), *request_ids)

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


def read_state(found: Any) -> LimitState:
    """Read the reply to `LimitScripts.acquire`."""
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
