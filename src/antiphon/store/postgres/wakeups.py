"""Wake-ups of tails by `NOTIFY`: events of a response that another process writes.

A notification may be lost with its connection, so a tail looks for events every second as well.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from typing import Any

from antiphon.errors import StoreError
from antiphon.store.postgres.address import PostgresAddress
from antiphon.store.postgres.driver import is_driver_error
from antiphon.store.postgres.migrate import connect
from antiphon.store.postgres.text import encode_text

POLL_S = 1.0
CHECK_S = 10.0
"""How often the connection is used: one that is lost without a word is then replaced."""
_RECONNECT_S = 1.0


class Wakeups:
    """Listens with a connection of its own while there are watches."""

    def __init__(
        self, address: PostgresAddress, poll_s: float = POLL_S, check_s: float = CHECK_S
    ) -> None:
        self.poll_s = poll_s
        self._check_s = check_s
        self._address = address
        self._watches: defaultdict[str, set[NotifiedWatch]] = defaultdict(set)
        self._listening: asyncio.Task[None] | None = None

    def watch(self, response_id: str) -> NotifiedWatch:
        watch = NotifiedWatch(self, encode_text(response_id))
        self._watches[watch.key].add(watch)
        if self._listening is None:
            self._listening = asyncio.get_running_loop().create_task(self._listen())
        return watch

    def remove(self, watch: NotifiedWatch) -> None:
        watches = self._watches[watch.key]
        watches.discard(watch)
        if not watches:
            del self._watches[watch.key]

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait((self._listening,))

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except Exception as error:  # tails look for events every second
                if not isinstance(error, StoreError) and not is_driver_error(error):
                    raise
            await asyncio.sleep(_RECONNECT_S)

    async def _listen_once(self) -> None:
        """Listen until the connection is lost."""
        lost = asyncio.Event()
        connection = await connect(self._address)
        try:
            connection.add_termination_listener(lambda _: lost.set())
            channel = f"{self._address.schema}_events"
            async with asyncio.timeout(self._address.connect_s):
                await connection.add_listener(channel, self._on_notify)
            for key in list(self._watches):  # earlier notifications are lost
                self._wake(key)
            await self._check(connection, lost)
        finally:
            connection.terminate()

    async def _check(self, connection: Any, lost: asyncio.Event) -> None:
        """Use a connection now and then, until it is lost; raises an error of the driver."""
        while not lost.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._check_s):
                    await lost.wait()
            await connection.execute("SELECT 1", timeout=self._address.connect_s)

    def _on_notify(self, connection: Any, process: int, channel: str, payload: str) -> None:
        self._wake(payload)

    def _wake(self, key: str) -> None:
        for watch in self._watches.get(key, ()):
            watch.woken.set()


class NotifiedWatch:
    """An `EventWatch` that a notification ends early."""

    def __init__(self, wakeups: Wakeups, key: str) -> None:
        self.key = key
        self.woken = asyncio.Event()
        self._wakeups = wakeups

    async def wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._wakeups.poll_s):
                await self.woken.wait()
        self.woken.clear()

    def close(self) -> None:
        self._wakeups.remove(self)
