"""What disturbs a cluster: gateways are killed, PostgreSQL is restarted, Redis is killed."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.support.cluster.chaos.records import Life, Timeline, now
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.gateway_process import GatewayProcess

KILL_EVERY_S = 2.0
RETRY_S = 0.5
REDIS_AWAY_S = 3.0
POSTGRES_AWAY_S = 6.0
"""Length of the second outage: longer than requests wait for the store, and than the lease."""
SETTLE_S = 1.5
"""How long after its return the store still counts as away: gateways connect again every second."""


class Disturbance:
    """Knows which gateways are up."""

    def __init__(self, cluster: Cluster, timeline: Timeline, rng: random.Random) -> None:
        self._cluster, self._timeline, self._rng = cluster, timeline, rng
        self._up = dict.fromkeys(gateway.name for gateway in cluster.gateways)
        self._gateways = {gateway.name: gateway for gateway in cluster.gateways}
        self._tasks: list[asyncio.Task[Any]] = []
        for name in self._up:
            timeline.lives[name].append(Life(now()))

    def choose(self, without: str = "") -> GatewayProcess:
        """Choose a gateway that is up; another one than `without`, if there is one."""
        names = [name for name in self._up if name != without] or [*self._up]
        return self._gateways[self._rng.choice(names)]

    async def run(self, seconds: float) -> None:
        """Disturb for so long; afterwards everything is up again."""
        jobs = [
            self._kill_gateways(seconds),
            self._restart_postgres(0.25 * seconds, "fast", 0.0),
            self._restart_postgres(0.65 * seconds, "immediate", POSTGRES_AWAY_S),
            self._kill_redis(0.45 * seconds),
        ]
        await asyncio.gather(*jobs)
        await asyncio.gather(*self._tasks)

    async def _kill_gateways(self, seconds: float) -> None:
        ends_at = now() + seconds
        while now() < ends_at:
            await asyncio.sleep(KILL_EVERY_S)
            if len(self._up) > 1:  # one is left, however slowly the others start
                name = next(iter(self._up))  # the one that lives longest
                del self._up[name]
                self._timeline.lives[name][-1].killed_at = now()
                await self._gateways[name].kill()
                self._tasks.append(asyncio.create_task(self._start(name)))

    async def _start(self, name: str) -> None:
        """Start it as a supervisor does: again if it ends because the database is away."""
        while True:
            try:
                await self._gateways[name].start()
                break
            except ChildProcessError:
                await asyncio.sleep(RETRY_S)
        self._timeline.lives[name].append(Life(now()))
        self._up[name] = None

    async def _restart_postgres(self, after_s: float, mode: str, away_s: float) -> None:
        await asyncio.sleep(after_s)
        begun = now()
        place = len(self._timeline.outages)
        self._timeline.outages.append((begun, float("inf")))
        await asyncio.to_thread(self._cluster.postgres.stop, mode)
        await asyncio.sleep(away_s)
        await asyncio.to_thread(self._cluster.postgres.start)
        self._timeline.outages[place] = (begun, now() + SETTLE_S)

    async def _kill_redis(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._cluster.redis.kill()
        self._timeline.redis_kills += 1
        await asyncio.sleep(REDIS_AWAY_S)
        await self._cluster.redis.start()
