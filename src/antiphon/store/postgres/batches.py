"""Batched writes: calls of the same statement share a round trip and a commit.

While one batch is written, new calls are collected for the next one, so a single call never waits
for others. A call that fails by itself does not fail the rest of its batch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from msgspec import Struct

from antiphon.errors import StoreError, StoreUnavailable
from antiphon.store.postgres.connections import Connections

BATCH = 256
BATCH_BYTES = 4 << 20
"""A batch is not continued beyond this size: it must be written within `wait_s`."""
_FIRST_DELAY_S = 0.05
_MAX_DELAY_S = 1.0


class _Call(Struct):
    values: tuple[Any, ...]
    future: asyncio.Future[Any]
    is_repeated: bool
    """Whether it may have been written before: the last parameter of every statement."""
    deadline: float
    """Time of the event loop after which it is not tried any more."""

    @property
    def size(self) -> int:
        """Bytes of its bodies and frames."""
        size = 0
        for value in self.values:
            if type(value) is bytes:
                size += len(value)
            elif type(value) is list and value and type(value[0]) is bytes:
                size += sum(map(len, value))
        return size


class BatchedStatement:
    """One statement that returns one row for each call."""

    def __init__(
        self, connections: Connections, query: str, *, ordered_by: int | None = None
    ) -> None:
        """`ordered_by` is the index of the parameter that names a row which gateways write at the
        same time: all batches lock such rows in one order, and no two wait for each other."""
        self.transactions = 0
        """Number of transactions committed."""
        self._connections = connections
        self._query = query
        self._ordered_by = ordered_by
        self._waiting: deque[_Call] = deque()
        self._writer: asyncio.Task[None] | None = None

    async def run(self, *values: Any, is_repeated: bool = False) -> Any:
        """Run the statement; returns its row once that is committed. Raises `StoreUnavailable` if
        the database is away for too long: it may have been written all the same."""
        loop = asyncio.get_running_loop()
        wait_s = self._connections.wait_s
        call = _Call(values, loop.create_future(), is_repeated, loop.time() + wait_s)
        self._waiting.append(call)
        if self._writer is None:
            self._writer = loop.create_task(self._write_all())
        timer = loop.call_at(call.deadline, self._give_up, call.future)
        try:
            return await call.future
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Wait for the batch being written; for an unreachable database, not longer than a call."""
        if self._writer is not None:
            await asyncio.wait((self._writer,))

    def _give_up(self, future: asyncio.Future[Any]) -> None:
        if not future.done():
            name = self._connections.address.name
            wait_s = self._connections.wait_s
            future.set_exception(StoreUnavailable(f"{name}: no response within {wait_s:g} s."))

    async def _write_all(self) -> None:
        delay_s = _FIRST_DELAY_S
        try:
            while calls := self._take():
                if await self._write(calls):
                    delay_s = _FIRST_DELAY_S
                else:
                    await asyncio.sleep(delay_s)
                    delay_s = min(delay_s * 2, _MAX_DELAY_S)
        finally:
            self._writer = None

    def _take(self) -> list[_Call]:
        """Take the next calls but those that were given up. A caller that was cancelled does not
        wait any more; what it wanted to write is written, as by the other stores, unless the
        database is away for too long."""
        calls: list[_Call] = []
        size = 0
        while self._waiting and len(calls) < BATCH and size < BATCH_BYTES:
            call = self._waiting.popleft()
            if _is_wanted(call):
                calls.append(call)
                size += call.size
        if (index := self._ordered_by) is not None:
            calls.sort(key=lambda call: call.values[index] or "")
        return calls

    async def _write(self, calls: list[_Call]) -> bool:
        """Write calls in one transaction; False if the database is away: they are kept. Calls that
        were given up while a connection was waited for are left out."""
        sent = [False]
        wait_s = self._connections.wait_s

        async def work(connection: Any, _: bool) -> Any:
            calls[:] = filter(_is_wanted, calls)
            values = [(*call.values, call.is_repeated) for call in calls]
            if not values:
                return []
            return await connection.fetchmany(self._query, values, timeout=wait_s)

        try:
            rows = await self._connections.attempt(work, False, sent)
        except StoreError as error:
            if Connections.may_repeat(error):
                self._keep(calls, sent[0])
                return False
            await self._fail_or_divide(calls, error)
            return True
        self.transactions += bool(calls)
        for call, row in zip(calls, rows, strict=True):
            if not call.future.done():
                call.future.set_result(row)
        return True

    def _keep(self, calls: list[_Call], is_repeated: bool) -> None:
        for call in calls:
            call.is_repeated = call.is_repeated or is_repeated
        self._waiting.extendleft(reversed(calls))

    async def _fail_or_divide(self, calls: list[_Call], error: StoreError) -> None:
        """Fail a call; write each of several by itself, because one of them is at fault."""
        if len(calls) > 1:
            for call in calls:
                await self._write([call])
        elif not calls[0].future.done():
            calls[0].future.set_exception(error)


def _is_wanted(call: _Call) -> bool:
    """Whether a call is still to be written: its caller waits for it, or has left before the
    deadline."""
    if call.future.cancelled():
        return asyncio.get_running_loop().time() < call.deadline
    return not call.future.done()
