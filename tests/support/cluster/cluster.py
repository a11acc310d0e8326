"""A cluster on this machine: gateways in processes of their own, PostgreSQL, Redis, a provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.cluster.gateway_process import GatewayProcess, Settings
from tests.support.postgres import PostgresServer, run_server
from tests.support.redis_server import RedisServer, redis_server
from tests.support.upstream import Script, Upstream, upstream

LEASE_S = 2.0


@dataclass
class Cluster:
    postgres: PostgresServer
    redis: RedisServer
    provider: Upstream
    gateways: list[GatewayProcess] = field(default_factory=list)


@asynccontextmanager
async def run_cluster(
    home: Path, count: int, script: Script, **settings: Any
) -> AsyncIterator[Cluster]:
    """Start everything, the gateways at once; stop it in the end. `script` is the provider."""
    async with AsyncExitStack() as stack:
        server = stack.enter_context(run_server())
        (home / "redis").mkdir()
        redis = await stack.enter_async_context(redis_server(home / "redis"))
        provider = await stack.enter_async_context(upstream(script))
        shared = Settings(server.new_url(), redis.url, provider.url, **settings)
        cluster = Cluster(server, redis, provider)
        for number in range(count):
            gateway = GatewayProcess(f"gateway{number}", home / f"gateway{number}", shared)
            cluster.gateways.append(gateway)
        stack.push_async_callback(_stop, cluster.gateways)
        await asyncio.gather(*(gateway.start() for gateway in cluster.gateways))
        yield cluster


async def _stop(gateways: Sequence[GatewayProcess]) -> None:
    """Stop gateways; one that does not answer was killed."""
    for ended in await asyncio.gather(*(each.stop() for each in gateways), return_exceptions=True):
        if ended is not None and not isinstance(ended, TimeoutError):
            raise ended
