"""Connection to a real Redis: facts reach other processes, also after the server was away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from antiphon.config import SharedConfig
from antiphon.engine.runtime import Runtime
from antiphon.engine.shared.facts import Fact
from antiphon.engine.shared.redis_link import RedisLink
from antiphon.stages.log import Entry
from tests.support.redis_server import redis_server

FACT = Fact("key", "up", "0123", "m")
MODEL = Fact("model", "up")
PATIENCE_S = 60.0


class Process:
    """One end of the connection, as of a process of its own."""

    def __init__(self, url: str) -> None:
        self.log: list[Entry] = []
        self.known: dict[Fact, float] = {}
        self._changed = asyncio.Event()
        self.link = RedisLink(SharedConfig(url=url), Runtime(), self._emit)

    def apply(self, fact: Fact, seconds: float) -> None:
        self.known[fact] = seconds
        self._changed.set()

    def _emit(self, entry: Entry) -> None:
        self.log.append(entry)
        self._changed.set()

    async def knows(self, fact: Fact, above: float = 0.0, most: float = 60.0) -> None:
        """Wait until a fact is known to hold for a number of seconds. What was published while
        this process connected may arrive twice, in order: the last value counts."""
        async with asyncio.timeout(PATIENCE_S):
            while not above < self.known.get(fact, -1.0) <= most:
                await self._changed.wait()
                self._changed.clear()

    async def forgets(self, fact: Fact) -> None:
        """Wait until a fact is taken back."""
        await self.knows(fact, above=-0.5, most=0.0)

    async def logs(self, event: str) -> Entry:
        async with asyncio.timeout(PATIENCE_S):
            while not self.log or self.log[-1].event != event:
                await self._changed.wait()
                self._changed.clear()
        return self.log[-1]


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Process]:
    process = Process(url)
    process.link.start(process.apply)
    try:
        yield process
    finally:
        await process.link.close()


async def test_a_fact_reaches_others_and_those_that_come_later(tmp_path: Path) -> None:
    async with (
        redis_server(tmp_path) as server,
        connected(server.url) as first,
        connected(server.url) as second,
    ):
        first.link.publish(FACT, 60.0)
        await second.knows(FACT, above=50)
        first.link.publish(FACT, 30.0)
        await second.knows(FACT, most=30)
        async with connected(server.url) as third:
            await third.knows(FACT, most=30)
            second.link.publish(FACT, 0.0)
            await third.forgets(FACT)
            await first.forgets(FACT)
        async with connected(server.url) as fourth:
            second.link.publish(MODEL, 60.0)
            await fourth.knows(MODEL)
            assert set(fourth.known) == {MODEL}
        await first.knows(MODEL)
        assert set(first.known) == {FACT, MODEL}
        assert set(second.known) == {FACT}
        assert first.log == second.log == []


async def test_a_server_that_is_away_is_reported_once_and_used_when_it_is_back(
    tmp_path: Path,
) -> None:
    async with redis_server(tmp_path) as server, connected(server.url) as first:
        async with connected(server.url) as second:
            first.link.publish(FACT, 60.0)
            await second.knows(FACT)
            server.kill()
            lost = await first.logs("shared.unavailable")
            assert (lost.level, lost.facts["server"]) == ("warning", server.url)
            await second.logs("shared.unavailable")
            first.link.publish(Fact("model", "up", model="late"), 60.0)
            await server.start()
            await second.knows(Fact("model", "up", model="late"))
        assert [entry.event for entry in second.log] == ["shared.unavailable", "shared.available"]
        assert (await first.logs("shared.available")).level == "info"


async def test_a_server_that_is_away_at_the_start_does_not_matter(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as server:
        server.kill()
        async with connected(server.url) as process:
            await process.logs("shared.unavailable")
            await server.start()
            await process.logs("shared.available")
        assert len(process.log) == 2
