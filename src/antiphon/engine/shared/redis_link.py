"""Connection to Redis or Valkey: sends facts to other processes and receives theirs.

All facts are members of one sorted set whose scores are the times at which they end, for processes
that connect later, and each is published once, for those that listen. If the server is away,
nothing waits for it: facts learned until it is back are sent then.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.config import SharedConfig
from antiphon.engine.runtime import Runtime
from antiphon.engine.shared.facts import Fact
from antiphon.errors import ConfigError
from antiphon.stages.log import Entry

_MAX_PENDING = 1000
_PING_S = 2.0
_RETRY_S = (0.25, 5.0)  # at first, at most
_PER_PROCESS = "key cool-downs, circuit breakers and rejected parameters are known per process"


Apply: TypeAlias = Callable[[Fact, float], None]
"""Takes a fact of another process, which holds for so many seconds."""


class _Message(Struct, frozen=True):
    sender: str
    fact: Fact
    until: float
    """Unix time; in the past: the fact is taken back."""


_encode = msgspec.json.Encoder().encode
_decode_message = msgspec.json.Decoder(_Message).decode
_decode_fact = msgspec.json.Decoder(Fact).decode


class RedisLink:
    """Keeps a connection while it is open, and makes it again if it is lost."""

    def __init__(
        self,
        config: SharedConfig,
        runtime: Runtime,
        emit: Callable[[Entry], None],
    ) -> None:
        self._redis = import_redis()
        self._config = config
        self._now = runtime.epoch_s
        self._sender = runtime.new_id("proc")
        self._emit = emit
        self._apply: Apply = lambda fact, seconds: None
        self._facts = f"{config.prefix}:facts"
        self._channel = f"{config.prefix}:learned"
        self._pending: dict[Fact, float] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_away = False

    def publish(self, fact: Fact, seconds: float) -> None:
        """Send a fact soon. The oldest are dropped if the server is away for long."""
        self._pending.pop(fact, None)
        if len(self._pending) >= _MAX_PENDING:
            del self._pending[next(iter(self._pending))]
        self._pending[fact] = self._now() + seconds
        self._wake.set()

    def start(self, apply: Apply) -> None:
        """Connect and stay connected; `apply` is called with what other processes learn."""
        self._apply = apply
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _run(self) -> None:
        """Connect again and again; report the first failure, and that it works again."""
        failures = (OSError, TimeoutError, self._redis.RedisError)
        delay_s, most_s = _RETRY_S
        while True:
            try:
                await self._connect()
            except failures as error:
                self._report_away(error)
            delay_s = _RETRY_S[0] if not self._is_away else min(2 * delay_s, most_s)
            await asyncio.sleep(delay_s)

    async def _connect(self) -> None:
        client = self._redis.asyncio.from_url(
            self._config.url, socket_timeout=_PING_S * 2, socket_connect_timeout=_PING_S * 2
        )
        try:
            async with client.pubsub() as channel:
                await channel.subscribe(self._channel)
                await self._load(client)
                self._report_back()
                reading = asyncio.ensure_future(self._read(channel))
                writing = asyncio.ensure_future(self._write(client))
                await _run_both(reading, writing)
        finally:
            with suppress(OSError, self._redis.RedisError):
                await client.aclose()

    async def _load(self, client: Any) -> None:
        now = self._now()
        for member, until in await client.zrangebyscore(self._facts, now, "+inf", withscores=True):
            with suppress(msgspec.MsgspecError):  # of another version
                self._apply(_decode_fact(member), until - now)

    async def _read(self, channel: Any) -> None:
        while True:
            received = await channel.get_message(ignore_subscribe_messages=True, timeout=_PING_S)
            if received is None:
                continue
            with suppress(msgspec.MsgspecError):
                message = _decode_message(received["data"])
                if message.sender != self._sender:
                    self._apply(message.fact, max(0.0, message.until - self._now()))

    async def _write(self, client: Any) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PING_S):
                    await self._wake.wait()
            self._wake.clear()
            if not self._pending:
                await client.ping()
            while self._pending:
                fact, until = next(iter(self._pending.items()))
                await self._send(client, fact, until)
                if self._pending.get(fact) == until:
                    del self._pending[fact]

    async def _send(self, client: Any, fact: Fact, until: float) -> None:
        now = self._now()
        member = _encode(fact)
        async with client.pipeline(transaction=False) as pipeline:
            if until > now:
                pipeline.zadd(self._facts, {member: until})
            else:
                pipeline.zrem(self._facts, member)
            pipeline.zremrangebyscore(self._facts, "-inf", now)
            pipeline.publish(self._channel, _encode(_Message(self._sender, fact, until)))
            await pipeline.execute()

    def _report_away(self, error: Exception) -> None:
        if not self._is_away:
            self._is_away = True
            reason = f"{type(error).__name__}: {error}"
            facts = {"server": self._config.address, "reason": reason, "effect": _PER_PROCESS}
            self._emit(Entry("shared.unavailable", "warning", facts))

    def _report_back(self) -> None:
        if self._is_away:
            self._is_away = False
            self._emit(Entry("shared.available", "info", {"server": self._config.address}))


async def _run_both(*tasks: asyncio.Future[None]) -> None:
    """Run tasks until one fails; raises its error."""
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()


def import_redis() -> Any:
    """Import the client; raises `ConfigError` if it is not installed."""
    try:
        import redis
        import redis.asyncio
    except ImportError:
        message = (
            "[shared] url needs the package redis. Install it into Antiphon's environment:"
            f" pip --python {sys.executable} install redis"
        )
        raise ConfigError(message) from None
    return redis
